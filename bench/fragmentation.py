"""What the order of devices does for large claims: `python -m bench.fragmentation [CLAIMS]`.

Claims for 1, 2, 4 and 8 GPUs come and go on a fleet of simulated nodes, through the allocator of gpu_dra. One that fits
nowhere is turned away. Every order of publishing sees the same claims, and each claim the same nodes in the same random
order: the scheduler has no liking among nodes that all can serve a claim. Orders here are as new as the last claim; the
agent's lag by as much as its rate limit.
"""

from __future__ import annotations

import heapq
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpu_dra.allocator import Allocation, DeviceId, allocate
from gpu_dra.device import Device
from gpu_dra.device_class import DeviceClass
from gpu_dra.names import GPU_DRIVER, ClaimUid, DeviceName, pool_name
from gpu_dra.resource_claim import MatchAttribute, Request, ResourceClaim
from gpu_dra.resource_slice import Pool, ResourceSlice
from node_agent import inventory, order
from node_agent.adapters import simulated

FLEET: Final = {"split-4x4": 12, "dgx-h100": 4}
SIZES: Final = {1: 0.45, 2: 0.25, 4: 0.22, 8: 0.08}
"""Shares of the claims by their size."""
LOAD: Final = 0.85
"""GPUs asked for at a time, on average, of all there are."""
CLASSES: Final = {"gpu": DeviceClass("gpu")}
MESH: Final = MatchAttribute(f"{GPU_DRIVER}/nvlink_mesh_id")

Order = Callable[[Sequence[Device], Collection[DeviceName]], Sequence[Device]]
"""The devices of a node as found, and the names of those that are held -> as they are published."""


def _anything(_expression: str, _driver: str, _device: Device) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Asked:
    """A claim of the trace. `nodes` is the order in which the scheduler happens to look at the nodes."""

    at: float
    until: float
    size: int
    nodes: tuple[int, ...]


@dataclass(slots=True)
class Tally:
    """What became of the claims, by size, and how often the devices of a node changed their order."""

    asked: Counter[int] = field(default_factory=Counter[int])
    placed: Counter[int] = field(default_factory=Counter[int])
    together: Counter[int] = field(default_factory=Counter[int])
    reorders: int = 0

    def share(self, size: int) -> float:
        """Of the claims of this size, those that were placed."""
        return self.placed[size] / max(1, self.asked[size])

    def inside(self, size: int) -> float:
        """Of the claims of this size that were placed, those that are inside one mesh."""
        return self.together[size] / max(1, self.placed[size])


class Node:
    """A node that publishes its GPUs in some order."""

    def __init__(self, name: str, devices: Sequence[Device], ordered: Order) -> None:
        self._name = name
        self._devices = devices
        self._ordered = ordered
        self._mesh = {device.name: device.attributes["nvlink_mesh_id"] for device in devices}
        self.reorders = 0
        self.taken: set[DeviceId] = set()
        self._slice = self._published()

    def take(self, claim: ResourceClaim) -> tuple[DeviceId, ...]:
        """What the scheduler gives to the claim here; nothing where it does not fit."""
        found = allocate([claim], [self._slice], CLASSES, self.taken, _anything)
        if not isinstance(found, Allocation):
            return ()
        given = tuple(DeviceId(each.driver, each.pool, each.device) for each in found.results[0])
        self.taken.update(given)
        self._publish()
        return given

    def give_back(self, given: Collection[DeviceId]) -> None:
        self.taken.difference_update(given)
        self._publish()

    def meshes(self, given: Collection[DeviceId]) -> int:
        """Over how many meshes these devices lie."""
        return len({self._mesh[each.device] for each in given})

    def _publish(self) -> None:
        before, self._slice = self._slice, self._published()
        self.reorders += before != self._slice

    def _published(self) -> ResourceSlice:
        devices = self._ordered(self._devices, {each.device for each in self.taken})
        return ResourceSlice(
            self._name, GPU_DRIVER, self._name, Pool(pool_name(self._name, "gpu"), 1, 1), tuple(devices)
        )


