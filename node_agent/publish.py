"""Keep the API server's ResourceSlices as they should be: publish at once, repair what others change, never loop.

Kubelet deletes a node's slices when it starts and when a driver is away for too long, and so may anybody: whatever is
stored is compared with what is wanted each time something changes.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from gpu_dra.errors import GpuDraError
from gpu_dra.resource_slice import ResourceSlice
from node_agent import slices
from node_agent.ports import SliceStore
from node_agent.slices import WantedPool

_log = logging.getLogger(__name__)

RESYNC: Final = 600.0
"""Seconds after which the stored slices are looked at again though nobody said that they changed."""
_FIRST_RETRY: Final = 0.2
_LAST_RETRY: Final = 30.0
_SETTLE: Final = 0.05
_YIELD: Final = 3.0
"""Seconds between two looks whether the younger agent is still there."""


async def _never() -> bool:
    return False


class Publisher:
    """Publishes one pool. `on_published` is called each time the stored slices are as they should be.

    While `superseded` says so it writes nothing: a younger agent of the node is at work, and where the two want different
    slices each would undo the other's until the older one ends.
    """

    def __init__(
        self,
        wanted: Callable[[], WantedPool],
        store: SliceStore,
        *,
        on_published: Callable[[], None] = lambda: None,
        superseded: Callable[[], Awaitable[bool]] = _never,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._wanted = wanted
        self._store = store
        self._on_published = on_published
        self._superseded = superseded
        self._sleep = sleep
        # What the server made of a slice that it did not store as asked (it drops what it does not know).
        self._accepted: dict[str, tuple[ResourceSlice, ResourceSlice]] = {}
        self._failed = ""
        self._drops_taints = False
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Say that what is wanted may have changed."""
        self._woken.set()

    async def run(self) -> None:
        """Publish until cancelled. A failure is logged once a kind and tried again, later each time, with jitter."""
        delay, said = _FIRST_RETRY, ""
        yielding = False
        while True:
            self._woken.clear()
            if await self._superseded():
                if not yielding:
                    _log.info("a younger agent of this node publishes now", extra={"pool": self._wanted().name})
                yielding = True
                await self._sleep(_YIELD)
                continue
            yielding = False
            try:
                writes = await self.reconcile()
            except GpuDraError as problem:
                if str(problem) != said:
                    said = str(problem)
                    _log.warning("cannot publish, trying again", extra={"pool": self._wanted().name, "problem": said})
                wait = max(delay, getattr(problem, "retry_after", None) or 0.0)
                await self._sleep(wait * random.uniform(0.75, 1.25))  # noqa: S311 - jitter, not a secret
                delay = min(delay * 2, _LAST_RETRY)
                continue
            if writes:
                _log.info("published", extra={"pool": self._wanted().name, "writes": writes})
            delay, said = _FIRST_RETRY, ""
            self._on_published()
            await self._something_changed()
            # Several slices tend to go at once (kubelet deletes them all): look when the dust has settled.
            await self._sleep(_SETTLE)

    async def reconcile(self) -> int:
        """Make the stored slices right once; returns the number of writes."""
        wanted = self._wanted()
        if self._drops_taints:
            wanted = wanted.without_tainted()
        stored = await self._store.list()
        plan = slices.plan(wanted, {name: self._as_wanted(item) for name, item in stored.items()})
        for name in plan.delete:
            await self._store.delete(name)
        # What was refused goes first: while it is, the others of its pool are not written anew each time.
        for item in sorted(plan.write, key=lambda item: item.name != self._failed):
            self._failed = item.name
            self._remember(item, await self._store.write(item, exists=item.name in stored))
        self._failed = ""
        writes = len(plan.delete) + len(plan.write)
        # Without its taint a device would be given out: better to offer it no longer.
        return writes + await self.reconcile() if self._lost_taints(plan.write) else writes

    def _remember(self, asked: ResourceSlice, got: ResourceSlice) -> None:
        if _without_age(got) == _without_age(asked):
            self._accepted.pop(asked.name, None)
            return
        known = self._accepted.get(asked.name)
        self._accepted[asked.name] = (asked, got)
        if known is None or known[0].devices != asked.devices:
            _log.warning(
                "the API server stored a slice other than asked; it drops fields that its version or gates do not know",
                extra={"slice": asked.name, "dropped": ", ".join(_differences(asked, got))},
            )

    def _lost_taints(self, asked: Sequence[ResourceSlice]) -> bool:
        """Whether it turned out just now that the server does not keep taints."""
        if self._drops_taints:
            return False
        for item in asked:
            got = self._accepted.get(item.name, (item, item))[1]
            kept = any(device.taints for device in got.devices)
            self._drops_taints |= any(device.taints for device in item.devices) and not kept
        return self._drops_taints

    def _as_wanted(self, stored: ResourceSlice) -> ResourceSlice:
        asked, got = self._accepted.get(stored.name, (None, None))
        return asked if asked is not None and stored == got else stored

    async def _something_changed(self) -> None:
        tasks: set[asyncio.Task[Any]] = {
            asyncio.create_task(self._woken.wait()),
            asyncio.create_task(self._store.changed()),
        }
        try:
            done, _ = await asyncio.wait(tasks, timeout=RESYNC, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            problem = task.exception()
            if problem is not None and not isinstance(problem, GpuDraError):
                raise problem


def _without_age(item: ResourceSlice) -> ResourceSlice:
    """The slice with taints as we ask for them: when they came is the server's to say."""
    if not any(device.taints for device in item.devices):
        return item
    devices = tuple(
        replace(device, taints=tuple(replace(taint, since=None) for taint in device.taints)) for device in item.devices
    )
    return replace(item, devices=devices)


def _differences(asked: ResourceSlice, got: ResourceSlice) -> list[str]:
    found = {device.name: device for device in got.devices}
    lost: set[str] = set()
    for device in asked.devices:
        other = found.get(device.name)
        if other is None:
            lost.add(f"device {device.name}")
            continue
        lost.update(name for name, value in device.attributes.items() if other.attributes.get(name) != value)
        if device.taints and not other.taints:
            lost.add("taints")
        lost.update(f"capacity {name}" for name, value in device.capacity.items() if other.capacity.get(name) != value)
    return sorted(lost) or ["the order or number of devices, or the pool"]
