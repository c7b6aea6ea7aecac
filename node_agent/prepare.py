"""Prepare and Unprepare: from a claim's name to reserved devices and back.

The promises (each a test): every claim of a call has an answer of its own; a repeated Prepare answers the same; Unprepare
needs nothing but the uid; a device that one claim holds is never given to another; results of other drivers in a claim are
left alone. A claim that is being prepared holds up no other.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from gpu_dra.errors import ClaimError, GpuDraError
from gpu_dra.names import ClaimUid, PoolName
from gpu_dra.resource_claim import Allocated, ResourceClaim
from node_agent import cdi
from node_agent.checkpoint import PreparedClaim, PreparedDevice
from node_agent.inventory import Inventory, Item
from node_agent.ports import ClaimReader, ClaimStore, DeviceHeld

_log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """A claim as kubelet names it."""

    uid: ClaimUid
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Node:
    """What one driver knows of itself on this node."""

    driver: str
    pool: PoolName
    boot_id: str
    env: tuple[str, ...] = ()


Answer = PreparedClaim | GpuDraError


class Preparer:
    """Prepares the claims of one driver. `inventory` gives the devices as they are now."""

    def __init__(self, node: Node, inventory: Callable[[], Inventory], claims: ClaimReader, store: ClaimStore) -> None:
        self._node = node
        self._inventory = inventory
        self._claims = claims
        self._store = store
        # A Prepare may wait for the API server while kubelet gives up and unprepares; the late one must then leave nothing.
        self._attempts: defaultdict[ClaimUid, set[threading.Event]] = defaultdict(set)

    async def prepare(self, refs: Sequence[ClaimRef]) -> dict[ClaimUid, Answer]:
        """Prepare each claim; an error stands where a claim could not be prepared, and costs no other."""
        answers = await asyncio.gather(*(self._answer(self._prepare(ref), ref) for ref in refs))
        return {ref.uid: answer for ref, answer in zip(refs, answers, strict=True)}

    async def unprepare(self, refs: Sequence[ClaimRef]) -> dict[ClaimUid, GpuDraError | None]:
        """Release each claim; one that was never prepared is released already."""

        async def release(ref: ClaimRef) -> None:
            for attempt in self._attempts.get(ref.uid, ()):
                attempt.clear()
            await asyncio.to_thread(self._store.release, ref.uid)

        answers = await asyncio.gather(*(self._answer(release(ref), ref) for ref in refs))
        return {ref.uid: answer for ref, answer in zip(refs, answers, strict=True)}

    async def repair(self, claims: Sequence[PreparedClaim]) -> list[str]:
        """At start: make the CDI files again that a reboot took; returns a sentence for each claim that cannot be."""
        problems: list[str] = []
        for claim in claims:
            try:
                await self._ensure_cdi(claim)
            except GpuDraError as problem:
                problems.append(str(problem))
        return problems

    async def _prepare(self, ref: ClaimRef) -> PreparedClaim:
        kept = await asyncio.to_thread(self._store.load, ref.uid)
        if kept is not None:
            return await self._ensure_cdi(kept)
        still_wanted = threading.Event()
        still_wanted.set()
        self._attempts[ref.uid].add(still_wanted)
        try:
            return await self._reserve(await self._read(ref), still_wanted)
        finally:
            self._attempts[ref.uid].discard(still_wanted)
            if not self._attempts[ref.uid]:
                del self._attempts[ref.uid]

    async def _reserve(self, claim: ResourceClaim, still_wanted: threading.Event) -> PreparedClaim:
        prepared = self._plan(claim)
        spec = self._spec(prepared)
        try:
            await asyncio.to_thread(self._store.commit, prepared, spec, still_wanted)
        except DeviceHeld as held:
            if not await self._is_gone(held.holder):
                raise
            # Its pod and claim were deleted by force while no agent ran, so no Unprepare will ever come for it.
            _log.warning("releasing a claim that no longer exists", extra={"claim": held.holder.reference})
            await asyncio.to_thread(self._store.release, held.holder.uid)
            await asyncio.to_thread(self._store.commit, prepared, spec, still_wanted)
        return prepared

    async def _read(self, ref: ClaimRef) -> ResourceClaim:
        claim = await self._claims.get(ref.namespace, ref.name)
        if claim is None:
            raise ClaimError(f"claim {ref} is not in the API server; it was deleted, and its pod will go")
        if claim.uid != ref.uid:
            raise ClaimError(f"claim {ref} is another one now: its uid is {claim.uid}, and kubelet asks for {ref.uid}")
        if claim.allocated is None:
            raise ClaimError(f"claim {ref} is not allocated; the scheduler gives it devices before a pod can start")
        return claim

    def _plan(self, claim: ResourceClaim) -> PreparedClaim:
        node = self._node
        ours = [result for result in claim.allocated or () if result.driver == node.driver]
        if not ours:
            others = ", ".join(sorted({f"{result.device} of {result.driver}" for result in claim.allocated or ()}))
            raise ClaimError(
                f"claim {claim.reference} has no device of {node.driver}; it has {others or 'none at all'}"
            )
        for result in ours:
            self._item(result, claim)
        return PreparedClaim(
            claim.uid,
            claim.namespace,
            claim.name,
            node.boot_id,
            tuple(
                PreparedDevice(
                    result.base_request,
                    result.pool,
                    result.device,
                    cdi.device_id(node.driver, claim.uid, result.device),
                    result.admin_access,
                )
                for result in ours
            ),
        )

    def _item(self, result: Allocated, claim: ResourceClaim) -> Item:
        if result.pool != self._node.pool:
            raise ClaimError(
                f"claim {claim.reference}: device {result.device} is in pool {result.pool}, and this node's is"
                f" {self._node.pool}; a pod of the claim can only run there"
            )
        item = self._inventory().items.get(result.device)
        if item is None:
            found = self._inventory()
            raise ClaimError(
                f"claim {claim.reference}: device {result.device} of request {result.request} is not on this node;"
                f" {self._node.pool} has {_names(found)}."
                # With a reason they may all come back, and kubelet asks again by itself.
                + ("" if found.reason else " Delete the claim's pod, so that it is scheduled anew")
            )
        return item

    def _spec(self, claim: PreparedClaim) -> dict[str, Any]:
        inventory = self._inventory()
        missing = [device.device for device in claim.devices if device.device not in inventory.items]
        if missing:
            raise ClaimError(
                f"claim {claim.reference} holds {', '.join(missing)}, which this node no longer has;"
                f" {self._node.pool} has {_names(inventory)}"
            )
        # One entry a device, also where two requests (admin access) meet on one.
        devices = {device.device: inventory.items[device.device].nodes for device in claim.devices}
        return cdi.build(self._node.driver, claim.uid, devices.items(), inventory.common_nodes, self._node.env)

    async def _ensure_cdi(self, claim: PreparedClaim) -> PreparedClaim:
        same_boot = claim.boot_id == self._node.boot_id
        if same_boot and await asyncio.to_thread(self._store.has_cdi, claim.uid):
            return claim
        # The folder of CDI files is on tmpfs, and device numbers may change with a boot.
        current = replace(claim, boot_id=self._node.boot_id)
        await asyncio.to_thread(self._store.restore, current, self._spec(current))
        return current

    async def _is_gone(self, holder: PreparedClaim) -> bool:
        """By uid, and only where the API server says so: no answer is not an absence."""
        try:
            found = await self._claims.get(holder.namespace, holder.name)
        except GpuDraError:
            return False
        return found is None or found.uid != holder.uid

    @staticmethod
    async def _answer(work: Coroutine[Any, Any, T], ref: ClaimRef) -> T | GpuDraError:
        try:
            return await work
        except GpuDraError as problem:
            return problem
        except Exception as problem:  # noqa: BLE001 - a fault of ours in one claim must not cost the others
            _log.exception("internal error", extra={"claim": str(ref), "uid": ref.uid})
            return GpuDraError(
                f"claim {ref}: internal error of the agent ({type(problem).__name__}: {problem}); see its log"
            )


def _names(inventory: Inventory) -> str:
    if not inventory.items:
        return f"no device ({inventory.reason})" if inventory.reason else "no device"
    return ", ".join(list(inventory.items)[:16])
