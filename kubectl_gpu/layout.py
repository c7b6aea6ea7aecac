"""A GpuNode as people draw it: NUMA nodes, in them PCIe roots, in those GPUs and NICs. Pure.

A pasted table has no names of roots; devices that it joins by PIX, PXB or PHB share one all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpu_dra.gpu_node import HEALTHY, SELF, GpuEntry, GpuNode, MigEntry, NicEntry
from gpu_dra.pcie import PHB, PIX, PXB

_ONE_ROOT: Final = frozenset((PIX, PXB, PHB))


@dataclass(frozen=True, slots=True)
class Root:
    """What hangs below one PCIe root. `shared` without a name: one root, but the table does not say which."""

    name: str | None
    shared: bool
    gpus: tuple[GpuEntry, ...]
    nics: tuple[NicEntry, ...]

    @property
    def title(self) -> str:
        return self.name or ("one PCIe root" if self.shared else "PCIe root unknown")


@dataclass(frozen=True, slots=True)
class NumaNode:
    """`number` is None where the machine does not say."""

    number: int | None
    roots: tuple[Root, ...]

    @property
    def title(self) -> str:
        return "NUMA node unknown" if self.number is None else f"NUMA node {self.number}"


def numa_nodes(node: GpuNode) -> tuple[NumaNode, ...]:
    """In the order of their first GPU, for that is the order in which people read them; those with NICs only come last."""
    devices: Sequence[GpuEntry | NicEntry] = (*node.gpus, *node.nics)
    groups: dict[tuple[int | None, str | None, int | str | None], list[GpuEntry | NicEntry]] = {}
    near = _near(node)
    for row, device in enumerate(devices):
        root = device.place.root
        leader: int | str | None = None
        if root is None and near.count(near[row]) > 1:
            leader = near[row]
        elif root is None and isinstance(device, GpuEntry) and len(node.meshes.get(device.mesh or "", ())) > 1:
            # Alone on a root that nobody names: those of one mesh stand together, lest each be a heading of its own.
            leader = device.mesh
        groups.setdefault((device.place.numa_node, root, leader), []).append(device)
    found: dict[int | None, list[Root]] = {}
    for (numa, root, leader), members in groups.items():
        gpus = tuple(member for member in members if isinstance(member, GpuEntry))
        nics = tuple(member for member in members if isinstance(member, NicEntry))
        found.setdefault(numa, []).append(Root(root, root is not None or isinstance(leader, int), gpus, nics))
    return tuple(NumaNode(number, tuple(roots)) for number, roots in found.items())


def state(device: GpuEntry | NicEntry | MigEntry) -> str:
    """`free`, who holds it, or what is wrong with it; nothing where nobody asked (a pasted table)."""
    words: list[str] = []
    if isinstance(device, GpuEntry) and device.health != HEALTHY:
        words.append(device.health)
    if device.claims:
        words.append(f"held by {', '.join(device.claims)}")
    if words:
        return "; ".join(words)
    if isinstance(device, GpuEntry):
        if not device.uuid:
            return ""
        if device.migs:
            return f"{len(device.migs)} MIG devices, {sum(not mig.claims for mig in device.migs)} free"
    elif isinstance(device, NicEntry) and not device.pci:
        return ""
    return "not offered" if device.device is None else "free"


def joined_meshes(node: GpuNode) -> list[tuple[str, tuple[int, ...], str]]:
    """Each mesh with its GPUs and the NVLink words inside: NV18, or NV1/NV2 where pairs differ."""
    row_of = {gpu.index: row for row, gpu in enumerate(node.gpus)}
    found: list[tuple[str, tuple[int, ...], str]] = []
    for name, members in node.meshes.items():
        words = {
            node.links[row_of[one]][row_of[other]] for one in members for other in members if one < other and node.links
        }
        found.append((name, members, "/".join(sorted(word for word in words if word.startswith("NV")))))
    return found


def across_meshes(node: GpuNode) -> list[tuple[int, int, str]]:
    """Pairs of GPUs that NVLink joins although they are of two meshes (a DGX-1)."""
    found: list[tuple[int, int, str]] = []
    for row, links in enumerate(node.links[: len(node.gpus)]):
        for column, word in enumerate(links[: len(node.gpus)]):
            one, other = node.gpus[row], node.gpus[column]
            if row < column and word.startswith("NV") and one.mesh and other.mesh and one.mesh != other.mesh:
                found.append((one.index, other.index, word))
    return found


def _near(node: GpuNode) -> list[int]:
    """For each row the first row that is below the same root, by the words."""
    near = list(range(len(node.gpus) + len(node.nics)))
    for row, links in enumerate(node.links):
        for column, word in enumerate(links[:row]):
            if word != SELF and word in _ONE_ROOT and near[row] != near[column]:
                old, new = max(near[row], near[column]), min(near[row], near[column])
                near = [new if leader == old else leader for leader in near]
    return near
