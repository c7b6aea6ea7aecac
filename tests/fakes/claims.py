"""Claims in memory: what the API server says of them, and a store that keeps prepared ones like the files on a node."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import Any

from gpu_dra.errors import ClaimError, HostError, InputError, Unavailable
from gpu_dra.names import ClaimUid, DeviceName, PoolName
from gpu_dra.resource_claim import Allocated, ResourceClaim
from node_agent import cdi, checkpoint
from node_agent.adapters.files import Sweep
from node_agent.checkpoint import PreparedClaim
from node_agent.ports import DeviceHeld
from node_agent.prepare import ClaimRef, Node


class FakeClaims:
    """ClaimReader. `down` makes every call fail."""

    def __init__(self) -> None:
        self.claims: dict[str, ResourceClaim] = {}
        self.down = False

    async def get(self, namespace: str, name: str) -> ResourceClaim | None:
        if self.down:
            raise Unavailable("the API server is out of reach")
        return self.claims.get(f"{namespace}/{name}")

    def add(self, node: Node, name: str, *devices: str, admin: bool = False) -> ClaimRef:
        """A claim with the uid `uid-of-<name>` to which these devices of the node are allocated."""
        uid = ClaimUid(f"uid-of-{name}")
        results = tuple(Allocated("gpus", node.driver, node.pool, DeviceName(device), admin) for device in devices)
        self.claims[f"default/{name}"] = ResourceClaim("default", name, uid, allocated=results)
        return ClaimRef(uid, "default", name)


@dataclass
class FakeDisk:
    """File names and contents. While `full`, no CDI file can be written."""

    claims: dict[str, bytes] = field(default_factory=dict[str, bytes])
    cdi: dict[str, bytes] = field(default_factory=dict[str, bytes])
    set_aside: list[bytes] = field(default_factory=list[bytes])
    full: bool = False


class FakeClaimStore:
    """ClaimStore, one agent's; several on one disk share what is kept. Not safe in threads."""

    def __init__(self, driver: str, disk: FakeDisk) -> None:
        self._driver = driver
        self._disk = disk

    def open(self) -> Sweep:
        before = set(self._disk.claims)
        found = {name: self._read(name) for name in sorted(before)}
        claims = tuple(claim for claim in found.values() if claim is not None)
        removed: list[str] = []
        for name in sorted(self._disk.cdi):
            uid = cdi.uid_of(self._driver, name)
            if uid is not None and f"{uid}.json" not in self._disk.claims:
                del self._disk.cdi[name]
                removed.append(uid)
        return Sweep(claims, tuple(sorted(before - set(self._disk.claims))), tuple(removed))

    def load(self, uid: ClaimUid) -> PreparedClaim | None:
        return self._read(_name(uid))

    def commit(self, claim: PreparedClaim, spec: dict[str, Any], still_wanted: threading.Event) -> None:
        name = _name(claim.uid)
        if not still_wanted.is_set():
            raise ClaimError(f"claim {claim.reference} was unprepared while it was being prepared")
        for other in (self._read(other) for other in sorted(self._disk.claims)):
            if other is not None and other.uid != claim.uid and set(other.reserved) & set(claim.reserved):
                raise DeviceHeld(min(set(other.reserved) & set(claim.reserved)), other)
        self._write_cdi(claim.uid, spec)
        self._disk.claims[name] = checkpoint.encode(claim)

    def restore(self, claim: PreparedClaim, spec: dict[str, Any]) -> None:
        if _name(claim.uid) in self._disk.claims:
            self._write_cdi(claim.uid, spec)
            self._disk.claims[_name(claim.uid)] = checkpoint.encode(claim)

    def has_cdi(self, uid: ClaimUid) -> bool:
        return cdi.file_name(self._driver, uid) in self._disk.cdi

    def release(self, uid: ClaimUid) -> bool:
        name = _name(uid)
        self._disk.cdi.pop(cdi.file_name(self._driver, uid), None)
        return self._disk.claims.pop(name, None) is not None

    def _write_cdi(self, uid: ClaimUid, spec: dict[str, Any]) -> None:
        if self._disk.full:
            raise HostError("cannot write the CDI file: the disk is full")
        self._disk.cdi[cdi.file_name(self._driver, uid)] = json.dumps(spec, indent=1).encode() + b"\n"

    def _read(self, name: str) -> PreparedClaim | None:
        text = self._disk.claims.get(name)
        if text is None:
            return None
        try:
            claim = checkpoint.decode(text, name)
            if _name(claim.uid) != name:
                raise InputError(name, [f"holds the claim {claim.uid}"])
        except (InputError, ClaimError):
            self._disk.set_aside.append(self._disk.claims.pop(name))
            return None
        return claim


def _name(uid: ClaimUid) -> str:
    if not cdi.is_safe_uid(uid):
        raise ClaimError(f"{uid!r} cannot be a claim's uid")
    return f"{uid}.json"


def example(node: Node, name: str, *devices: str, admin: bool = False) -> PreparedClaim:
    """A prepared claim as FakeClaims.add would have it allocated."""
    uid = ClaimUid(f"uid-of-{name}")
    kept = tuple(
        checkpoint.PreparedDevice(
            "gpus", node.pool, DeviceName(device), cdi.device_id(node.driver, uid, DeviceName(device)), admin
        )
        for device in devices
    )
    return PreparedClaim(uid, "default", name, node.boot_id, kept)


NODE = Node("gpu.nvidia.com", PoolName("n1/gpu"), "boot-1")
