"""Devices -> the ResourceSlices of one pool: chunks, names, generation. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpu_dra.device import Device, Taint
from gpu_dra.names import MAX_DEVICES_PER_SLICE, PoolName
from gpu_dra.resource_slice import Pool, ResourceSlice


@dataclass(frozen=True, slots=True)
class WantedPool:
    """The pool as it should be published. Devices keep their order: the scheduler takes the first that fit."""

    driver: str
    node: str
    name: PoolName
    devices: tuple[Device, ...]

    @property
    def chunks(self) -> list[tuple[Device, ...]]:
        """The devices slice by slice; one empty slice where there are none, which says that the driver is up."""
        size = MAX_DEVICES_PER_SLICE
        return [self.devices[start : start + size] for start in range(0, len(self.devices), size)] or [()]

    def without_tainted(self) -> WantedPool:
        """The pool for a server that does not know taints: what new claims must not get is not offered at all."""
        kept = tuple(device for device in self.devices if not any(taint.keeps_away for taint in device.taints))
        return replace(self, devices=tuple(replace(device, taints=()) for device in kept))

    def slice_name(self, number: int) -> str:
        """Fixed names: a slice that is made twice is a conflict and not a second slice."""
        return f"{self.node}-{self.driver}-{number:05d}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write: names to delete first, then slices to create or replace."""

    delete: tuple[str, ...]
    write: tuple[ResourceSlice, ...]

    @property
    def empty(self) -> bool:
        return not self.delete and not self.write


def plan(wanted: WantedPool, stored: Mapping[str, ResourceSlice]) -> Plan:
    """Compare what is wanted with what is stored (all slices of the driver on this node, by object name).

    The generation grows unless at most one slice changes in place: consumers trust only the highest generation, and only
    when all its slices are there, so a pool is never seen half old and half new. It never falls below a stored one.
    """
    chunks = _aged(wanted.chunks, stored)
    expected = {wanted.slice_name(number): devices for number, devices in enumerate(chunks)}
    obsolete = tuple(sorted(set(stored) - set(expected)))
    generation = max((item.pool.generation for item in stored.values()), default=0) or 1

    def build(at: int) -> list[ResourceSlice]:
        pool = Pool(wanted.name, at, len(chunks))
        return [ResourceSlice(name, wanted.driver, wanted.node, pool, items) for name, items in expected.items()]

    changed = [item for item in build(generation) if stored.get(item.name) != item]
    created = [item for item in changed if item.name not in stored]
    alone = not stored and generation == 1
    if (obsolete or len(changed) > 1 or (created and len(chunks) > 1)) and not alone:
        changed = build(generation + 1)
    return Plan(obsolete, tuple(changed))


def _aged(chunks: Sequence[tuple[Device, ...]], stored: Mapping[str, ResourceSlice]) -> list[tuple[Device, ...]]:
    """The devices with the age of those taints that are stored already: the server gave it, and it must not grow younger."""
    known = {device.name: device.taints for item in stored.values() for device in item.devices if device.taints}

    def aged(taint: Taint, before: Sequence[Taint]) -> Taint:
        return next((old for old in before if taint.since is None and old.same_as(taint)), taint)

    return [
        tuple(
            replace(device, taints=tuple(aged(taint, known.get(device.name, ())) for taint in device.taints))
            if device.taints
            else device
            for device in devices
        )
        for devices in chunks
    ]
