"""The kubelet's side of one driver: two gRPC sockets, one by which the kubelet finds the driver, one for its claims."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from gpu_dra.errors import GpuDraError, HostError
from gpu_dra.names import ClaimUid
from node_agent import kubelet_api
from node_agent.checkpoint import PreparedClaim
from node_agent.kubelet_api import (
    Claims,
    Empty,
    InfoRequest,
    PluginInfo,
    PrepareResponse,
    RegistrationStatus,
    UnprepareResponse,
)
from node_agent.prepare import Answer, ClaimRef, Preparer
from node_agent.sockets import Sockets, is_ours

_log = logging.getLogger(__name__)

_LOOK: Final = 5.0
"""Seconds between two looks at the socket files: whoever clears the kubelet's folders cuts the driver off."""
_REFUSED_RETRY: Final = (5.0, 60.0)
_GRACE: Final = 20.0
"""Seconds that running calls get when the agent ends."""

Observer = Callable[[str, float, bool], None]
"""Told of each claim: operation, seconds, whether it worked."""


class KubeletPlugin:
    """Serves one driver to the kubelet. `registered` is what the kubelet said last."""

    def __init__(
        self,
        driver: str,
        sockets: Sockets,
        preparer: Preparer,
        *,
        observe: Observer = lambda _operation, _seconds, _ok: None,
    ) -> None:
        self.registered = False
        self._driver = driver
        self._sockets = sockets
        self._preparer = preparer
        self._observe = observe
        self._dra: _Endpoint | None = None
        self._registration: _Endpoint | None = None
        self._refused = asyncio.Event()

    async def start(self) -> None:
        """Serve claims, then let the kubelet know. HostError where a socket cannot be made or another driver serves."""
        for path in (self._sockets.dra, self._sockets.registration):
            _make_folder(Path(path.parent))
        other = Path(self._sockets.state) / "dra.sock"
        if await asyncio.to_thread(_answers, other):
            raise HostError(
                f"another driver serves {self._driver} on this node already (its socket {other} answers);"
                " remove that driver, or give this one another name (chart value gpuDriverName)"
            )
        await asyncio.to_thread(self._remove_left_over)
        await self._serve_claims()
        await self._serve_registration()

    async def run(self) -> None:
        """Keep the sockets there until cancelled."""
        delay = _REFUSED_RETRY[0]
        while True:
            try:
                async with asyncio.timeout(_LOOK):
                    await self._refused.wait()
            except TimeoutError:
                delay = _REFUSED_RETRY[0] if self.registered else delay
            else:
                # The kubelet asks once for each socket it finds; only a new one makes it ask again.
                self._refused.clear()
                await self._close(self._registration)
                self._registration = None
                await asyncio.sleep(delay)
                delay = min(delay * 2, _REFUSED_RETRY[1])
            try:
                await self._heal()
            except HostError as problem:
                _log.warning(
                    "cannot serve the kubelet, trying again", extra={"driver": self._driver, "problem": str(problem)}
                )

    async def superseded(self) -> bool:
        """Whether another agent, started after this one, serves the driver on this node: a rolling update is under way."""
        return await asyncio.to_thread(self._has_younger)

    async def stop(self) -> None:
        """Sign off first, so that no new claim comes, then let running calls end."""
        await self._close(self._registration)
        self.registered = False
        await self._close(self._dra)

    async def _heal(self) -> None:
        if self._dra is None or not self._dra.is_there():
            await self._close(self._dra)
            await self._serve_claims()
        if self._registration is None or not self._registration.is_there():
            self.registered = False
            await self._close(self._registration)
            await self._serve_registration()

    async def _serve_claims(self) -> None:
        methods = {
            "NodePrepareResources": _method(self._node_prepare, Claims, PrepareResponse),
            "NodeUnprepareResources": _method(self._node_unprepare, Claims, UnprepareResponse),
        }
        handlers = [grpc.method_handlers_generic_handler(service, methods) for service in kubelet_api.DRA_SERVICES]
        self._dra = await _Endpoint.open(Path(self._sockets.dra), handlers)

    async def _serve_registration(self) -> None:
        methods = {
            "GetInfo": _method(self._get_info, InfoRequest, PluginInfo),
            "NotifyRegistrationStatus": _method(self._notify, RegistrationStatus, Empty),
        }
        handler = grpc.method_handlers_generic_handler(kubelet_api.REGISTRATION, methods)
        self._registration = await _Endpoint.open(Path(self._sockets.registration), [handler])

    async def _get_info(self, _request: InfoRequest, _context: Any) -> PluginInfo:
        return PluginInfo(
            type=kubelet_api.PLUGIN_TYPE,
            name=self._driver,
            endpoint=str(self._sockets.dra),
            supported_versions=kubelet_api.SUPPORTED,
        )

    async def _notify(self, status: RegistrationStatus, _context: Any) -> Empty:
        self.registered = status.plugin_registered
        if status.plugin_registered:
            _log.info("registered with the kubelet", extra={"driver": self._driver})
        else:
            _log.warning("the kubelet refused the driver", extra={"driver": self._driver, "problem": status.error})
            self._refused.set()
        return Empty()

    async def _node_prepare(self, request: Claims, _context: Any) -> PrepareResponse:
        started, refs = time.monotonic(), _refs(request)
        answers = await self._preparer.prepare(refs)
        self._report("prepare", refs, answers, time.monotonic() - started)
        response = PrepareResponse()
        for uid, answer in answers.items():
            entry = response.claims[uid]
            if isinstance(answer, PreparedClaim):
                for device in answer.devices:
                    entry.devices.add(
                        request_names=[device.request],
                        pool_name=device.pool,
                        device_name=device.device,
                        cdi_device_ids=[device.cdi_id],
                    )
            else:
                entry.error = str(answer)
        return response

    async def _node_unprepare(self, request: Claims, _context: Any) -> UnprepareResponse:
        started, refs = time.monotonic(), _refs(request)
        answers = await self._preparer.unprepare(refs)
        self._report("unprepare", refs, answers, time.monotonic() - started)
        response = UnprepareResponse()
        for uid, answer in answers.items():
            response.claims[uid].error = "" if answer is None else str(answer)
        return response

    def _report(
        self, operation: str, refs: Iterable[ClaimRef], answers: Mapping[ClaimUid, Answer | None], seconds: float
    ) -> None:
        for ref in refs:
            answer = answers[ref.uid]
            failed = isinstance(answer, GpuDraError)
            fields = {"driver": self._driver, "claim": str(ref), "uid": ref.uid}
            if failed:
                _log.warning("cannot %s a claim", operation, extra={**fields, "problem": str(answer)})
            elif isinstance(answer, PreparedClaim):
                _log.info(
                    "claim prepared", extra={**fields, "devices": ",".join(item.device for item in answer.devices)}
                )
            else:
                _log.info("claim unprepared", extra=fields)
            self._observe(operation, seconds, not failed)

    async def _close(self, endpoint: _Endpoint | None) -> None:
        if endpoint is not None:
            await endpoint.close()

    def _has_younger(self) -> bool:
        own = Path(self._sockets.dra)
        try:
            born = own.lstat().st_mtime_ns
            others = [path for path in own.parent.glob("dra-*.sock") if path != own and path.lstat().st_mtime_ns > born]
        except OSError:
            # Somebody clears the folder just now; the sockets come back, and then there is an answer.
            return False
        return any(_answers(path) for path in others)

    def _remove_left_over(self) -> None:
        """Sockets of agents that were killed; the kubelet would dial them for ever."""
        for folder in (self._sockets.dra.parent, self._sockets.registration.parent):
            for path in Path(folder).glob("*.sock"):
                if is_ours(self._driver, path.name) and stat.S_ISSOCK(path.lstat().st_mode) and not _answers(path):
                    path.unlink(missing_ok=True)


