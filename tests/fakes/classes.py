"""DeviceClasses and a Lease in memory, with what matters of the API server's manners: versions, conflicts, dropped fields."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable

from controller.device_classes import ForeignClass, Owner, essence, name_of
from controller.lease import Lease
from controller.ports import Outdated, Refused
from gpu_dra.api import JsonObject
from gpu_dra.errors import Unavailable


class FakeClasses:
    """ClassStore. `drops` are fields of the spec that this server does not know; `refuses` names it never takes."""

    def __init__(self, *, drops: Iterable[str] = (), refuses: Iterable[str] = ()) -> None:
        self.objects: dict[str, JsonObject] = {}
        self.drops = set(drops)
        self.refuses = set(refuses)
        self.writes: list[tuple[str, str]] = []
        self.owned_by: Owner | None = Owner("role", "uid-of-role")
        self.away = ""
        self._numbers = itertools.count(1)

    async def owner(self) -> Owner | None:
        if self.away:
            raise Unavailable(self.away)
        return self.owned_by

    async def list(self) -> list[JsonObject]:
        return [copy.deepcopy(obj) for _, obj in sorted(self.objects.items())]

    async def create(self, obj: JsonObject) -> JsonObject:
        name = name_of(obj)
        if name in self.refuses:
            raise Refused(f"DeviceClass {name} cannot be created: no")
        if name in self.objects:
            raise Outdated(f"{name} is there already")
        stored = self._kept(obj)
        stored["metadata"] |= {"uid": f"uid-{next(self._numbers)}", "resourceVersion": str(next(self._numbers))}
        return self._store("create", stored)

    async def replace(self, obj: JsonObject) -> JsonObject:
        name = name_of(obj)
        before = self.objects.get(name)
        if before is None or before["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
            raise Outdated(f"{name} has changed")
        stored = self._kept(obj)
        if essence(stored) != essence(before):
            stored["metadata"]["resourceVersion"] = str(next(self._numbers))
        return self._store("replace", stored)

    async def delete(self, obj: JsonObject) -> None:
        name = name_of(obj)
        if name in self.objects and self.objects[name]["metadata"]["uid"] != obj["metadata"]["uid"]:
            raise Outdated(f"{name} is another object now")
        if self.objects.pop(name, None) is not None:
            self.writes.append(("delete", name))

    def edit(self, name: str, **spec: object) -> None:
        """Somebody else's change."""
        obj = self.objects[name]
        obj["spec"] = {**obj["spec"], **spec}
        obj["metadata"]["resourceVersion"] = str(next(self._numbers))

    def _kept(self, obj: JsonObject) -> JsonObject:
        stored = copy.deepcopy(obj)
        stored["spec"] = {field: value for field, value in stored["spec"].items() if field not in self.drops}
        return stored

    def _store(self, action: str, stored: JsonObject) -> JsonObject:
        self.objects[name_of(stored)] = stored
        self.writes.append((action, name_of(stored)))
        return copy.deepcopy(stored)


class FakeReport:
    """Report that remembers."""

    def __init__(self) -> None:
        self.actions: list[str] = []
        self.states: list[tuple[int, int, int]] = []
        self.foreign: list[ForeignClass] = []

    def written(self, action: str) -> None:
        self.actions.append(action)

    def state(self, *, kept: int, foreign: int, problems: int) -> None:
        self.states.append((kept, foreign, problems))

    async def left_alone(self, foreign: ForeignClass) -> None:
        self.foreign.append(foreign)


class FakeLease:
    """LeaseStore shared by several replicas; `away` makes every call fail."""

    def __init__(self) -> None:
        self.item: Lease | None = None
        self.away = False
        self._version = 0

    async def read(self) -> Lease | None:
        self._answer()
        return self.item

    async def write(self, item: Lease) -> Lease:
        self._answer()
        if item.stored.get("version", 0) != self._version:
            raise Outdated("the lease has changed")
        self._version += 1
        self.item = Lease(
            item.holder, item.duration, item.acquired, item.renewed, item.transitions, {"version": self._version}
        )
        return self.item

    def _answer(self) -> None:
        if self.away:
            raise Unavailable("the API server is out of reach")
