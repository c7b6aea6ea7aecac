"""NVLink meshes: which GPUs may be handed out together so that every pair talks over NVLink.

A mesh is a group in which every pair is joined by NVLink. A node's GPUs are partitioned into meshes: a connected
component that is all-to-all is one; another (a DGX-1 hybrid cube) is split into the fewest all-to-all groups, among those
into the ones with the most links inside, among those so that the lowest GPU gets the largest group.
Exact up to 16 GPUs a component, greedy above (no box in the field is there). Pure: link counts in, groups out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

_EXACT_LIMIT = 16


def meshes(gpus: Sequence[str], links: Mapping[tuple[str, str], int]) -> list[tuple[str, ...]]:
    """Partition `gpus` (in order of precedence: PCI address) into meshes; meshes come ordered by their lowest GPU.

    `links` counts active NVLinks of a pair in either order; absent or zero is no link.
    """
    number = {gpu: place for place, gpu in enumerate(gpus)}
    weight = [[0] * len(gpus) for _ in gpus]
    for (first, second), count in links.items():
        if first in number and second in number and first != second:
            weight[number[first]][number[second]] = weight[number[second]][number[first]] = count
    groups: list[int] = []
    for component in _components(weight):
        if _is_clique(component, weight):
            groups.append(component)
        elif component.bit_count() <= _EXACT_LIMIT:
            groups += _best_cover(component, weight)
        else:
            groups += _greedy_cover(component, weight)
    groups.sort(key=lambda group: group & -group)
    return [tuple(gpus[place] for place in _members(group)) for group in groups]


def _components(weight: Sequence[Sequence[int]]) -> Iterator[int]:
    unseen = (1 << len(weight)) - 1
    while unseen:
        frontier = component = unseen & -unseen
        while frontier:
            reached = 0
            for place in _members(frontier):
                reached |= _neighbours(place, weight)
            frontier = reached & ~component
            component |= reached
        unseen &= ~component
        yield component


def _best_cover(component: int, weight: Sequence[Sequence[int]]) -> list[int]:
    @cache
    def cover(rest: int) -> tuple[tuple[int, int], tuple[int, ...]]:
        """The cost of covering `rest` (groups, minus links inside) and the groups; the lowest GPU is placed first."""
        if not rest:
            return (0, 0), ()
        lowest = (rest & -rest).bit_length() - 1
        found: tuple[tuple[int, int], tuple[int, ...]] | None = None
        # Larger groups first, so that among equals the lowest GPU keeps the most company.
        for group in sorted(_cliques_with(lowest, rest, weight), key=lambda mask: (-mask.bit_count(), mask)):
            (count, inside), groups = cover(rest & ~group)
            candidate = ((count + 1, inside - _inside(group, weight)), (group, *groups))
            if found is None or candidate[0] < found[0]:
                found = candidate
        if found is None:
            raise AssertionError("a GPU alone is always a group")
        return found

    return list(cover(component)[1])


def _greedy_cover(component: int, weight: Sequence[Sequence[int]]) -> list[int]:
    groups: list[int] = []
    while component:
        group = component & -component
        candidates = component & ~group
        while True:
            joined = [place for place in _members(candidates) if not group & ~_neighbours(place, weight)]
            if not joined:
                break
            best = max(joined, key=lambda place: (sum(weight[place][other] for other in _members(group)), -place))
            group |= 1 << best
            candidates &= ~group
        groups.append(group)
        component &= ~group
    return groups


def _cliques_with(place: int, allowed: int, weight: Sequence[Sequence[int]]) -> Iterator[int]:
    def extend(group: int, candidates: int) -> Iterator[int]:
        yield group
        for other in _members(candidates):
            candidates &= ~(1 << other)
            yield from extend(group | 1 << other, candidates & _neighbours(other, weight))

    yield from extend(1 << place, allowed & _neighbours(place, weight))


def _is_clique(group: int, weight: Sequence[Sequence[int]]) -> bool:
    return all(not (group & ~(1 << place)) & ~_neighbours(place, weight) for place in _members(group))


def _inside(group: int, weight: Sequence[Sequence[int]]) -> int:
    members = list(_members(group))
    return sum(weight[a][b] for place, a in enumerate(members) for b in members[place + 1 :])


def _neighbours(place: int, weight: Sequence[Sequence[int]]) -> int:
    return sum(1 << other for other, count in enumerate(weight[place]) if count)


def _members(group: int) -> Iterator[int]:
    while group:
        lowest = group & -group
        yield lowest.bit_length() - 1
        group &= ~lowest
