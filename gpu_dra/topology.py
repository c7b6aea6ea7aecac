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
    joined = [sum(1 << other for other, count in enumerate(row) if count) for row in weight]
    groups: list[int] = []
    for component in _components(joined):
        if _is_clique(component, joined):
            groups.append(component)
        elif component.bit_count() <= _EXACT_LIMIT:
            groups += _best_cover(component, joined, weight)
        else:
            groups += _greedy_cover(component, joined, weight)
    groups.sort(key=lambda group: group & -group)
    return [tuple(gpus[place] for place in _members(group)) for group in groups]


def _components(joined: Sequence[int]) -> Iterator[int]:
    unseen = (1 << len(joined)) - 1
    while unseen:
        frontier = component = unseen & -unseen
        while frontier:
            reached = 0
            for place in _members(frontier):
                reached |= joined[place]
            frontier = reached & ~component
            component |= reached
        unseen &= ~component
        yield component


def _best_cover(component: int, joined: Sequence[int], weight: Sequence[Sequence[int]]) -> list[int]:
    @cache
    def inside(group: int) -> int:
        return _inside(group, weight)

    @cache
    def cover(rest: int) -> tuple[tuple[int, int], tuple[int, ...]]:
        """The cost of covering `rest` (groups, minus links inside) and the groups; the lowest GPU is placed first."""
        if not rest:
            return (0, 0), ()
        lowest = (rest & -rest).bit_length() - 1
        found: tuple[tuple[int, int], tuple[int, ...]] | None = None
        # Larger groups first, so that among equals the lowest GPU keeps the most company.
        for group in sorted(_cliques_with(lowest, rest, joined), key=lambda mask: (-mask.bit_count(), mask)):
            left, links = rest & ~group, inside(group)
            # Covering what is left costs at least this; without the bound one broken link of 16 GPUs takes a minute.
            fewest = 2 if not _is_clique(left, joined) else 1 if left else 0
            if found is not None and (fewest + 1, -links - inside(left)) >= found[0]:
                continue
            (count, less), groups = cover(left)
            candidate = ((count + 1, less - links), (group, *groups))
            if found is None or candidate[0] < found[0]:
                found = candidate
        if found is None:
            raise AssertionError("a GPU alone is always a group")
        return found

    return list(cover(component)[1])


def _greedy_cover(component: int, joined: Sequence[int], weight: Sequence[Sequence[int]]) -> list[int]:
    groups: list[int] = []
    while component:
        group = component & -component
        candidates = component & ~group
        while True:
            fitting = [place for place in _members(candidates) if not group & ~joined[place]]
            if not fitting:
                break
            best = max(fitting, key=lambda place: (sum(weight[place][other] for other in _members(group)), -place))
            group |= 1 << best
            candidates &= ~group
        groups.append(group)
        component &= ~group
    return groups


def _cliques_with(place: int, allowed: int, joined: Sequence[int]) -> Iterator[int]:
    def extend(group: int, candidates: int) -> Iterator[int]:
        yield group
        for other in _members(candidates):
            candidates &= ~(1 << other)
            yield from extend(group | 1 << other, candidates & joined[other])

    yield from extend(1 << place, allowed & joined[place])


def _is_clique(group: int, joined: Sequence[int]) -> bool:
    return all(not (group & ~(1 << place)) & ~joined[place] for place in _members(group))


def _inside(group: int, weight: Sequence[Sequence[int]]) -> int:
    members = list(_members(group))
    return sum(weight[a][b] for place, a in enumerate(members) for b in members[place + 1 :])


def _members(group: int) -> Iterator[int]:
    while group:
        lowest = group & -group
        yield lowest.bit_length() - 1
        group &= ~lowest
