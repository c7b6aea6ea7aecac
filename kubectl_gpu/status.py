"""GpuNodes -> the table of `kubectl gpu status`: a line for each node, what is wrong below it, and the sum. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpu_dra.gpu_node import HEALTHY, GpuNode
from kubectl_gpu.table import columns, counted, printable

_HEAD = ("NODE", "GPUS", "FREE", "HELD", "UNHEALTHY", "MODEL", "MESHES", "NICS", "DRIVER")
_WIDE = ("CUDA", "NUMA", "FREE BY MESH")
_NUMBERS = (1, 2, 3, 4)


def lines(nodes: Sequence[GpuNode], *, wide: bool = False) -> Iterator[str]:
    """The nodes in the order given."""
    if not nodes:
        yield "No node has a GpuNode: the node agent runs nowhere yet (kubectl get pods -A -l app.kubernetes.io/name=gpu-dra)."
        return
    head = (*_HEAD, *_WIDE) if wide else _HEAD
    total = [counted(len(nodes), "node"), *_sums(nodes), *[""] * (len(head) - 5)]
    total[7] = str(sum(len(node.nics) for node in nodes))
    first, *others, last = columns([head, *(_row(node, wide=wide) for node in nodes), total], _NUMBERS)
    yield first
    for node, line in zip(nodes, others, strict=True):
        yield line
        yield from _wrong(node)
    yield last


def free_by_mesh(node: GpuNode) -> list[int]:
    """The free GPUs of each mesh: what the largest request is that stays on NVLink."""
    free = {
        gpu.index
        for gpu in node.gpus
        if gpu.health == HEALTHY and not gpu.claims and not any(mig.claims for mig in gpu.migs)
    }
    return [len(free.intersection(members)) for members in node.meshes.values()]


def _row(node: GpuNode, *, wide: bool) -> list[str]:
    row = [node.name, *_sums([node]), node.models, node.mesh_sizes, str(len(node.nics)), node.driver_version or ""]
    if wide:
        numa = "" if node.numa_nodes is None else str(node.numa_nodes)
        row += [node.cuda_driver_version or "", numa, "+".join(map(str, free_by_mesh(node)))]
    return [cell or "-" for cell in row]


def _sums(nodes: Sequence[GpuNode]) -> list[str]:
    sums = (
        sum(len(node.gpus) for node in nodes),
        sum(node.free for node in nodes),
        sum(node.held for node in nodes),
        sum(node.unhealthy for node in nodes),
    )
    return [str(value) for value in sums]


def _wrong(node: GpuNode) -> Iterator[str]:
    if node.reason:
        yield f"  nothing is offered: {printable(node.reason)}"
    for gpu in node.gpus:
        if gpu.health != HEALTHY:
            yield printable(f"  GPU {gpu.index} {gpu.pci}: {gpu.health}")
    for problem in node.problems:
        yield f"  {printable(problem)}"
