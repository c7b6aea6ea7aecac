"""Prepare and Unprepare over the real state files, with claims from memory."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_dra.errors import GpuDraError, Unavailable
from gpu_dra.names import ClaimUid, DeviceName, PoolName
from gpu_dra.resource_claim import Allocated, ResourceClaim
from node_agent import inventory
from node_agent.adapters import simulated
from node_agent.adapters.files import ClaimFiles
from node_agent.checkpoint import PreparedClaim
from node_agent.prepare import ClaimRef, Node, Preparer
from tests.needs import need

DRIVER = "gpu.nvidia.com"
POOL = PoolName("n1/gpu")
INVENTORY = inventory.gpus(simulated.SimulatedNode(simulated.load("split-4x4"), "n1", None).read())
GPUS = list(INVENTORY.items)


class Claims:
    """A ClaimReader from memory; `gate`, where set, holds every read until it is opened."""

    def __init__(self) -> None:
        self.claims: dict[str, ResourceClaim] = {}
        self.reads = 0
        self.down = False
        self.gate: asyncio.Event | None = None
        self.reading = asyncio.Event()

    async def get(self, namespace: str, name: str) -> ResourceClaim | None:
        self.reads += 1
        self.reading.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.down:
            raise Unavailable("the API server is out of reach")
        return self.claims.get(f"{namespace}/{name}")

    def add(self, number: int, *devices: str, driver: str = DRIVER, pool: str = POOL, admin: bool = False) -> ClaimRef:
        uid, name = ClaimUid(f"uid-{number}"), f"claim-{number}"
        results = tuple(
            Allocated("gpus", driver, PoolName(pool), DeviceName(device), admin_access=admin) for device in devices
        )
        claim = replace(EMPTY, uid=uid, name=name, allocated=results)
        self.claims[f"default/{name}"] = claim
        return ClaimRef(uid, "default", name)


EMPTY = ResourceClaim(uid=ClaimUid("u"), namespace="default", name="c", requests=(), constraints=(), allocated=None)


class Rig:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cdi = folder / "cdi"
        self.claims = Claims()
        self.restart()

    def restart(self, boot_id: str = "boot-1") -> None:
        self.files = ClaimFiles(DRIVER, self.folder / "state", self.cdi)
        self.sweep = self.files.open()
        self.preparer = Preparer(Node(DRIVER, POOL, boot_id), lambda: INVENTORY, self.claims, self.files)

    async def one(self, ref: ClaimRef) -> PreparedClaim:
        answer = (await self.preparer.prepare([ref]))[ref.uid]
        if isinstance(answer, GpuDraError):
            raise answer
        return answer

    def left(self) -> list[str]:
        folders = (self.cdi, self.folder / "state/claims", self.folder / "state/held")
        return [str(path) for folder in folders for path in folder.iterdir()]


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


async def test_every_id_of_the_answer_resolves_in_the_cdi_file(rig: Rig) -> None:
    answer = await rig.one(rig.claims.add(1, GPUS[0], GPUS[1]))
    spec = json.loads((rig.cdi / f"{DRIVER}-claim_uid-1.json").read_text())
    assert [device.cdi_id for device in answer.devices] == [
        f"{spec['kind']}={entry['name']}" for entry in spec["devices"]
    ]


async def test_repeated_prepare_answers_the_same_without_the_api_server(rig: Rig) -> None:
    ref = rig.claims.add(1, GPUS[0])
    first = await rig.one(ref)
    rig.claims.down = True
    rig.restart()
    assert await rig.one(ref) == first


async def test_unprepare_needs_only_the_uid_and_leaves_nothing(rig: Rig) -> None:
    ref = rig.claims.add(1, GPUS[0])
    await rig.one(ref)
    rig.claims.down = True
    (rig.cdi / f"{DRIVER}-claim_uid-1.json").unlink()
    again = ClaimRef(ref.uid, "", "")
    for _ in range(2):
        assert await rig.preparer.unprepare([again]) == {ref.uid: None}
    assert rig.left() == []


async def test_a_bad_claim_costs_no_other_and_its_error_names_the_device(rig: Rig) -> None:
    good = rig.claims.add(1, GPUS[0])
    absent = rig.claims.add(2, "gpu-nowhere")
    foreign = rig.claims.add(3, "tpu-0", driver="tpu.example.com")
    elsewhere = rig.claims.add(4, GPUS[1], pool="n2/gpu")
    missing = ClaimRef(ClaimUid("uid-9"), "default", "claim-9")
    unsafe = ClaimRef(ClaimUid("../../x"), "default", "claim-1")
    answers = await rig.preparer.prepare([good, absent, foreign, elsewhere, missing, unsafe])
    assert isinstance(answers[good.uid], PreparedClaim)
    words = {absent: "gpu-nowhere", foreign: "tpu.example.com", elsewhere: "n2/gpu", missing: "not in the API server"}
    for ref, word in words.items():
        assert word in str(answers[ref.uid])
    assert "cannot be a claim's uid" in str(answers[unsafe.uid])


async def test_a_held_device_is_given_to_nobody_else(rig: Rig) -> None:
    first, second = rig.claims.add(1, GPUS[0]), rig.claims.add(2, GPUS[0])
    await rig.one(first)
    with pytest.raises(GpuDraError, match=r"still held by claim default/claim-1"):
        await rig.one(second)
    await rig.preparer.unprepare([first])
    assert (await rig.one(second)).devices[0].device == GPUS[0]


async def test_a_holder_that_the_server_no_longer_knows_is_released(rig: Rig) -> None:
    await rig.one(rig.claims.add(1, GPUS[0]))
    second = rig.claims.add(2, GPUS[0])
    del rig.claims.claims["default/claim-1"]
    assert (await rig.one(second)).uid == second.uid


async def test_admin_access_takes_no_device(rig: Rig) -> None:
    await rig.one(rig.claims.add(1, GPUS[0]))
    await rig.one(rig.claims.add(2, GPUS[0], admin=True))


async def test_a_late_prepare_that_was_overtaken_by_its_unprepare_leaves_nothing(rig: Rig) -> None:
    ref = rig.claims.add(1, GPUS[0])
    rig.claims.gate = asyncio.Event()
    late = asyncio.create_task(rig.one(ref))
    await rig.claims.reading.wait()
    await rig.preparer.unprepare([ref])
    rig.claims.gate.set()
    with pytest.raises(GpuDraError, match="unprepared while it was being prepared"):
        await late
    assert rig.left() == []


async def test_after_a_reboot_the_cdi_file_is_made_again(rig: Rig) -> None:
    ref = rig.claims.add(1, GPUS[0])
    await rig.one(ref)
    path = rig.cdi / f"{DRIVER}-claim_uid-1.json"
    text = path.read_text()
    path.unlink()
    rig.restart(boot_id="boot-2")
    assert await rig.preparer.repair(rig.sweep.claims) == []
    assert path.read_text() == text


async def test_a_malformed_state_file_is_set_aside_and_reported(rig: Rig) -> None:
    (rig.folder / "state/claims/uid-7.json").write_text("{")
    rig.restart()
    assert len(rig.sweep.set_aside) == 1
    assert "uid-7.json" in rig.sweep.set_aside[0]
    assert list((rig.folder / "state/set-aside").iterdir())


async def test_a_cdi_folder_that_cannot_be_written_gives_an_error_and_no_reservation(rig: Rig) -> None:
    rig.cdi.rmdir()
    rig.cdi.write_text("a file where the folder should be")
    ref = rig.claims.add(1, GPUS[0])
    with pytest.raises(GpuDraError, match="cannot write"):
        await rig.one(ref)
    rig.cdi.unlink()
    rig.cdi.mkdir()
    assert rig.left() == []
    await rig.one(ref)


async def test_an_orphaned_cdi_file_goes_at_start_and_others_files_stay(rig: Rig) -> None:
    (rig.cdi / f"{DRIVER}-claim_dead.json").write_text("{}")
    (rig.cdi / "vendor.json").write_text("{}")
    rig.restart()
    assert rig.sweep.removed == ("dead",)
    assert [path.name for path in rig.cdi.iterdir()] == ["vendor.json"]


async def test_two_agents_race_for_one_device_and_one_gets_it(rig: Rig) -> None:
    first, second = rig.claims.add(1, GPUS[0]), rig.claims.add(2, GPUS[0])
    other = Preparer(
        Node(DRIVER, POOL, "boot-1"), lambda: INVENTORY, rig.claims, ClaimFiles(DRIVER, rig.folder / "state", rig.cdi)
    )
    one, two = await asyncio.gather(rig.preparer.prepare([first]), other.prepare([second]))
    assert sorted(isinstance(answer, PreparedClaim) for answer in (one[first.uid], two[second.uid])) == [False, True]


@pytest.mark.root
@pytest.mark.parametrize("options", ["ro", "size=4k"], ids=["read-only", "full"])
async def test_a_cdi_file_system_that_takes_nothing_gives_an_error_and_no_reservation(rig: Rig, options: str) -> None:
    need(os.geteuid() == 0 and sys.platform == "linux", "mounting a tmpfs needs root on Linux")
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(rig.cdi)], check=True)
    try:
        if options != "ro":
            (rig.cdi / "others").write_bytes(b"x" * 4096)
        ref = rig.claims.add(1, GPUS[0])
        with pytest.raises(GpuDraError, match="read-only" if options == "ro" else "disk is full"):
            await rig.one(ref)
        assert [path for path in rig.left() if not path.endswith("others")] == []
    finally:
        subprocess.run(["umount", str(rig.cdi)], check=True)
    await rig.one(ref)
