"""The rest of a cluster, as far as the agent meets it: the objects that the API server would hold, and the scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpu_dra import allocator, selectors
from gpu_dra.allocator import DeviceId, Refusal
from gpu_dra.device_class import DeviceClass
from gpu_dra.resource_claim import ResourceClaim
from gpu_dra.resource_slice import ResourceSlice


class Slices:
    """A SliceStore in memory, for one driver."""

    def __init__(self) -> None:
        self.stored: dict[str, ResourceSlice] = {}

    async def list(self) -> dict[str, ResourceSlice]:
        return dict(self.stored)

    async def write(self, item: ResourceSlice, *, exists: bool) -> ResourceSlice:  # noqa: ARG002
        self.stored[item.name] = item
        return item

    async def delete(self, name: str) -> None:
        self.stored.pop(name, None)

    async def changed(self) -> None:
        """Nobody else writes here."""
        await asyncio.Event().wait()


class Claims:
    """A ClaimReader in memory, and the scheduler that allocates what it holds."""

    def __init__(self, classes: Iterable[DeviceClass]) -> None:
        self._classes = {each.name: each for each in classes}
        self._stored: dict[tuple[str, str], ResourceClaim] = {}

    async def get(self, namespace: str, name: str) -> ResourceClaim | None:
        return self._stored.get((namespace, name))

    def holds(self, claims: Sequence[ResourceClaim]) -> bool:
        """Whether all of these are allocated already."""
        return all((claim.namespace, claim.name) in self._stored for claim in claims)

    def schedule(
        self, claims: Sequence[ResourceClaim], slices: Iterable[ResourceSlice]
    ) -> list[ResourceClaim] | Refusal:
        """Allocate the claims of one pod and store them; those that are allocated already stay as they are."""
        known = [self._stored.get((claim.namespace, claim.name), claim) for claim in claims]
        waiting = [claim for claim in known if claim.allocated is None]
        found = self.would_get(waiting, slices)
        if isinstance(found, Refusal):
            return found
        for claim in found:
            self._stored[claim.namespace, claim.name] = claim
        return [self._stored[claim.namespace, claim.name] for claim in known]

    def would_get(
        self, claims: Sequence[ResourceClaim], slices: Iterable[ResourceSlice]
    ) -> list[ResourceClaim] | Refusal:
        """The claims with what the scheduler would give them now; nothing is stored."""
        found = allocator.allocate(claims, slices, self._classes, self._taken(), selectors.matches)
        if isinstance(found, Refusal):
            return found
        return [replace(claim, allocated=result) for claim, result in zip(claims, found.results, strict=True)]

    def delete(self, claim: ResourceClaim) -> None:
        self._stored.pop((claim.namespace, claim.name), None)

    def _taken(self) -> set[DeviceId]:
        results = (result for claim in self._stored.values() for result in claim.allocated or ())
        return {DeviceId(item.driver, item.pool, item.device) for item in results if not item.admin_access}
