"""A GPU that disappears for a moment is still there: a reset on the PCI bus takes it away for some 200 ms. Pure.

What is missing in a fresh reading but was there before counts as present for a grace period, in the state in which it was
last seen, links included, and in doubt. So the pool does not flap, and the other GPUs keep their meshes. A GPU that is
there under another UUID is another GPU: nobody inherits a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from node_agent.readings import GpuReading, NodeReading

GRACE: Final = 5.0
"""Seconds for which a GPU may be missing."""


@dataclass(frozen=True, slots=True)
class Presence:
    """What counts as there now, and since when (in the caller's clock, seconds) which of it has not been seen, by UUID."""

    reading: NodeReading
    missing_since: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def look_again_at(self, grace: float = GRACE) -> float | None:
        """When the first missing GPU stops counting; None where none is missing."""
        return min((since + grace for since in self.missing_since.values()), default=None)


def settle(before: Presence | None, fresh: NodeReading, now: float, grace: float = GRACE) -> Presence:
    """The presence after a fresh reading."""
    if before is None:
        return Presence(fresh)
    seen = {gpu.uuid for gpu in fresh.gpus}
    # Another card in the place of a missing one tells that this one will not be back by itself.
    places = {gpu.pci for gpu in fresh.gpus}
    kept: list[GpuReading] = []
    missing: dict[str, float] = {}
    for gpu in before.reading.gpus:
        since = before.missing_since.get(gpu.uuid, now)
        if gpu.uuid not in seen and gpu.pci not in places and now - since < grace:
            kept.append(replace(gpu, doubt="missing"))
            missing[gpu.uuid] = since
    if not kept:
        return Presence(fresh)
    links = dict(fresh.links)
    for pair, count in before.reading.links.items():
        if pair[0] in missing or pair[1] in missing:
            links.setdefault(pair, count)
    reading = replace(
        fresh,
        gpus=(*fresh.gpus, *kept),
        links=MappingProxyType(links),
        gpu_common_nodes=fresh.gpu_common_nodes or before.reading.gpu_common_nodes,
        driver_version=fresh.driver_version or before.reading.driver_version,
        cuda_driver_version=fresh.cuda_driver_version or before.reading.cuda_driver_version,
        reason=None,
    )
    return Presence(reading, MappingProxyType(missing))
