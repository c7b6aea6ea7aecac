"""A GpuNode -> what hangs where: NUMA node, PCIe root, GPUs and NICs; and its meshes in one line. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from gpu_dra.gpu_node import GpuEntry, GpuNode, NicEntry
from kubectl_gpu import layout
from kubectl_gpu.table import columns, counted, printable, ranges


def heading(node: GpuNode) -> str:
    """The node in one line."""
    parts = [
        counted(len(node.gpus), "GPU") + (f" {node.models}" if node.models else ""),
        counted(len(node.nics), "NIC"),
    ]
    if node.driver_version:
        parts.append(f"driver {node.driver_version}")
    return printable(f"{node.name}: {', '.join(parts)}")


def lines(node: GpuNode) -> Iterator[str]:
    """The tree; the columns of devices line up over the whole of it."""
    drawn = [
        (numa.title, root.title, [row for gpu in root.gpus for row in _gpu(gpu)] + [_nic(nic) for nic in root.nics])
        for numa in layout.numa_nodes(node)
        for root in numa.roots
    ]
    rows = [row for _, _, devices in drawn for row in devices]
    if not rows:
        return
    used = [place for place in range(len(rows[0])) if any(row[place] for row in rows)]
    aligned = columns([[row[place] for place in used] for row in rows])
    above = ""
    for numa, root, devices in drawn:
        if numa != above:
            yield numa
            above = numa
        yield f"  {printable(root)}"
        yield from islice(aligned, len(devices))


def meshes(node: GpuNode) -> Iterator[str]:
    """`2 meshes: mesh-0 = GPU 0-3, mesh-1 = GPU 4-7`."""
    found = node.meshes
    if not found:
        yield "No meshes: no whole GPU is here."
    elif all(len(members) == 1 for members in found.values()) and len(found) > 1:
        yield f"{len(found)} meshes of one GPU each: no NVLink joins them."
    else:
        listed = ", ".join(f"{printable(name)} = GPU {ranges(members)}" for name, members in found.items())
        yield f"{counted(len(found), 'mesh', 'meshes')}: {listed}"
    across = layout.across_meshes(node)
    if across:
        listed = ", ".join(f"GPU {one} and {other} ({printable(word)})" for one, other, word in across[:8])
        more = f" and {len(across) - 8} more pairs" if len(across) > 8 else ""
        yield f"NVLink also joins GPUs of two meshes: {listed}{more}"


def _gpu(gpu: GpuEntry) -> list[tuple[str, ...]]:
    """The GPU, and a row for each of its MIG devices."""
    row = (f"    GPU {gpu.index}", gpu.pci, gpu.mesh or "", gpu.model, layout.state(gpu))
    return [row, *((f"      {mig.profile}", "", "", mig.device, layout.state(mig)) for mig in gpu.migs)]


def _nic(nic: NicEntry) -> tuple[str, ...]:
    speed = "" if nic.link_speed_gbps is None else f"{nic.link_speed_gbps} Gbit/s"
    about = " ".join(part for part in (nic.model or "", speed) if part)
    return (f"    {nic.label}", nic.pci if nic.pci != nic.label else "", "", about, layout.state(nic))
