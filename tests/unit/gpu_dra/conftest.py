"""A server and a client that is connected to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from gpu_dra.kube.client import KubeClient
from gpu_dra.kube.connection import Connection
from tests.unit.gpu_dra.api_server import ApiServer


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    api = ApiServer()
    application = web.Application(client_max_size=1 << 24)
    application.router.add_route("*", "/{rest:.*}", api.answer)
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    api.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield api
    await runner.cleanup()


@pytest.fixture
async def kube(server: ApiServer) -> AsyncIterator[KubeClient]:
    async with KubeClient(Connection(server.address, token="fixed"), user_agent="gpu-dra/test") as client:
        yield client
