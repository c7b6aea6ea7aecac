"""Choose devices: for each want so many of its candidates, none twice, so that shared values agree. Pure.

Depth first in list order, which gives the solution that the scheduler's search gives. Three things keep it short where
there is none: after each choice every want must still have enough candidates; of candidates that are alike only the first
is tried; and the steps are counted.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

Id = TypeVar("Id", bound=Hashable)
Value = TypeVar("Value", bound=Hashable)

_MAX_STEPS: Final = 100_000


class Exhausted(Exception):
    """The search took too many steps; there may be a solution or not."""


@dataclass(frozen=True, slots=True)
class Candidate(Generic[Id, Value]):
    """A device that a want could take, with its value for each of the want's keys; None where it has none."""

    id: Id
    values: tuple[Value | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Want(Generic[Id, Value]):
    """So many of these candidates, all of them with one value for each key; wants that share a key share its value."""

    candidates: tuple[Candidate[Id, Value], ...]
    count: int
    keys: tuple[Hashable, ...] = ()


def choose(wants: Sequence[Want[Id, Value]]) -> list[list[Id]] | None:
    """The first choice in list order, for each want its devices; None where there is none. Raises Exhausted."""
    return _Search(wants).run()


class _Search(Generic[Id, Value]):
    def __init__(self, wants: Sequence[Want[Id, Value]]) -> None:
        self._wants = wants
        self._chosen: list[list[Id]] = [[] for _ in wants]
        self._used: set[Id] = set()
        self._agreed: dict[Hashable, Value | None] = {}
        self._steps = 0
        # Devices are alike where they are candidates of the same wants with the same values.
        signature: dict[Id, list[tuple[int, tuple[Value | None, ...]]]] = {}
        for number, want in enumerate(wants):
            for candidate in want.candidates:
                signature.setdefault(candidate.id, []).append((number, candidate.values))
        self._like = {device: tuple(places) for device, places in signature.items()}

    def run(self) -> list[list[Id]] | None:
        return self._chosen if self._possible(0, 0) and self._place(0, 0) else None

    def _place(self, at: int, start: int) -> bool:
        """Fill the wants from `at` on; the next device of that want comes from `start` on in its list."""
        if at == len(self._wants):
            return True
        want, chosen = self._wants[at], self._chosen[at]
        if len(chosen) == want.count:
            return self._place(at + 1, 0)
        failed: set[object] = set()
        for place in range(start, len(want.candidates)):
            candidate = want.candidates[place]
            if self._like[candidate.id] in failed or not self._fits(want, candidate):
                continue
            self._steps += 1
            if self._steps > _MAX_STEPS:
                raise Exhausted
            fixed = {
                key: value for key, value in zip(want.keys, candidate.values, strict=True) if key not in self._agreed
            }
            chosen.append(candidate.id)
            self._used.add(candidate.id)
            self._agreed.update(fixed)
            if self._possible(at, place + 1) and self._place(at, place + 1):
                return True
            chosen.pop()
            self._used.discard(candidate.id)
            for key in fixed:
                del self._agreed[key]
            failed.add(self._like[candidate.id])
        return False

    def _fits(self, want: Want[Id, Value], candidate: Candidate[Id, Value]) -> bool:
        return candidate.id not in self._used and all(
            value is not None and self._agreed.get(key, value) == value
            for key, value in zip(want.keys, candidate.values, strict=True)
        )

    def _possible(self, at: int, start: int) -> bool:
        """Whether every want that is still open has enough candidates left, each want looked at alone."""
        for number in range(at, len(self._wants)):
            want = self._wants[number]
            missing = want.count - len(self._chosen[number])
            left = want.candidates[start:] if number == at else want.candidates
            if sum(self._fits(want, candidate) for candidate in left) < missing:
                return False
        return True
