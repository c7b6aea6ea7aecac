"""What is kept of a prepared claim: one JSON file each. Pure: encode and decode.

The file *is* the reservation: while it is there, its devices belong to the claim. It stores what Unprepare and a repeated
Prepare need and no more; the CDI file is made again from the inventory when it is gone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from gpu_dra.decode import Reader
from gpu_dra.errors import InputError
from gpu_dra.names import ClaimUid, DeviceName, PoolName

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """One device of a claim, and the id by which the container runtime finds it. `request` is the base request."""

    request: str
    pool: PoolName
    device: DeviceName
    cdi_id: str
    admin_access: bool = False


@dataclass(frozen=True, slots=True)
class PreparedClaim:
    """A claim whose devices are reserved on this node. `boot_id` tells whether device numbers may have changed since."""

    uid: ClaimUid
    namespace: str
    name: str
    boot_id: str
    devices: tuple[PreparedDevice, ...]

    @property
    def reference(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def reserved(self) -> tuple[DeviceName, ...]:
        """The devices that nobody else may have meanwhile; admin access takes none."""
        return tuple(sorted({item.device for item in self.devices if not item.admin_access}))


def encode(claim: PreparedClaim) -> bytes:
    document = {
        "format": FORMAT,
        "claim": {"uid": claim.uid, "namespace": claim.namespace, "name": claim.name},
        "bootId": claim.boot_id,
        "devices": [
            {
                "request": item.request,
                "pool": item.pool,
                "device": item.device,
                "cdiId": item.cdi_id,
                **({"adminAccess": True} if item.admin_access else {}),
            }
            for item in claim.devices
        ],
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def decode(text: bytes, where: str) -> PreparedClaim:
    """Read a kept claim; InputError names `where` and what is wrong. Fields of a newer version are passed over."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise InputError(where, [f"this is no JSON: {problem}"]) from problem
    root = Reader.root(data)
    root.integer("format", minimum=1)
    who = root.child("claim")
    uid, namespace, name = who.text("uid"), who.text("namespace"), who.text("name")
    boot_id = root.text("bootId")
    devices: list[PreparedDevice] = []
    for entry in root.items("devices"):
        request, pool, device, cdi_id = (entry.text(key) for key in ("request", "pool", "device", "cdiId"))
        admin = entry.boolean("adminAccess", False)  # noqa: FBT003
        devices.append(PreparedDevice(request, PoolName(pool), DeviceName(device), cdi_id, admin))
        entry.ignore_unknown()
    root.ignore_unknown()
    who.ignore_unknown()
    root.finish(where)
    return PreparedClaim(ClaimUid(uid), namespace, name, boot_id, tuple(devices))
