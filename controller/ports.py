"""What the controller's services need from outside, as they need it. Adapters implement these; tests have fakes of them."""

from __future__ import annotations

from typing import Protocol

from controller.device_classes import ForeignClass, Owner
from controller.lease import Lease
from gpu_dra.api import JsonObject
from gpu_dra.errors import GpuDraError, Unavailable


class Refused(GpuDraError):
    """The API server does not take this object; trying again helps only after somebody has changed something."""


class Outdated(Unavailable):
    """Somebody else wrote first: read again, then decide again."""


class ClassStore(Protocol):
    """The cluster's DeviceClasses. Objects are in the shape of v1, whatever version the server speaks."""

    async def owner(self) -> Owner | None:
        """The object that owns our classes; None where none is named. Unavailable where it is not there."""
        ...

    async def list(self) -> list[JsonObject]:
        """All classes, everybody's."""
        ...

    async def create(self, obj: JsonObject) -> JsonObject:
        """Returns what the server stored. Outdated where the name is taken, Refused where the object is not taken."""
        ...

    async def replace(self, obj: JsonObject) -> JsonObject:
        """Replace the very object that `list` returned, with its resourceVersion."""
        ...

    async def delete(self, obj: JsonObject) -> None:
        """Delete the very object that `list` returned; that it is gone already is fine."""
        ...


class LeaseStore(Protocol):
    """The one Lease that replicas of the controller share."""

    async def read(self) -> Lease | None:
        """The lease as stored; None where there is none yet."""
        ...

    async def write(self, item: Lease) -> Lease:
        """Store it: create, or replace what `item.stored` came from. Outdated where somebody was quicker."""
        ...


class Report(Protocol):
    """Where people and machines see what the keeper did. Nothing here may fail."""

    def written(self, action: str) -> None:
        """One create, update or delete that the server took."""
        ...

    def state(self, *, kept: int, foreign: int, problems: int) -> None:
        """How things stand after a pass."""
        ...

    async def left_alone(self, foreign: ForeignClass) -> None:
        """A foreign class was seen; called once for each object."""
        ...
