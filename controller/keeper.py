"""Keep the cluster's DeviceClasses as the values say: made, repaired, removed; never a foreign one touched.

Level-triggered: whatever a watch event says, a pass reads all classes and compares. Events only say when to look.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from controller import device_classes
from controller.class_list import WantedClass
from controller.device_classes import ForeignClass, Release, essence, name_of
from controller.ports import ClassStore, Outdated, Refused, Report
from gpu_dra.api import JsonObject
from gpu_dra.errors import Unavailable

_log = logging.getLogger(__name__)

RESYNC: Final = 600.0
"""Seconds after which the classes are looked at though no event came; also gives dropped fields another chance."""
_FIRST_RETRY: Final = 0.5
_LAST_RETRY: Final = 10.0
_SETTLE: Final = 0.05
_AFTER_WRITE: Final = 1.0
"""Seconds between passes that wrote: somebody else's program that undoes each repair must not make us spin."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What one look at the classes came to."""

    writes: int
    kept: int
    foreign: tuple[ForeignClass, ...]
    problems: tuple[str, ...]


class Keeper:
    """`may_write` raises where this replica may not (no longer) write."""

    def __init__(
        self,
        wanted: Iterable[WantedClass],
        release: Release,
        store: ClassStore,
        report: Report,
        *,
        may_write: Callable[[], None] = lambda: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        resync: float = RESYNC,
    ) -> None:
        self._wanted = {item.name: item for item in wanted}
        self._release = release
        self._store = store
        self._report = report
        self._may_write = may_write
        self._sleep = sleep
        self._resync = resync
        self._woken = asyncio.Event()
        self._accepted: dict[str, JsonObject] = {}
        self._told: set[tuple[str, str]] = set()
        self._trouble = "no pass over the DeviceClasses has ended yet"

    def notice(self, obj: JsonObject) -> None:
        """A class was made, changed or deleted: look if it concerns us."""
        name = str((obj.get("metadata") or {}).get("name", ""))
        if name in self._wanted or device_classes.is_ours(obj, self._release):
            self._woken.set()

    @property
    def trouble(self) -> str:
        """Why the classes are not as they should be; empty where they are."""
        return self._trouble

    async def run(self) -> None:
        """Keep the classes until cancelled. Failures are told once and tried again, later each time."""
        delay = _FIRST_RETRY
        while True:
            self._woken.clear()
            try:
                result = await self.once()
            except Outdated:
                await self._sleep(_FIRST_RETRY)
                continue
            except Unavailable as problem:
                result = Pass(0, 0, (), (str(problem),))
            if result.problems:
                self._trouble = "; ".join(result.problems)
                for sentence in result.problems:
                    self._tell("problem", sentence)
                await self._sleep(delay * random.uniform(0.75, 1.25))  # noqa: S311 - jitter, not a secret
                delay = min(delay * 2, _LAST_RETRY)
                continue
            delay, self._trouble = _FIRST_RETRY, ""
            self._told = {entry for entry in self._told if entry[0] != "problem"}
            await self._sleep(_AFTER_WRITE if result.writes else _SETTLE)
            try:
                await asyncio.wait_for(self._woken.wait(), self._resync)
            except TimeoutError:
                # The API server may have been upgraded and know more fields now.
                self._accepted.clear()

    async def once(self) -> Pass:
        """One pass."""
        owner = await self._store.owner()
        stored = await self._store.list()
        wanted = [device_classes.encode(item, self._release, owner) for item in self._wanted.values()]
        plan = device_classes.plan(wanted, stored, self._release, self._accepted)
        writes = 0
        problems: list[str] = []
        failed = 0
        for action, objects in (("create", plan.create), ("update", plan.replace), ("delete", plan.delete)):
            for obj in objects:
                self._may_write()
                try:
                    await self._write(action, obj)
                except Refused as problem:
                    problems.append(str(problem))
                    failed += action != "delete"
                else:
                    writes += 1
        for foreign in plan.foreign:
            if self._tell("foreign", foreign.sentence, uid=foreign.uid):
                await self._report.left_alone(foreign)
        kept = len(wanted) - len(plan.foreign) - failed
        self._report.state(kept=kept, foreign=len(plan.foreign), problems=len(problems))
        return Pass(writes, kept, plan.foreign, tuple(problems))

    async def _write(self, action: str, obj: JsonObject) -> None:
        name = name_of(obj)
        if action == "delete":
            await self._store.delete(obj)
        else:
            answer = await (self._store.create(obj) if action == "create" else self._store.replace(obj))
            self._compare(name, obj, answer)
            before, after = (item["metadata"].get("resourceVersion") for item in (obj, answer))
            if before == after:
                # The server dropped what was new in it, so nothing was written.
                return
        self._report.written(action)
        _log.info("DeviceClass written", extra={"class": name, "action": action})

    def _compare(self, name: str, asked: JsonObject, answer: JsonObject) -> None:
        """Remember an answer other than asked, and say so once."""
        if essence(answer) == essence(asked):
            self._accepted.pop(name, None)
            return
        self._accepted[name] = essence(answer)
        lost = ", ".join(device_classes.lost_fields(asked, answer)) or "metadata"
        self._tell(
            "lost",
            f"The API server did not store {lost} of DeviceClass {name} as asked: its version does not know the field"
            " (extendedResourceName needs Kubernetes 1.34 with the gate DRAExtendedResource), or an admission webhook"
            " changes it. The class works without.",
        )

    def _tell(self, kind: str, sentence: str, *, uid: str = "") -> bool:
        """Log a sentence unless it was told before."""
        entry = (kind, sentence + uid)
        if entry in self._told:
            return False
        self._told.add(entry)
        _log.warning(sentence)
        return True
