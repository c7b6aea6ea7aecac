"""GpuNode as an object and back."""

from __future__ import annotations

import json

from gpu_dra import gpu_node
from gpu_dra.gpu_node import GpuEntry, GpuNode, MigEntry, NicEntry
from gpu_dra.pcie import Place

NODE = GpuNode(
    "n1",
    gpus=(
        GpuEntry(
            0, "GPU-a", "0000:18:00.0", "H100-SXM5-80GB", device="gpu-a", product_name="NVIDIA H100 80GB HBM3",
            memory_bytes=85520809984, mesh="mesh-0", place=Place("pci0000:15", 0, ("0000:15:01.0",)), claims=("a/b",),
        ),
        GpuEntry(1, "GPU-b", "0000:2a:00.0", "H100-SXM5-80GB", device="gpu-b", mesh="mesh-1", health="lost"),
        GpuEntry(
            2, "GPU-c", "0000:3a:00.0", "A100",
            migs=(MigEntry("mig-1", "MIG-1", "1g.5gb"), MigEntry("mig-2", "MIG-2", "1g.5gb", ("c/d",))),
        ),
        GpuEntry(3, "GPU-d", "0000:4a:00.0", "H100-SXM5-80GB", device="gpu-d", mesh="mesh-1"),
    ),
    nics=(
        NicEntry("0000:19:00.0", "nic-0000-19-00-0", "ens1", "mlx5_0", "Mellanox", "ConnectX-7", 400, Place("pci0000:15", 0)),
    ),
    links=(("X", "NV18"), ("NV18", "X")),
    driver_version="580.105.08", cuda_driver_version="13.0", numa_nodes=2,
    problems=("GPU 0000:5a:00.0 is left out: silent",),
)  # fmt: skip


def test_what_is_encoded_is_read_back() -> None:
    obj = gpu_node.encode(NODE, "uid-of-n1")
    assert gpu_node.decode(json.loads(json.dumps(obj))) == NODE
    assert obj["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-of-n1"}
    ]


def test_the_summary_counts() -> None:
    assert gpu_node.status(NODE)["summary"] == {
        "gpus": 4, "free": 1, "held": 2, "unhealthy": 1, "model": "3x H100-SXM5-80GB, 1x A100", "meshes": "1+2", "nics": 1,
    }  # fmt: skip
    assert gpu_node.status(NODE)["meshes"] == [{"id": "mesh-0", "gpus": [0]}, {"id": "mesh-1", "gpus": [1, 3]}]
    assert gpu_node.status(NODE)["gpus"][0]["memory"] == "81559Mi"


def test_a_node_without_anything() -> None:
    empty = GpuNode("n2", reason="the NVIDIA kernel driver is not loaded")
    assert gpu_node.decode(gpu_node.encode(empty, None)) == empty
    assert gpu_node.decode({"metadata": {"name": "n2"}}) == GpuNode("n2")


def test_mesh_sizes_are_short() -> None:
    def sizes(*members: int) -> str:
        gpus = [
            GpuEntry(0, f"GPU-{mesh}-{number}", "", "", mesh=f"mesh-{mesh}")
            for mesh, size in enumerate(members)
            for number in range(size)
        ]
        return GpuNode("n", tuple(gpus)).mesh_sizes

    assert [sizes(8), sizes(4, 4), sizes(1, 1, 1, 1), sizes(4, 2, 1, 1, 1), sizes()] == [
        "8",
        "4+4",
        "4x1",
        "4+2+3x1",
        "",
    ]


def test_meshes_come_in_order_of_their_number() -> None:
    gpus = tuple(GpuEntry(number, f"GPU-{number}", "", "", mesh=f"mesh-{number}") for number in range(12))
    assert list(GpuNode("n", gpus).meshes) == [f"mesh-{number}" for number in range(12)]
