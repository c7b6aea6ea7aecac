"""How two devices are connected over PCIe, in the words of `nvidia-smi topo -m`. Pure.

PIX: at most one PCIe switch between them; PXB: several, but no host bridge; PHB: the host bridge; NODE: several host
bridges of one NUMA node; SYS: the link between NUMA nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PIX: Final = "PIX"
PXB: Final = "PXB"
PHB: Final = "PHB"
NODE: Final = "NODE"
SYS: Final = "SYS"
WORDS: Final = (PIX, PXB, PHB, NODE, SYS)
"""From near to far."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a device sits. `path` are the addresses of the bridges above it, the root port first."""

    root: str | None
    numa_node: int | None
    path: tuple[str, ...] = ()


def connection(first: Place, second: Place) -> str:
    """The word for a pair. What the machine does not say counts as far: a NUMA node that is unknown is another one."""
    common = 0
    for one, other in zip(first.path, second.path, strict=False):
        if one != other:
            break
        common += 1
    if common and first.root == second.root:
        # Below one switch the paths differ in the last bridge only; functions of one card share even that.
        return PIX if common >= max(len(first.path), len(second.path)) - 1 else PXB
    if first.root is not None and first.root == second.root:
        return PHB
    if first.numa_node is not None and first.numa_node == second.numa_node:
        return NODE
    return SYS
