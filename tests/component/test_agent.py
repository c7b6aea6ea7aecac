"""The agent as a process of its own: real sockets, real files, a real API server. The test plays the kubelet."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from bench.prepare import Agent, allocate, grant, visible
from gpu_dra.kube.client import Conflict, KubeClient, path_of
from node_agent import kubelet_api
from node_agent.kubelet_api import (
    Claim,
    Claims,
    Empty,
    InfoRequest,
    PluginInfo,
    PrepareResponse,
    RegistrationStatus,
    UnprepareResponse,
)
from tests.component.apiserver import ApiServer
from tests.component.controllers import eventually

pytestmark = pytest.mark.root


@pytest.fixture
async def kube(api_server: ApiServer) -> AsyncGenerator[KubeClient]:
    async with KubeClient(api_server.connection) as client:
        with contextlib.suppress(Conflict):
            await grant(client)
        yield client


@pytest.fixture
def folder() -> Generator[Path]:
    """A short path: a socket's has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="gd-") as text:
        yield Path(text)


@pytest.fixture
async def agent(api_server: ApiServer, kube: KubeClient, folder: Path) -> AsyncGenerator[Agent]:
    running = Agent(folder, api_server, await api_server.token_for("agent", node="bench"))
    try:
        await visible(kube, api_server.resource_version)
        yield running
    finally:
        running.stop()


async def _call(agent: Agent, service: str, claims: list[Claim], *, prepare: bool = True) -> Any:
    response: type[Any] = PrepareResponse if prepare else UnprepareResponse
    method = "NodePrepareResources" if prepare else "NodeUnprepareResources"
    async with grpc.aio.insecure_channel(f"unix:{agent.socket}") as channel:
        call = channel.unary_unary(f"/{service}/{method}", Claims.SerializeToString, response.FromString)
        return await call(Claims(claims=claims))


async def test_the_agent_from_registration_to_sigterm(
    agent: Agent, api_server: ApiServer, kube: KubeClient, folder: Path
) -> None:
    version = api_server.resource_version
    registry = agent.root / "plugins_registry"
    sockets = {path.name for path in registry.iterdir()}
    assert sockets == {"gpu.nvidia.com-b-reg.sock", "nic.gpu-dra.io-b-reg.sock"}
    async with grpc.aio.insecure_channel(f"unix:{registry / 'gpu.nvidia.com-b-reg.sock'}") as channel:
        service = f"/{kubelet_api.REGISTRATION}/"
        ask = channel.unary_unary(service + "GetInfo", InfoRequest.SerializeToString, PluginInfo.FromString)
        info = await ask(InfoRequest())
        assert (info.type, info.name, info.endpoint) == ("DRAPlugin", "gpu.nvidia.com", str(agent.socket))
        assert list(info.supported_versions) == ["v1.DRAPlugin", "v1beta1.DRAPlugin"]
        tell = channel.unary_unary(
            service + "NotifyRegistrationStatus", RegistrationStatus.SerializeToString, Empty.FromString
        )
        await tell(RegistrationStatus(plugin_registered=True))

    claims = await allocate(kube, version, (await visible(kube, version))[:2])
    wrong = Claim(namespace="default", name="nobody", uid="00000000-0000-0000-0000-000000000000")
    answers = [await _call(agent, name, [*claims, wrong]) for name in kubelet_api.DRA_SERVICES]
    assert answers[0] == answers[1]
    assert "default/nobody" in answers[0].claims[wrong.uid].error
    assert all(answers[0].claims[claim.uid].devices[0].cdi_device_ids for claim in claims)

    agent.process.kill()
    agent.process.wait()
    again = Agent.again(agent)
    await again.answers()
    assert await _call(again, kubelet_api.DRA_SERVICES[0], [*claims, wrong]) == answers[0]

    name = "bench-gpu.nvidia.com-00000"
    await kube.delete(path_of(version, "resourceslices", name=name))
    await visible(kube, version)

    await _call(again, kubelet_api.DRA_SERVICES[1], claims, prepare=False)
    state = again.root / "plugins" / "gpu.nvidia.com"
    left = [*(folder / "cdi").iterdir(), *(state / "claims").iterdir(), *(state / "held").iterdir()]
    again.process.send_signal(signal.SIGTERM)
    assert again.process.wait(30) == 0
    again.log.close()
    assert left == []
    assert list(registry.iterdir()) == []
    assert not again.socket.exists()
    await kube.get(path_of(version, "resourceslices", name=name))
    for number in range(len(claims)):
        await kube.delete(path_of(version, "resourceclaims", namespace="default", name=f"bench-{number}"))


async def test_of_two_agents_the_younger_publishes_until_it_is_gone(
    agent: Agent, api_server: ApiServer, kube: KubeClient
) -> None:
    path = path_of(api_server.resource_version, "resourceslices", name="bench-gpu.nvidia.com-00000")

    async def devices_are(count: int) -> str:
        async def look() -> bool:
            return len((await kube.get(path))["spec"]["devices"]) == count

        await eventually(look, f"the slice has {count} devices")
        return str((await kube.get(path))["metadata"]["resourceVersion"])

    await agent.answers()
    await devices_are(8)
    younger = agent.again(pod_uid="c", profile="l40s-4")
    try:
        await younger.answers()
        settled = await devices_are(4)
        # Long enough for many rounds of the two undoing each other, which is what this is about.
        for _ in range(20):
            await asyncio.sleep(0.05)
            assert (await kube.get(path))["metadata"]["resourceVersion"] == settled
    finally:
        younger.process.kill()
        younger.stop()
    await devices_are(8)
