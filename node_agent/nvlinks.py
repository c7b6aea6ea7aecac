"""What each GPU says of its NVLinks -> how many join each pair. Pure.

A direct link names the peer at its other end. One into a switch names none, so the pairs behind switches are those that
reach each other peer to peer over NVLink, with as many links as the side that has fewer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations

from gpu_dra.pci import PciAddress
from node_agent.readings import LinkCounts, pair


@dataclass(frozen=True, slots=True)
class Ends:
    """The active links of one GPU: to other GPUs (one entry a link) and into switches; and whom it reaches over NVLink."""

    peers: tuple[PciAddress, ...] = ()
    switched: int = 0
    reaches: frozenset[PciAddress] = frozenset()


def counted(ends: Mapping[PciAddress, Ends], uuids: Mapping[PciAddress, str]) -> LinkCounts:
    """The links of each pair of the GPUs in `ends`, by UUID."""
    counts: dict[tuple[str, str], int] = {}
    direct = {pci: Counter(end.peers) for pci, end in ends.items()}
    for one, two in combinations(ends, 2):
        between = min(direct[one][two], direct[two][one])
        switched = min(ends[one].switched, ends[two].switched)
        if switched and two in ends[one].reaches and one in ends[two].reaches:
            between += switched
        if between:
            counts[pair(uuids[one], uuids[two])] = between
    return counts


def kept(before: LinkCounts, doubtful: Collection[str]) -> LinkCounts:
    """The links of GPUs that cannot be asked, as they were last seen: a sick GPU stays in the mesh of its healthy days."""
    return {names: count for names, count in before.items() if not set(doubtful).isdisjoint(names)}
