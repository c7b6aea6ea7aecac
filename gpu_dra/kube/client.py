"""A small asynchronous client of the Kubernetes API: JSON in, JSON out, unknown fields kept.

Chosen over the official client in the agent because that costs 25 MiB and ten times the time to decode a list
(docs/decisions). Errors are ApiError (the server answered) or Unavailable (it did not).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import aiohttp

from gpu_dra import api
from gpu_dra.api import JsonObject
from gpu_dra.errors import GpuDraError, Unavailable
from gpu_dra.kube.connection import Connection
from gpu_dra.names import RESOURCE_GROUP

_TOKEN_LIFE: Final = 60.0
"""Seconds for which a token read from its file is used: kubelet rotates it long before it ends."""
_MAX_WATCH_LINE: Final = 8 << 20
"""Bytes of one watch event; an object in etcd is at most 1.5 MiB."""


class ApiError(GpuDraError):
    """The API server refused: HTTP status, machine-readable reason, and its own sentence."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        self.status = status
        self.reason = reason
        self.retry_after = retry_after
        super().__init__(message)


class NotFound(ApiError):
    """404: the object, or the kind or version, is not there."""


class Conflict(ApiError):
    """409: somebody else changed or made the object first."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change: ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: JsonObject


class KubeClient:
    """Use as `async with KubeClient(connection) as kube`."""

    def __init__(self, connection: Connection, *, user_agent: str = "gpu-dra", timeout: float = 30.0) -> None:
        self._connection = connection
        self._timeout = aiohttp.ClientTimeout(total=timeout, connect=min(timeout, 10.0))
        self._user_agent = user_agent
        self._session: aiohttp.ClientSession | None = None
        self._token = connection.token
        self._token_read = float("-inf")

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            ssl=self._connection.ssl_context() if self._connection.server.startswith("https") else False,
            limit=32,
            keepalive_timeout=120,
        )
        self._session = aiohttp.ClientSession(connector=connector, headers={"User-Agent": self._user_agent})
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(self, path: str, **params: str) -> JsonObject:
        return await self._call("GET", path, params=params)

    async def create(self, path: str, body: JsonObject) -> JsonObject:
        return await self._call("POST", path, body=body)

    async def replace(self, path: str, body: JsonObject) -> JsonObject:
        """PUT; the body's metadata.resourceVersion makes it fail with Conflict where the object has changed."""
        return await self._call("PUT", path, body=body)

    async def delete(self, path: str, *, uid: str | None = None) -> JsonObject:
        """DELETE; with `uid` only that very object, never a successor of the same name."""
        body: JsonObject | None = {"preconditions": {"uid": uid}} if uid else None
        return await self._call("DELETE", path, body=body)

    async def watch(
        self, path: str, resource_version: str, *, field_selector: str = "", seconds: float = 300.0
    ) -> AsyncIterator[WatchEvent]:
        """Changes after `resource_version`, until the server ends the watch (after about `seconds`).

        ApiError with status 410 says that the version is too old: list again.
        """
        query = {
            "fieldSelector": field_selector,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(int(seconds)),
        }
        # A bookmark comes about every minute; a connection that is silent for much longer is dead.
        limits = aiohttp.ClientTimeout(total=None, connect=10.0, sock_read=150.0)
        try:
            async with self._request("GET", path, query, None, limits) as response:
                async for line in _lines(response):
                    yield _event(_object(line))
        except (aiohttp.ClientError, TimeoutError, _NotTheApi) as problem:
            raise _unavailable("WATCH", path, problem) from problem

    async def resource_version(self) -> str:
        """The best version of resource.k8s.io that the server serves; Unavailable says what to switch on."""
        try:
            group = await self.get(f"/apis/{RESOURCE_GROUP}")
        except NotFound:
            served: list[str] = []
        else:
            served = _versions(group)
        version = api.best_version(served)
        if version is None:
            raise Unavailable(
                f"the API server serves no version of {RESOURCE_GROUP} that this program speaks"
                f" ({', '.join(api.VERSIONS)}; served: {', '.join(served) or 'none'}). On Kubernetes 1.32 and 1.33"
                f" switch on the feature gate DynamicResourceAllocation and --runtime-config={RESOURCE_GROUP}/v1beta1=true."
            )
        return version

    async def _call(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: JsonObject | None = None
    ) -> JsonObject:
        try:
            async with self._request(method, path, params, body, self._timeout) as response:
                return _object(await response.read())
        except (aiohttp.ClientError, TimeoutError, _NotTheApi) as problem:
            raise _unavailable(method, path, problem) from problem

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: JsonObject | None,
        limits: aiohttp.ClientTimeout,
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        """The response, its body not yet read; the server's refusals are raised as ApiError."""
        if self._session is None:
            raise RuntimeError("use the client inside `async with`")
        data = None if body is None else json.dumps(body, separators=(",", ":"))
        may_retry = self._connection.token_file is not None
        while True:
            async with self._session.request(
                method,
                self._connection.server + path,
                params=params,
                data=data,
                headers=self._headers(body is not None),
                timeout=limits,
            ) as response:
                if response.status == 401 and may_retry:
                    # The token was rotated or its key was replaced: what the file says now may be valid.
                    may_retry, self._token_read = False, float("-inf")
                    continue
                if response.status >= 400:
                    raise await _refusal(response)
                yield response
                return

    def _headers(self, has_body: bool) -> dict[str, str]:  # noqa: FBT001
        headers = {"Accept": "application/json"}
        if has_body:
            headers["Content-Type"] = "application/json"
        token_file = self._connection.token_file
        if token_file is not None and time.monotonic() - self._token_read > _TOKEN_LIFE:
            try:
                self._token = token_file.read_text().strip()
                self._token_read = time.monotonic()
            except OSError as problem:
                if self._token is None:
                    raise Unavailable(f"cannot read the service account token: {problem}") from problem
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers


class _NotTheApi(Exception):
    """What answered is no API server: a proxy's page, or half an answer."""


async def _refusal(response: aiohttp.ClientResponse) -> ApiError:
    try:
        status = _object(await response.read())
    except _NotTheApi:
        status = {}
    return _api_error(response.status, status, response.headers.get("Retry-After"))


def _versions(group: JsonObject) -> list[str]:
    versions = group.get("versions")
    entries = [entry for entry in versions if isinstance(entry, dict)] if isinstance(versions, list) else []
    return [version for entry in entries if isinstance(version := entry.get("version"), str)]


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    # aiohttp's own readline stops at 64 KiB, and a slice of 64 devices is longer.
    buffer = bytearray()
    async for chunk in response.content.iter_any():
        buffer += chunk
        while (end := buffer.find(b"\n")) >= 0:
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            if line:
                yield line
        if len(buffer) > _MAX_WATCH_LINE:
            raise Unavailable(f"the API server sent a watch event of more than {_MAX_WATCH_LINE} bytes")


def _object(text: bytes) -> JsonObject:
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise _NotTheApi("it answered something other than JSON") from problem
    if not isinstance(answer, dict):
        raise _NotTheApi("it answered something other than a JSON object")
    return answer


def _event(event: JsonObject) -> WatchEvent:
    kind, changed = event.get("type"), event.get("object")
    if not isinstance(kind, str) or not isinstance(changed, dict):
        raise _NotTheApi("it sent something other than a watch event")
    if kind == "ERROR":
        code = changed.get("code")
        raise _api_error(code if isinstance(code, int) else 500, changed, None)
    return WatchEvent(kind, changed)


def _api_error(status: int, details: Mapping[str, Any], retry_after: str | None) -> ApiError:
    message = str(details.get("message") or f"the API server answered {status}")
    seconds = float(retry_after) if retry_after and retry_after.isdecimal() else None
    kind = {404: NotFound, 409: Conflict}.get(status, ApiError)
    return kind(status, str(details.get("reason") or ""), message, seconds)


def _unavailable(method: str, path: str, problem: Exception) -> Unavailable:
    words = "no answer in time" if isinstance(problem, asyncio.TimeoutError) else str(problem) or type(problem).__name__
    return Unavailable(f"{method} {path}: the API server is out of reach ({words})")


def path_of(version: str, plural: str, *, namespace: str | None = None, name: str | None = None) -> str:
    """The path of a resource.k8s.io collection or object."""
    parts = [f"/apis/{RESOURCE_GROUP}/{version}"]
    if namespace is not None:
        parts.append(f"namespaces/{quote(namespace, safe='')}")
    parts.append(plural)
    if name is not None:
        parts.append(quote(name, safe=""))
    return "/".join(parts)
