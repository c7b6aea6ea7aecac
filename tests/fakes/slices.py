"""ResourceSlices in memory, with what matters of the API server's manners: conflicts, refusals, dropped fields, watches."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from gpu_dra.device import Taint
from gpu_dra.errors import Unavailable
from gpu_dra.kube.client import ApiError, Conflict, NotFound
from gpu_dra.resource_slice import ResourceSlice

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Stored:
    item: ResourceSlice
    uid: int
    version: int


class FakeSliceServer:
    """What is stored, for all drivers and nodes. `drops` are attributes (or `taints`) that it does not know.

    `away` fails every call.
    """

    def __init__(self, *, drops: Iterable[str] = ()) -> None:
        self.drops = set(drops)
        self.away = ""
        self.writes: list[tuple[str, str]] = []
        self.meanwhile: list[Callable[[], None]] = []
        """Somebody else's actions, one before each write that is asked for."""
        self.stored: dict[str, Stored] = {}
        self._numbers = itertools.count(1)
        self.touched = asyncio.Event()

    @property
    def items(self) -> dict[str, ResourceSlice]:
        return {name: stored.item for name, stored in self.stored.items()}

    def put(self, item: ResourceSlice) -> None:
        """Somebody else creates or changes a slice."""
        known = self.stored.get(item.name)
        number = next(self._numbers)
        self.stored[item.name] = Stored(item, known.uid if known else number, number)
        self._touch()

    def remove(self, name: str) -> None:
        """Somebody else deletes a slice."""
        del self.stored[name]
        self._touch()

    def store(self, driver: str, node: str) -> FakeSlices:
        return FakeSlices(self, driver, node)

    def _touch(self) -> None:
        self.touched.set()
        self.touched = asyncio.Event()

    def kept(self, item: ResourceSlice) -> ResourceSlice:
        devices = (
            replace(
                device,
                attributes={name: value for name, value in device.attributes.items() if name not in self.drops},
                taints=() if "taints" in self.drops else tuple(map(_dated, device.taints)),
            )
            for device in item.devices
        )
        return replace(item, devices=tuple(devices))


def _dated(taint: Taint) -> Taint:
    return taint if taint.since else replace(taint, since="2026-01-02T03:04:05Z")


class FakeSlices:
    """SliceStore of one driver on one node."""

    def __init__(self, server: FakeSliceServer, driver: str, node: str) -> None:
        self._server = server
        self._driver = driver
        self._node = node
        self._seen: dict[str, Stored] = {}

    async def list(self) -> dict[str, ResourceSlice]:
        self._answer()
        self._seen = self._mine()
        return {name: stored.item for name, stored in self._seen.items()}

    async def write(self, item: ResourceSlice, *, exists: bool) -> ResourceSlice:
        server = self._server
        self._answer()
        if server.meanwhile:
            server.meanwhile.pop(0)()
        bad = [device.name for device in item.devices if _LABEL.fullmatch(device.name) is None]
        if bad:
            raise ApiError(422, "Invalid", f"ResourceSlice {item.name} is invalid: {bad[0]} is no device's name")
        now = server.stored.get(item.name)
        if exists and now is None:
            raise NotFound(404, "NotFound", f"{item.name} not found")
        if now is not None and not exists:
            raise Conflict(409, "AlreadyExists", f"{item.name} already exists")
        if now is not None and self._seen[item.name] != now:
            raise Conflict(409, "Conflict", f"{item.name} has been modified")
        server.put(server.kept(item))
        server.writes.append(("replace" if exists else "create", item.name))
        self._seen[item.name] = server.stored[item.name]
        return self._seen[item.name].item

    async def delete(self, name: str) -> None:
        self._answer()
        seen, now = self._seen.pop(name, None), self._server.stored.get(name)
        if seen is None or now is None:
            return
        if seen.uid != now.uid:
            raise Conflict(409, "Conflict", f"{name} is another object now")
        self._server.remove(name)
        self._server.writes.append(("delete", name))

    async def changed(self) -> None:
        while self._mine() == self._seen:
            await self._server.touched.wait()

    def _mine(self) -> dict[str, Stored]:
        return {
            name: stored
            for name, stored in self._server.stored.items()
            if (stored.item.driver, stored.item.node) == (self._driver, self._node)
        }

    def _answer(self) -> None:
        if self._server.away:
            raise Unavailable(self._server.away)
