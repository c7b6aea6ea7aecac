"""Claims against published devices: which devices the scheduler would choose, or for each node why there are none. Pure.

First fit, as the scheduler has it: nodes one after the other; on each the claims and requests in order, and for each of
them the first devices in list order with which all the rest works out, too. Not here: scores, taints, counters, shared
capacity; a claim that uses one of these is refused and not misjudged. Source:
k8s.io/dynamic-resource-allocation/structured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Final

from gpu_dra.device import Device
from gpu_dra.device_class import DeviceClass
from gpu_dra.errors import InputError
from gpu_dra.names import DeviceName, PoolName
from gpu_dra.resource_claim import Allocated, FirstAvailable, MatchAttribute, Request, ResourceClaim
from gpu_dra.resource_slice import ResourceSlice
from gpu_dra.search import Candidate, Exhausted, Want, choose

MAX_RESULTS: Final = 32
"""Devices a claim (API limit)."""
_MAX_CHOICES: Final = 256
"""Combinations of alternatives that are tried; the API allows eight alternatives for each of 32 requests."""

Matches = Callable[[str, str, Device], bool]
"""Whether a CEL expression matches a driver's device (gpu_dra.selectors.matches); InputError where it fails."""


@dataclass(frozen=True, slots=True)
class DeviceId:
    """A device among all of a cluster."""

    driver: str
    pool: PoolName
    device: DeviceName


