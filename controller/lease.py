"""A coordination.k8s.io Lease as a value, and who may hold it. Pure.

The rules are those of client-go's leader election: time is only ever measured on the reader's own monotonic clock, from
the moment at which a record was first seen, since the clocks of two nodes need not agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from gpu_dra.api import JsonObject

DURATION: Final = 15.0
"""Seconds after which a lease that nobody renews is free."""
RENEW_DEADLINE: Final = 10.0
"""Seconds without a successful renewal after which the holder stops working: well before anybody else may start."""
RETRY: Final = 2.0
"""Seconds between two renewals, or two looks at somebody else's lease."""


@dataclass(frozen=True, slots=True)
class Lease:
    """One state of the lease. `stored` is the object it was read from, empty for one that is not stored yet."""

    holder: str
    duration: float
    acquired: str
    renewed: str
    transitions: int = 0
    stored: JsonObject = field(default_factory=dict[str, Any], compare=False)


@dataclass(frozen=True, slots=True)
class Sighting:
    """A state of the lease and when, on our clock, it was first seen."""

    lease: Lease
    since: float


def seen(before: Sighting | None, lease: Lease, now: float) -> Sighting:
    """A renewed lease starts its time anew; an unchanged one goes on ageing."""
    if before is not None and before.lease == lease:
        return replace(before, lease=lease)
    return Sighting(lease, now)


def is_free(sighting: Sighting, identity: str, now: float) -> bool:
    """Nobody's, our own from before a restart, or not renewed for its whole duration."""
    lease = sighting.lease
    return lease.holder in ("", identity) or now - sighting.since >= lease.duration


def taken(current: Lease | None, identity: str, wall_clock: str, duration: float = DURATION) -> Lease:
    """The lease held by us from now on."""
    if current is None:
        return Lease(identity, duration, wall_clock, wall_clock)
    same = current.holder == identity
    return Lease(
        identity,
        duration,
        current.acquired if same and current.acquired else wall_clock,
        wall_clock,
        current.transitions + (0 if same else 1),
        current.stored,
    )


def released(current: Lease, wall_clock: str) -> Lease:
    """The lease given back: the next replica need not wait."""
    return replace(current, holder="", duration=1.0, renewed=wall_clock)


def decode(obj: JsonObject) -> Lease:
    """From the API's object; a field that is missing reads as unheld."""
    spec = obj.get("spec") or {}
    return Lease(
        str(spec.get("holderIdentity") or ""),
        float(spec.get("leaseDurationSeconds") or 0),
        str(spec.get("acquireTime") or ""),
        str(spec.get("renewTime") or ""),
        int(spec.get("leaseTransitions") or 0),
        obj,
    )


def encode(lease: Lease, namespace: str, name: str) -> JsonObject:
    """To the API's object; what others wrote beside our fields stays."""
    stored = lease.stored
    spec = {
        **(stored.get("spec") or {}),
        "holderIdentity": lease.holder,
        "leaseDurationSeconds": max(1, round(lease.duration)),
        "acquireTime": lease.acquired or lease.renewed,
        "renewTime": lease.renewed,
        "leaseTransitions": lease.transitions,
    }
    metadata = stored.get("metadata") or {"name": name, "namespace": namespace}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
