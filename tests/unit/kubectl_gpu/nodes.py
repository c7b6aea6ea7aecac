"""Nodes to show: one with everything, a pasted table, one of a made-up size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpu_dra import link_matrix
from gpu_dra.gpu_node import GpuEntry, GpuNode, MigEntry
from gpu_dra.pcie import Place

TOPOLOGIES = Path(__file__).parents[2] / "data" / "topologies"


def pasted(name: str) -> GpuNode:
    text = (TOPOLOGIES / f"{name}.raw.txt").read_text()
    return link_matrix.to_gpu_node(link_matrix.parse(text), name)


def split() -> GpuNode:
    """4+4: one mesh is held, a GPU of the other is lost, the last GPU is in MIG mode."""
    node = pasted("two-mesh-4x4-synthetic")
    gpus = [
        replace(
            gpu,
            uuid=f"GPU-{gpu.index}",
            pci=f"0000:{gpu.index}8:00.0",
            model="H100-SXM5-80GB",
            device=f"gpu-{gpu.index}",
            claims=("team-a/train",) if gpu.index < 4 else (),
            place=Place(f"pci0000:{gpu.index}5", gpu.index // 4),
        )
        for gpu in node.gpus
    ]
    gpus[6] = replace(gpus[6], health="lost")
    migs = (MigEntry("mig-0", "MIG-0", "1g.10gb", ("team-b/small",)), MigEntry("mig-1", "MIG-1", "1g.10gb"))
    gpus[7] = replace(gpus[7], mesh=None, device=None, migs=migs)
    nics = [
        replace(
            nic,
            pci=f"0000:{number}9:00.0",
            device=f"nic-{number}",
            model="ConnectX-7",
            link_speed_gbps=400,
            claims=("team-a/train",) if number == 0 else (),
            place=Place(f"pci0000:{number}5", number // 4),
        )
        for number, nic in enumerate(node.nics)
    ]
    return GpuNode(
        "gpu-a",
        tuple(gpus),
        tuple(nics),
        node.links,
        "580.105.08",
        "13.0",
        2,
        problems=("NIC 0000:99:00.0 is left out",),
    )


def large(count: int) -> GpuNode:
    """Ten GPUs a mesh, four a root, the last two meshes mixed."""
    gpus = tuple(
        GpuEntry(
            number,
            f"GPU-{number}",
            f"0000:{number:02x}:00.0",
            "H100",
            device=f"gpu-{number}",
            mesh=f"mesh-{number // 10}" if number < count - 10 else f"mesh-{100 + number % 2}",
            place=Place(f"pci0000:{number // 4:02x}", number // 25),
        )
        for number in range(count)
    )
    return GpuNode("large", gpus)