@dataclass(frozen=True, slots=True)
class Allocation:
    """What the claims get, each in its place, all on one node."""

    node: str
    results: tuple[tuple[Allocated, ...], ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no node serves the claims: a sentence for each node."""

    reasons: Mapping[str, str]

    def __str__(self) -> str:
        if not self.reasons:
            return "no node publishes any device"
        return "; ".join(f"{node}: {reason}" for node, reason in self.reasons.items())


@dataclass(frozen=True, slots=True)
class _Part:
    """One request of one claim, its alternative chosen. `name` is as results and constraints write it."""

    claim: int
    name: str
    request: Request


@dataclass(frozen=True, slots=True)
class _Published:
    id: DeviceId
    device: Device


@dataclass(frozen=True, slots=True)
class _Value:
    """An attribute's value with its type: 1, "1" and true are not equal."""

    kind: str
    text: str


def allocate(
    claims: Sequence[ResourceClaim],
    slices: Iterable[ResourceSlice],
    classes: Mapping[str, DeviceClass],
    taken: Collection[DeviceId],
    matches: Matches,
) -> Allocation | Refusal:
    """Find devices for all claims of one pod. InputError where a claim cannot be judged at all.

    That is so where a class is not there, where a selector fails on a device (the scheduler, too, gives up then), and
    where a claim asks for what is not modelled here.
    """
    _check(claims, classes)
    reasons: dict[str, str] = {}
    for node, devices in _by_node(slices).items():
        found = _on_node(claims, devices, classes, taken, matches)
        if not isinstance(found, str):
            return Allocation(node, found)
        reasons[node] = found
    return Refusal(reasons)


def _check(claims: Sequence[ResourceClaim], classes: Mapping[str, DeviceClass]) -> None:
    for claim in claims:
        problems = [f"{part} is not known to this allocator" for part in claim.unsupported]
        for request in claim.requests:
            for exact in request.alternatives if isinstance(request, FirstAvailable) else (request,):
                if exact.device_class not in classes:
                    known = ", ".join(sorted(classes)) or "none at all"
                    problems.append(
                        f"request {exact.name}: there is no DeviceClass {exact.device_class}; there is {known}"
                    )
        if problems:
            raise InputError(f"claim {claim.reference}", problems)


def _by_node(slices: Iterable[ResourceSlice]) -> dict[str, list[_Published]]:
    """The devices of each node in the scheduler's order: pools by driver and name, slices by name, then as listed."""
    pools: dict[tuple[str, str, PoolName], list[ResourceSlice]] = {}
    nodes: dict[str, list[_Published]] = {}
    for item in slices:
        pools.setdefault((item.node, item.driver, item.pool.name), []).append(item)
    for (node, driver, pool), found in sorted(pools.items()):
        newest = max(item.pool.generation for item in found)
        current = sorted((item for item in found if item.pool.generation == newest), key=lambda item: item.name)
        devices = nodes.setdefault(node, [])
        # Of a pool that is not all there nothing is given out: what is missing may say otherwise.
        if len(current) == current[0].pool.slice_count:
            devices += [_Published(DeviceId(driver, pool, it.name), it) for item in current for it in item.devices]
    return nodes


def _on_node(
    claims: Sequence[ResourceClaim],
    devices: Sequence[_Published],
    classes: Mapping[str, DeviceClass],
    taken: Collection[DeviceId],
    matches: Matches,
) -> tuple[tuple[Allocated, ...], ...] | str:
    reason = ""
    matching: dict[_Part, list[_Published]] = {}
    for parts in islice(_choices(claims), _MAX_CHOICES):
        for part in parts:
            if part not in matching:
                matching[part] = _matching(claims, part, devices, classes, matches)
        found = _serve(claims, parts, matching, taken)
        if not isinstance(found, str):
            return found
        # The first choice is the one that the claim's author likes best, so its reason is the one to tell.
        reason = reason or found
    return reason


def _choices(claims: Sequence[ResourceClaim]) -> Iterable[tuple[_Part, ...]]:
    """All ways to settle the alternatives, the best liked first."""
    options = [
        [_Part(number, f"{request.name}/{each.name}", each) for each in request.alternatives]
        if isinstance(request, FirstAvailable)
        else [_Part(number, request.name, request)]
        for number, claim in enumerate(claims)
        for request in claim.requests
    ]
    return product(*options)


def _matching(
    claims: Sequence[ResourceClaim],
    part: _Part,
    devices: Sequence[_Published],
    classes: Mapping[str, DeviceClass],
    matches: Matches,
) -> list[_Published]:
    request = part.request
    selectors = (*classes[request.device_class].selectors, *request.selectors)
    try:
        return [item for item in devices if all(matches(cel, item.id.driver, item.device) for cel in selectors)]
    except InputError as problem:
        where = f"claim {claims[part.claim].reference}, request {part.name}"
        raise InputError(where, [str(problem)]) from problem


def _serve(
    claims: Sequence[ResourceClaim],
    parts: Sequence[_Part],
    matching: Mapping[_Part, list[_Published]],
    taken: Collection[DeviceId],
) -> tuple[tuple[Allocated, ...], ...] | str:
    wants: list[Want[DeviceId, _Value]] = []
    for part in parts:
        free = [item for item in matching[part] if part.request.admin_access or item.id not in taken]
        tainted = [item for item in free if any(taint.keeps_away for taint in item.device.taints)]
        free = [item for item in free if item not in tainted]
        short = _short(part, matching[part], free, len(tainted))
        if short:
            return short
        applied = _constraints(claims, part)
        candidates = [Candidate(item.id, tuple(_value(item, each.attribute) for each in applied)) for item in free]
        keys = tuple((part.claim, claims[part.claim].constraints.index(each)) for each in applied)
        count = part.request.count
        wants.append(Want(tuple(candidates), len(free) if count is None else count, keys))
    for number, claim in enumerate(claims):
        total = sum(want.count for part, want in zip(parts, wants, strict=True) if part.claim == number)
        if total > MAX_RESULTS:
            return f"claim {claim.name} would get {total} devices, and a claim holds at most {MAX_RESULTS}"
    try:
        chosen = choose(wants)
    except Exhausted:
        return "the search was given up: too many combinations of devices had to be tried"
    if chosen is None:
        return _apart(claims, parts, wants)
    results: list[list[Allocated]] = [[] for _ in claims]
    for part, ids in zip(parts, chosen, strict=True):
        admin = part.request.admin_access
        results[part.claim] += [Allocated(part.name, each.driver, each.pool, each.device, admin) for each in ids]
    return tuple(tuple(result) for result in results)


def _short(part: _Part, matching: Sequence[_Published], free: Sequence[_Published], tainted: int) -> str:
    """Why a request cannot be served whatever the others get; empty where it can."""
    request = part.request
    asks = f"request {part.name} asks for {'all' if request.count is None else request.count} of {request.device_class}"
    if not matching:
        return f"{asks}, and no device here matches the class and the request's selectors"
    marked = f" ({tainted} tainted)" if tainted else ""
    if request.count is None:
        used = len(matching) - len(free)
        return f"{asks}, and {used} of {len(matching)} that match are in use{marked}" if used else ""
    if len(free) >= request.count:
        return ""
    return f"{asks}, and of {len(matching)} that match {len(free)} are free{marked}"


def _apart(claims: Sequence[ResourceClaim], parts: Sequence[_Part], wants: Sequence[Want[DeviceId, _Value]]) -> str:
    """Why what is enough in number does not go together."""
    for part, want in zip(parts, wants, strict=True):
        if choose([want]) is not None:
            continue
        for at, constraint in enumerate(_constraints(claims, part)):
            groups = Counter(shown for candidate in want.candidates if (shown := candidate.values[at]) is not None)
            if max(groups.values(), default=0) < want.count:
                free = ", ".join(f"{count} in {value.text}" for value, count in groups.items()) or "none that has it"
                attribute = constraint.attribute
                return f"request {part.name} asks for {want.count} with one value of {attribute}; free are {free}"
        return f"request {part.name} finds no {want.count} devices that meet its constraints together"
    attributes = sorted({constraint.attribute for claim in claims for constraint in claim.constraints})
    together = f" with one value of {' and of '.join(attributes)} each" if attributes else ""
    return f"each request alone could be served, and not all of them together{together}"


def _constraints(claims: Sequence[ResourceClaim], part: _Part) -> list[MatchAttribute]:
    """Those of a request: a constraint names requests, or single alternatives of them, or means all where it names none."""
    base = part.name.partition("/")[0]
    every = claims[part.claim].constraints
    return [each for each in every if not each.requests or part.name in each.requests or base in each.requests]


def _value(item: _Published, attribute: str) -> _Value | None:
    """The attribute's value as something to compare; None where the device lacks it."""
    domain, _, short = attribute.partition("/")
    found = item.device.attributes.get(attribute)
    if found is None and domain == item.id.driver:
        found = item.device.attributes.get(short)
    return None if found is None else _Value(type(found).__name__, str(found))