def trace(claims: int, nodes: int, gpus: int, seed: int) -> list[Asked]:
    """Claims that come at random and stay for an exponential time, 1 on average, so that `LOAD` of all GPUs are asked for."""
    draw = random.Random(seed)
    mean = sum(size * share for size, share in SIZES.items()) / sum(SIZES.values())
    at, asked = 0.0, list[Asked]()
    for _ in range(claims):
        at += draw.expovariate(LOAD * gpus / mean)
        (size,) = draw.choices(list(SIZES), list(SIZES.values()))
        asked.append(Asked(at, at + draw.expovariate(1.0), size, tuple(draw.sample(range(nodes), nodes))))
    return asked


def run(asked: Sequence[Asked], nodes: Sequence[Node], *, constrained: bool) -> Tally:
    """Serve the claims as they come. `constrained` ties claims for 4 and 8 GPUs to one mesh."""
    tally = Tally()
    leaving: list[tuple[float, int, Node, tuple[DeviceId, ...]]] = []
    for number, each in enumerate(asked):
        while leaving and leaving[0][0] <= each.at:
            _, _, node, given = heapq.heappop(leaving)
            node.give_back(given)
        tally.asked[each.size] += 1
        claim = claim_of(each.size, constrained=constrained and each.size >= 4)
        for place in each.nodes:
            given = nodes[place].take(claim)
            if given:
                tally.placed[each.size] += 1
                tally.together[each.size] += nodes[place].meshes(given) == 1
                heapq.heappush(leaving, (each.until, number, nodes[place], given))
                break
    tally.reorders = sum(node.reorders for node in nodes)
    return tally


def claim_of(size: int, *, constrained: bool) -> ResourceClaim:
    request = Request("gpus", "gpu", count=size)
    return ResourceClaim("bench", "c", ClaimUid("c"), (request,), (MESH,) if constrained else ())


def fleet(kinds: Mapping[str, int]) -> list[tuple[str, tuple[Device, ...]]]:
    """Nodes by name with their devices, so many of each profile."""
    found: list[tuple[str, tuple[Device, ...]]] = []
    for kind, count in kinds.items():
        profile = simulated.load(kind)
        for number in range(count):
            name = f"{kind}-{number}"
            found.append((name, inventory.gpus(simulated.SimulatedNode(profile, name, None).read()).devices))
    return found


def orders(seed: int) -> dict[str, Callable[[str], Order]]:
    """By name, and for each node: ours, that of the driver's numbers, and one drawn once for each node."""

    def at_random(node: str) -> Order:
        def ordered(devices: Sequence[Device], _: Collection[DeviceName]) -> Sequence[Device]:
            return random.Random(f"{seed} {node}").sample(devices, len(devices))

        return ordered

    return {
        "ours": lambda _: order.arranged,
        "index": lambda _: lambda devices, _: sorted(devices, key=lambda device: int(str(device.attributes["index"]))),
        "random": at_random,
    }


def table(claims: int, kinds: Mapping[str, int], seed: int) -> list[str]:
    """The figures, a line for each order and kind of claim."""
    found = fleet(kinds)
    asked = trace(claims, len(found), sum(len(devices) for _, devices in found), seed)
    lines = [f"{'4 and 8 GPUs':14} {'order':8}" + "".join(f"{f'{size} GPU' + 's' * (size > 1):>9}" for size in SIZES)]
    lines[0] += "".join(f"{f'{size} in one':>10}" for size in (2, 4, 8)) + f"{'reorders':>10}"
    for constrained in (True, False):
        for name, of in orders(seed).items():
            nodes = [Node(node, devices, of(node)) for node, devices in found]
            tally = run(asked, nodes, constrained=constrained)
            line = f"{'in one mesh' if constrained else 'anywhere':14} {name:8}"
            line += "".join(f"{tally.share(size):>9.1%}" for size in SIZES)
            line += "".join(f"{tally.inside(size):>10.1%}" for size in (2, 4, 8))
            lines.append(f"{line}{tally.reorders / claims:>10.2f}")
    return lines


def main(arguments: Sequence[str]) -> int:
    claims, started = int(arguments[0]) if arguments else 4000, time.perf_counter()
    print(f"{claims} claims on {', '.join(f'{count} nodes {kind}' for kind, count in FLEET.items())}, load {LOAD:.0%}")
    for line in table(claims, FLEET, seed=1):
        print(line)
    print("N GPUs: share of the claims that were placed; N in one: of those, inside one mesh; reorders: for each claim")
    print(f"took {time.perf_counter() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
