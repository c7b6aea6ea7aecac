"""Prepare and Unprepare as one agent process does them, over three made-up GPUs and a few allocated claims."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpu_dra.device import Device
from gpu_dra.errors import GpuDraError
from gpu_dra.names import ClaimUid, DeviceName
from node_agent import cdi
from node_agent.adapters.files import ClaimFiles, Sweep
from node_agent.checkpoint import PreparedClaim
from node_agent.inventory import Inventory, Item
from node_agent.ports import ClaimStore
from node_agent.prepare import ClaimRef, Preparer
from node_agent.readings import DeviceNode
from tests.fakes.claims import NODE, FakeClaims

CLAIMS: Final = {"one": ("gpu-a", "gpu-b"), "two": ("gpu-b",), "three": ("gpu-b", "gpu-a"), "four": ("gpu-c",)}
"""Claims and the devices that are allocated to them; the API server of a test may know some of them only."""


class Agent:
    """Prepare and Unprepare of one process over a store. A boot's number is in each device's minor."""

    def __init__(self, store: ClaimStore, boot: int = 1, unknown: Iterable[str] = ()) -> None:
        node = replace(NODE, boot_id=f"boot-{boot}")
        self.store = store
        self.claims = FakeClaims()
        self.refs = {name: self.claims.add(node, name, *devices) for name, devices in CLAIMS.items()}
        for name in unknown:
            del self.claims.claims[f"default/{name}"]
        items = {
            DeviceName(name): Item(Device(DeviceName(name)), (DeviceNode(f"/dev/{name}", 195, 10 * boot + number),))
            for number, name in enumerate(("gpu-a", "gpu-b", "gpu-c"))
        }
        self.preparer = Preparer(node, lambda: Inventory(items), self.claims, store)

    async def repair(self, sweep: Sweep) -> None:
        assert sweep.set_aside == ()
        assert await self.preparer.repair(sweep.claims) == []

    async def prepare(self, name: str) -> PreparedClaim:
        answer = (await self.preparer.prepare([self.refs[name]]))[self.refs[name].uid]
        if isinstance(answer, GpuDraError):
            raise answer
        return answer

    async def unprepare(self, name: str) -> None:
        # What kubelet says beyond the uid may be missing.
        uid = self.refs[name].uid
        assert await self.preparer.unprepare([ClaimRef(uid, "", "")]) == {uid: None}


def files(folder: Path) -> ClaimFiles:
    return ClaimFiles(NODE.driver, folder / "state", folder / "cdi")


def cdi_file(folder: Path, name: str) -> Path:
    return folder / "cdi" / cdi.file_name(NODE.driver, ClaimUid(f"uid-of-{name}"))


async def started(folder: Path, boot: int = 1, unknown: Iterable[str] = ()) -> Agent:
    """A new process's agent, in this process."""
    store = files(folder)
    agent = Agent(store, boot, unknown)
    await agent.repair(store.open())
    return agent


def left(folder: Path) -> list[str]:
    """Everything that is there beside the lock file."""
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() and path.name != "lock"
    )
