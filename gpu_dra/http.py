"""/healthz, /readyz and /metrics over HTTP, for every program that runs in a pod."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Self

from aiohttp import web

from gpu_dra.errors import HostError
from gpu_dra.settings import Address

Check = Callable[[], Sequence[str]]
"""What is not right, a sentence each; nothing where all is well."""


class HttpServer:
    """Use as `async with HttpServer(...)`."""

    def __init__(
        self, address: Address, *, healthy: Check, ready: Check, metrics: Callable[[], tuple[bytes, str]]
    ) -> None:
        self._address = address
        application = web.Application()
        application.router.add_get("/healthz", _checked(healthy))
        application.router.add_get("/readyz", _checked(ready))

        async def read_metrics(_request: web.Request) -> web.Response:
            text, content_type = metrics()
            return web.Response(body=text, headers={"Content-Type": content_type})

        application.router.add_get("/metrics", read_metrics)
        self._runner = web.AppRunner(application, access_log=None)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        host, port = self._address.host or None, self._address.port
        try:
            await web.TCPSite(self._runner, host, port).start()
        except (OSError, UnicodeError) as problem:  # UnicodeError: the resolver cannot take the name at all
            await self._runner.cleanup()
            words = (problem.strerror if isinstance(problem, OSError) else None) or problem
            raise HostError(
                f"cannot listen on {self._address.host}:{port}: {words}; choose another --http-address"
            ) from problem
        return self

    async def __aexit__(self, *details: object) -> None:
        await self._runner.cleanup()

    @property
    def port(self) -> int:
        """The port that it really has (0 lets the system choose)."""
        # Each address family has one of its own then, in any order; the pair is IPv4's.
        return int(min(self._runner.addresses, key=len)[1])


def _checked(check: Check) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_request: web.Request) -> web.Response:
        problems = check()
        return web.Response(text="\n".join(problems or ["ok"]) + "\n", status=503 if problems else 200)

    return answer
