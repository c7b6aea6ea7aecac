"""What a GpuNode says of a node: its matrix as nvidia-smi prints it, and who holds what."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_dra.gpu_node import GpuNode
from gpu_dra.names import ClaimUid, DeviceName, PoolName
from node_agent import inventory, report
from node_agent import profile as profiles
from node_agent.adapters import simulated
from node_agent.checkpoint import PreparedClaim, PreparedDevice
from node_agent.inventory import Inventory
from node_agent.readings import MigReading, NodeReading

FACTS = json.loads((Path(__file__).parents[2] / "data/topologies/facts.json").read_text())


def reading(name: str) -> NodeReading:
    return profiles.readings(simulated.load(name), "n", None)


def described(found: NodeReading, *claims: PreparedClaim, with_nics: bool = True) -> GpuNode:
    nics = inventory.nics(found) if with_nics else Inventory({})
    return report.gpu_node("n", found, inventory.gpus(found), nics, claims)


def claim(device: str, *, admin: bool = False) -> PreparedClaim:
    held = PreparedDevice("r", PoolName("n/gpu"), DeviceName(device), "id", admin)
    return PreparedClaim(ClaimUid("u"), "team", "train", "boot", (held,))


@pytest.mark.parametrize("name", ["dgx-h100", "l40s-4"])
def test_the_matrix_is_the_one_that_nvidia_smi_prints(name: str) -> None:
    (facts,) = [each for each in FACTS if each["name"] == name]
    own = [[*gpus, *nics] for gpus, nics in zip(facts["gpu"], facts["gpu_nic"], strict=True)]
    columns: list[list[str]] = [list(column) for column in zip(*facts["gpu_nic"], strict=True)]
    theirs = [[*gpus, *nics] for gpus, nics in zip(columns, facts["nic_nic"], strict=True)]
    # On this box nvidia-smi says SYS inside a NUMA node, too, where /sys says that it is one.
    far = {"NODE": "SYS"} if name == "dgx-h100" else {}
    links = [[far.get(word, word) for word in row] for row in described(reading(name)).links]
    assert links == own + theirs


def test_the_split_node_shows_its_split() -> None:
    node = described(reading("split-4x4"))
    assert dict(node.meshes) == {"mesh-0": (0, 1, 2, 3), "mesh-1": (4, 5, 6, 7)}
    assert (node.mesh_sizes, node.free, node.models) == ("4+4", 8, "H100-SXM5-80GB")
    assert node.links[0] == ("X", "NV18", "NV18", "NV18", "SYS", "SYS", "SYS", "SYS", "PIX", "NODE", "SYS", "SYS")
    assert all(gpu.device for gpu in node.gpus)
    assert all(nic.device for nic in node.nics)


def test_claims_are_told_by_device_and_admin_access_is_none() -> None:
    found = reading("split-4x4")
    name = inventory.gpu_name(found.gpus[2].uuid)
    nic = inventory.nic_name(found.nics[0])
    node = described(found, claim(name), claim(nic), claim(inventory.gpu_name(found.gpus[3].uuid), admin=True))
    assert [gpu.claims for gpu in node.gpus[:4]] == [(), (), ("team/train",), ()]
    assert node.nics[0].claims == ("team/train",)
    assert (node.held, node.free) == (1, 7)


def test_a_gpu_in_doubt_is_unhealthy_and_one_in_mig_mode_has_no_mesh() -> None:
    found = reading("split-4x4")
    first, second, *others = found.gpus
    migs = (MigReading("MIG-1", 0, "1g.10gb", 1, 0), MigReading("MIG-2", 1, "1g.10gb", 2, 0))
    found = replace(found, gpus=(replace(first, doubt="lost"), replace(second, mig_enabled=True, migs=migs), *others))
    node = described(found, claim("mig-2"))
    assert (node.gpus[0].health, node.unhealthy, node.free, node.held) == ("lost", 1, 6, 1)
    assert (node.gpus[1].mesh, node.gpus[1].device) == (None, None)
    assert [(mig.device, mig.claims) for mig in node.gpus[1].migs] == [("mig-1", ()), ("mig-2", ("team/train",))]


def test_nics_that_are_not_our_business_are_shown_and_not_offered() -> None:
    node = described(reading("split-4x4"), with_nics=False)
    assert [nic.device for nic in node.nics] == [None] * 4


def test_a_node_without_gpus_says_why() -> None:
    node = described(NodeReading(reason="this node has no NVIDIA GPU", problems=("GPU x is left out: odd",)))
    assert (node.reason, node.problems, node.links) == ("this node has no NVIDIA GPU", ("GPU x is left out: odd",), ())
