"""What the agent's services need from outside, as they need it. Adapters implement these; tests have fakes of them."""

from __future__ import annotations

import threading
from typing import Any, Protocol

from gpu_dra.errors import ClaimError
from gpu_dra.gpu_node import GpuNode
from gpu_dra.names import ClaimUid, DeviceName
from gpu_dra.resource_claim import ResourceClaim
from gpu_dra.resource_slice import ResourceSlice
from node_agent.checkpoint import PreparedClaim


class DeviceHeld(ClaimError):
    """A device belongs to another claim; `holder` is that claim."""

    def __init__(self, device: DeviceName, holder: PreparedClaim) -> None:
        self.device = device
        self.holder = holder
        super().__init__(
            f"device {device} is still held by claim {holder.reference} (uid {holder.uid}) on this node;"
            " it is free once that claim's pod is gone and kubelet has unprepared it"
        )


class ClaimReader(Protocol):
    """Reads claims from the API server."""

    async def get(self, namespace: str, name: str) -> ResourceClaim | None:
        """The claim as it is now; None where there is none of this name. Raises Unavailable, never guesses."""
        ...


class ClaimStore(Protocol):
    """Keeps prepared claims and their CDI files. Methods block; each is all or nothing and may be repeated."""

    def load(self, uid: ClaimUid) -> PreparedClaim | None:
        """The kept claim, whichever process kept it."""
        ...

    def commit(self, claim: PreparedClaim, spec: dict[str, Any], still_wanted: threading.Event) -> None:
        """Reserve, keep and publish; DeviceHeld where another claim has a device; nothing is left on an error."""
        ...

    def restore(self, claim: PreparedClaim, spec: dict[str, Any]) -> None:
        """Keep and publish a kept claim again, as after a reboot; an error leaves it reserved."""
        ...

    def has_cdi(self, uid: ClaimUid) -> bool:
        """Whether the claim's CDI file is there."""
        ...

    def release(self, uid: ClaimUid) -> bool:
        """Forget the claim; True where it was kept. Needs nothing but the uid."""
        ...


class SliceStore(Protocol):
    """The ResourceSlices of one driver on this node, in the API server."""

    async def list(self) -> dict[str, ResourceSlice]:
        """All that are stored, by object name."""
        ...

    async def write(self, item: ResourceSlice, *, exists: bool) -> ResourceSlice:
        """Create or replace one; returns what the server made of it. Conflict where somebody was quicker."""
        ...

    async def delete(self, name: str) -> None:
        """Remove one; that it is gone already is fine."""
        ...

    async def changed(self) -> None:
        """Return when a stored slice may differ from what the last `list` or `write` said."""
        ...


class GpuNodeStore(Protocol):
    """The GpuNode of this node, in the API server."""

    async def write(self, node: GpuNode) -> bool:
        """Create or replace it where it differs; whether it did. Conflict where somebody was quicker."""
        ...
