"""/healthz, /readyz and /metrics over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from gpu_dra.errors import HostError
from gpu_dra.settings import Address


@asynccontextmanager
async def serving(
    address: Address, *, trouble: Callable[[], str], metrics: Callable[[], bytes], content_type: str
) -> AsyncIterator[int]:
    """Serve while inside; gives the port. `trouble` says why the program is not ready, or nothing where it is."""

    async def healthz(_: web.Request) -> web.Response:
        # That the event loop came round to answer is the news; whatever else breaks ends the process.
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        reason = trouble()
        return web.Response(text=f"{reason or 'ok'}\n", status=503 if reason else 200)

    async def metric_lines(_: web.Request) -> web.Response:
        return web.Response(body=metrics(), headers={"Content-Type": content_type})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metric_lines)])
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, address.host or None, address.port)
        try:
            await site.start()
        except OSError as problem:
            raise HostError(
                f"--http-address: cannot listen on {address.host or '*'}:{address.port}: {problem.strerror or problem};"
                " choose another port."
            ) from problem
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
