"""Which claims hold which devices on this node: a ClaimStore that remembers what it was asked to keep and to release."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from gpu_dra.names import ClaimUid, DeviceName
from node_agent.checkpoint import PreparedClaim
from node_agent.ports import ClaimStore


class Holdings:
    """Passes every call on to the store. `changed` is called, in whatever thread, when a claim has come or gone."""

    def __init__(self, store: ClaimStore, kept: Iterable[PreparedClaim], changed: Callable[[], None]) -> None:
        self._store = store
        self._claims = {claim.uid: claim for claim in kept}
        self._changed = changed
        self._lock = threading.Lock()

    @property
    def claims(self) -> tuple[PreparedClaim, ...]:
        """The claims, in the order in which they came."""
        with self._lock:
            return tuple(self._claims.values())

    @property
    def held(self) -> frozenset[DeviceName]:
        """The devices that new claims do not get."""
        return frozenset(device for claim in self.claims for device in claim.reserved)

    def load(self, uid: ClaimUid) -> PreparedClaim | None:
        """As the store; another agent of this node may have kept the claim."""
        found = self._store.load(uid)
        self._note(uid, found)
        return found

    def commit(self, claim: PreparedClaim, spec: dict[str, Any], still_wanted: threading.Event) -> None:
        """As the store."""
        self._store.commit(claim, spec, still_wanted)
        self._note(claim.uid, claim)

    def restore(self, claim: PreparedClaim, spec: dict[str, Any]) -> None:
        """As the store."""
        self._store.restore(claim, spec)

    def has_cdi(self, uid: ClaimUid) -> bool:
        """As the store."""
        return self._store.has_cdi(uid)

    def release(self, uid: ClaimUid) -> bool:
        """As the store."""
        released = self._store.release(uid)
        self._note(uid, None)
        return released

    def _note(self, uid: ClaimUid, claim: PreparedClaim | None) -> None:
        with self._lock:
            known = self._claims.get(uid)
            if claim is not None:
                self._claims[uid] = claim
            else:
                self._claims.pop(uid, None)
        if (known is None) != (claim is None):
            self._changed()