class _Endpoint:
    """A gRPC server on one unix socket."""

    def __init__(self, path: Path, server: Any) -> None:
        self._path = path
        self._server = server
        self._identity = _identity(path)

    @classmethod
    async def open(cls, path: Path, handlers: list[Any]) -> _Endpoint:
        server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
        server.add_generic_rpc_handlers(tuple(handlers))
        try:
            path.unlink(missing_ok=True)
            server.add_insecure_port(f"unix:{path}")
            await server.start()
        except (OSError, RuntimeError) as problem:
            raise HostError(
                f"cannot serve on the socket {path}: {problem}; the agent needs to write that folder"
            ) from problem
        return cls(path, server)

    def is_there(self) -> bool:
        """Whether the file is still the one that was bound."""
        return self._identity is not None and _identity(self._path) == self._identity

    async def close(self) -> None:
        """Remove the file first, so that nobody dials in any more, then let running calls end."""
        if self.is_there():
            self._path.unlink(missing_ok=True)
        await self._server.stop(_GRACE)


def _method(handle: Callable[[Any, Any], Awaitable[Any]], request: type[Any], response: type[Any]) -> Any:
    return grpc.unary_unary_rpc_method_handler(
        handle, request_deserializer=request.FromString, response_serializer=response.SerializeToString
    )


def _refs(request: Claims) -> list[ClaimRef]:
    return [ClaimRef(ClaimUid(claim.uid), claim.namespace, claim.name) for claim in request.claims]


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino)


def _answers(path: Path) -> bool:
    """Whether somebody listens; a file that its process left behind refuses."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(os.fspath(path))
        except TimeoutError:
            return True
        except OSError:
            return False
    return True


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise HostError(f"cannot make the folder {path}: {problem.strerror}") from problem
