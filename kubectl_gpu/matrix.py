"""A GpuNode -> the matrix of its links, as `nvidia-smi topo -m` prints it, in colours if wanted. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpu_dra.gpu_node import SELF, GpuNode
from gpu_dra.pcie import NODE, PHB, PIX, PXB, SYS
from kubectl_gpu.table import printable

_COLOURS: Final = {PIX: 36, PXB: 36, PHB: 33, NODE: 33, SYS: 31}
"""SGR numbers: cyan is one root, yellow one NUMA node, red the way between NUMA nodes; NVLink is green."""
_NVLINK: Final = 32
_WORDS: Final = (
    ("NV#", "# NVLinks"),
    (PIX, "below one PCIe switch"),
    (PXB, "several PCIe switches, one root"),
    (PHB, "through the PCIe host bridge"),
    (NODE, "several host bridges of one NUMA node"),
    (SYS, "between NUMA nodes"),
)


def lines(node: GpuNode, *, colour: bool = False) -> Iterator[str]:
    """Header, a line for each device, and the words that occur."""
    names = [*(f"GPU{gpu.index}" for gpu in node.gpus), *(nic.label for nic in node.nics)]
    names = [printable(name) for name in names]
    numa = [gpu.place.numa_node for gpu in node.gpus] + [nic.place.numa_node for nic in node.nics]
    if not node.links:
        yield "The agent of this node tells no links."
        return
    first = max(map(len, names))
    widths = [max(len(name), 4) for name in names]
    yield "  ".join([" " * first, *(name.ljust(width) for name, width in zip(names, widths, strict=True)), "NUMA"])
    for name, words, number in zip(names, node.links, numa, strict=True):
        cells = [_cell(word, width, colour=colour) for word, width in zip(words, widths, strict=True)]
        yield "  ".join([name.ljust(first), *cells, "-" if number is None else str(number)])
    present = {"NV#" if word.startswith("NV") else word for row in node.links for word in row}
    explained = [f"{_cell(word, 0, colour=colour)} {meaning}" for word, meaning in _WORDS if word in present]
    if explained:
        yield ""
        yield "; ".join(explained)


def _cell(word: str, width: int, *, colour: bool) -> str:
    shown = printable(f" {word}" if word == SELF else word)
    code = _NVLINK if word.startswith("NV") else _COLOURS.get(word)
    pad = " " * (width - len(shown))
    return f"{shown}{pad}" if code is None or not colour else f"\x1b[{code}m{shown}\x1b[0m{pad}"
