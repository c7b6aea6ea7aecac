"""A GpuNode -> a drawing of its topology. Pure.

From top to bottom: a bar for each mesh with a drop to each of its GPUs, on a region of the mesh's colour; the NUMA nodes
as boxes, in them the PCIe roots, in those a row of GPUs and below it the NICs. All GPUs of a shelf stand on one line, so
that a bar reaches them whatever boxes they are in; a node that is too wide continues on the next shelf.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

from gpu_dra.gpu_node import HEALTHY, GpuEntry, GpuNode, NicEntry
from kubectl_gpu import layout, tree
from kubectl_gpu.layout import NumaNode, Root
from kubectl_gpu.table import ranges

_GPU_W, _GPU_H, _NIC_H, _GAP = 92, 64, 36, 8
_DROP = 78
"""Where a drop meets a tile: on the right, past the titles of the boxes that it crosses."""
_LOW = 34
"""The height of a GPU of which only the number is known (a pasted table)."""
_PAD, _TITLE, _MARGIN = 10, 18, 20
_LANE = 30
"""The height of a mesh's bar and its label."""
_SHELF_W: Final = 1640
_PER_ROOT: Final = 8
"""GPUs side by side in one box; a root with more goes on in another box."""

_COLOURS: Final = ("#0b7a4b", "#1f5fbf", "#b4560e", "#7a3fb0", "#0f7c8a", "#a8326e", "#6b6b00", "#8a4b2d")
_LONE: Final = "#5f6b7a"
"""A GPU without company: no NVLink, or MIG mode."""
_INK, _SOFT, _ALARM, _FREE, _HELD = "#1c2430", "#5f6b7a", "#c01c28", "#0b7a4b", "#b4560e"


@dataclass(frozen=True, slots=True)
class _Column:
    """A root's box, or a part of it."""

    numa: NumaNode
    root: Root
    gpus: tuple[GpuEntry, ...]
    nics: tuple[NicEntry, ...]

    @property
    def across(self) -> int:
        return max(len(self.gpus), min(len(self.nics), 2), 1)

    @property
    def width(self) -> int:
        # A lone tile still has to hold the title of its root.
        return max(self.across * (_GPU_W + _GAP) - _GAP, 124) + 2 * _PAD

    @property
    def nic_rows(self) -> int:
        return -(-len(self.nics) // self.across)


_Bar = tuple[str, str, list[int], int]
"""A mesh, its label, the left edges of its GPUs on a shelf, and its lane."""


def drawing(node: GpuNode) -> str:
    """The whole SVG document."""
    shelves = _shelves(node)
    colours = _mesh_colours(node)
    body: list[str] = []
    top, width = 64, 420
    for shelf in shelves:
        lines, bottom, right = _shelf(shelf, top, node, colours)
        body += lines
        top, width = bottom + _MARGIN, max(width, right + _MARGIN)
    for line in tree.meshes(node):
        for part in _folded(line, (width - 2 * _MARGIN) // 8):
            body.append(_text(_MARGIN, top + 8, part, 14))
            top += 20
    title = tree.heading(node)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top + 12}" viewBox="0 0 {width} {top + 12}">',
            f"<title>{_clean(title)}</title>",
            f'<rect width="{width}" height="{top + 12}" fill="#ffffff"/>',
            '<g font-family="Helvetica, Arial, DejaVu Sans, sans-serif">',
            _text(_MARGIN, 36, title, 18, weight="bold"),
            *body,
            "</g>",
            "</svg>\n",
        )
    )


def _shelves(node: GpuNode) -> list[list[_Column]]:
    shelves: list[list[_Column]] = [[]]
    used = 0
    for numa in layout.numa_nodes(node):
        for column in (column for root in numa.roots for column in _columns(numa, root)):
            taken = column.width + _PAD + (0 if shelves[-1] and shelves[-1][-1].numa is numa else 2 * _PAD)
            if shelves[-1] and used + taken > _SHELF_W:
                shelves.append([])
                used = 0
            shelves[-1].append(column)
            used += taken
    return [shelf for shelf in shelves if shelf]


def _columns(numa: NumaNode, root: Root) -> Iterator[_Column]:
    """The NICs of a box go with its first part, but no more of them than four rows."""
    gpus = [root.gpus[start : start + _PER_ROOT] for start in range(0, len(root.gpus), _PER_ROOT)] or [()]
    rest = root.nics
    for part in gpus:
        room = 4 * max(len(part), 2)
        yield _Column(numa, root, part, rest[:room])
        rest = rest[room:]
    while rest:
        yield _Column(numa, root, (), rest[:8])
        rest = rest[8:]


def _shelf(shelf: Sequence[_Column], top: int, node: GpuNode, colours: Mapping[str, str]) -> tuple[list[str], int, int]:
    """The lines, the lower and the right edge."""
    left: list[int] = []
    x = _MARGIN + _PAD
    for place, column in enumerate(shelf):
        if place:
            x += _GAP if shelf[place - 1].numa is column.numa else _GAP + 2 * _PAD + 4
        left.append(x)
        x += column.width
    right = x + _PAD
    lefts = {
        id(gpu): left[place] + _PAD + number * (_GPU_W + _GAP)
        for place, column in enumerate(shelf)
        for number, gpu in enumerate(column.gpus)
    }
    bars = _bars(shelf, node, lefts)
    lanes = 1 + max((lane for *_, lane in bars), default=-1)
    numa_top = top + lanes * _LANE + (6 if lanes else 0)
    root_top = numa_top + _TITLE + 8
    tiles = root_top + _TITLE + 8
    tall = _GPU_H if any(gpu.uuid for gpu in node.gpus) else _LOW
    heights = [(tall + _GAP if column.gpus else 0) + column.nic_rows * (_NIC_H + _GAP) for column in shelf]
    root_bottom = tiles + max(heights) - _GAP + _PAD
    numa_bottom = root_bottom + _PAD

    lines = list(_regions(bars, top, tiles + tall + 5, colours))
    lines += _numa_boxes(shelf, left, numa_top, numa_bottom)
    for name, _, xs, lane in bars:
        bar = top + lane * _LANE + 20
        lines += [
            f'<rect x="{x + _DROP}" y="{bar}" width="4" height="{tiles - bar}" fill="{colours[name]}"/>' for x in xs
        ]
        width = xs[-1] - xs[0] + _DROP
        lines.append(f'<rect x="{xs[0] + 4}" y="{bar}" width="{width}" height="6" rx="3" fill="{colours[name]}"/>')
    for name, label, xs, lane in bars:
        # White behind the label, for drops of other meshes may pass there.
        x, y = xs[0] + 4, top + lane * _LANE + 14
        lines.append(_text(x, y, label, 12, "#ffffff", weight="bold", halo=True))
        lines.append(_text(x, y, label, 12, colours[name], weight="bold"))
    for place, column in enumerate(shelf):
        lines += _root(column, left[place], (root_top, root_bottom), (tiles, tall), colours)
    return lines, numa_bottom, right


def _bars(shelf: Sequence[_Column], node: GpuNode, lefts: Mapping[int, int]) -> list[_Bar]:
    """The meshes of more than one GPU on this shelf; bars and their labels never overlap."""
    meshes = {name for name, members in node.meshes.items() if len(members) > 1}
    places: dict[str, list[int]] = {}
    for column in shelf:
        for gpu in column.gpus:
            if gpu.mesh in meshes:
                places.setdefault(gpu.mesh, []).append(lefts[id(gpu)])
    ends: list[int] = []
    bars: list[_Bar] = []
    words = {name: word for name, _, word in layout.joined_meshes(node)}
    for name, xs in places.items():
        label = f"{name}: GPU {ranges(node.meshes[name])}" + (f", {words[name]}" if words[name] else "")
        lane = next((lane for lane, end in enumerate(ends) if end < xs[0]), len(ends))
        if lane == len(ends):
            ends.append(0)
        ends[lane] = max(xs[-1] + _GPU_W, xs[0] + 8 * len(label))
        bars.append((name, label, sorted(xs), lane))
    return bars


def _regions(bars: Sequence[_Bar], top: int, bottom: int, colours: Mapping[str, str]) -> Iterator[str]:
    """A tint behind a mesh whose GPUs stand together; where meshes are mixed the bars and the tiles have to tell."""
    for name, _, xs, _ in bars:
        left, right = xs[0] - 4, xs[-1] + _GPU_W + 4
        if not any(other != name and any(left < x < right for x in places) for other, _, places, _ in bars):
            yield (
                f'<rect x="{left}" y="{top - 2}" width="{right - left}" height="{bottom - top + 2}" rx="10" '
                f'fill="{colours[name]}" fill-opacity="0.13"/>'
            )


def _numa_boxes(shelf: Sequence[_Column], left: Sequence[int], top: int, bottom: int) -> Iterator[str]:
    start = 0
    for place in range(1, len(shelf) + 1):
        if place == len(shelf) or shelf[place].numa is not shelf[start].numa:
            x = left[start] - _PAD
            width = left[place - 1] + shelf[place - 1].width + _PAD - x
            yield (
                f'<rect x="{x}" y="{top}" width="{width}" height="{bottom - top}" rx="8" fill="none" '
                f'stroke="{_INK}" stroke-width="1.5"/>'
            )
            yield _text(x + _PAD, top + 17, _brief(shelf[start].numa.title), 13, weight="bold")
            start = place


def _root(
    column: _Column, x: int, edges: tuple[int, int], tiles: tuple[int, int], colours: Mapping[str, str]
) -> Iterator[str]:
    (top, bottom), (y, tall) = edges, tiles
    dashed = "" if column.root.shared else ' stroke-dasharray="4 4"'
    yield (
        f'<rect x="{x}" y="{top}" width="{column.width}" height="{bottom - top}" rx="6" fill="none" '
        f'stroke="{_SOFT}"{dashed}/>'
    )
    yield _text(x + _PAD, top + 15, _brief(column.root.title), 11, _SOFT)
    for number, gpu in enumerate(column.gpus):
        yield from _gpu(gpu, x + _PAD + number * (_GPU_W + _GAP), y, tall, colours.get(gpu.mesh or "", _LONE))
    y += tall + _GAP if column.gpus else 0
    for number, nic in enumerate(column.nics):
        row, place = divmod(number, column.across)
        yield from _nic(nic, x + _PAD + place * (_GPU_W + _GAP), y + row * (_NIC_H + _GAP))


def _gpu(gpu: GpuEntry, x: int, y: int, tall: int, colour: str) -> Iterator[str]:
    held = bool(gpu.claims or any(mig.claims for mig in gpu.migs))
    state = layout.state(gpu)
    yield f"<g><title>{_clean(' '.join(part for part in (f'GPU {gpu.index}', gpu.pci, gpu.model, state) if part))}</title>"
    edge = _ALARM if gpu.health != HEALTHY else colour
    yield (
        f'<rect x="{x}" y="{y}" width="{_GPU_W}" height="{tall}" rx="6" fill="#ffffff" '
        f'stroke="{edge}" stroke-width="2.5"/>'
    )
    yield _text(x + 8, y + 22, f"GPU {gpu.index}", 15, colour, weight="bold")
    yield _text(x + 8, y + 39, _short(gpu.pci), 11, _SOFT)
    if gpu.health != HEALTHY:
        yield _text(x + 8, y + 55, f"! {gpu.health}", 11, _ALARM, weight="bold", most=13)
    elif gpu.uuid:
        word = "held" if held else "not offered" if state == "not offered" else "free"
        yield _text(x + 22, y + 55, word, 11, _HELD if held else _INK)
        # Filled or hollow: colour alone would not tell everybody.
        fill, stroke = (_HELD, _HELD) if held else ("none", _FREE)
        yield f'<circle cx="{x + 13}" cy="{y + 51}" r="4.5" fill="{fill}" stroke="{stroke}" stroke-width="1.5"/>'
    yield "</g>"


def _nic(nic: NicEntry, x: int, y: int) -> Iterator[str]:
    state = layout.state(nic)
    about = " ".join(part for part in (nic.label, nic.pci, nic.model or "", state) if part)
    yield f"<g><title>{_clean(about)}</title>"
    stroke = _HELD if nic.claims else _SOFT
    yield f'<rect x="{x}" y="{y}" width="{_GPU_W}" height="{_NIC_H}" rx="4" fill="#eef1f5" stroke="{stroke}"/>'
    yield _text(x + 8, y + (16 if nic.pci else 23), nic.label, 12, most=13)
    yield _text(x + 8, y + 30, _short(nic.pci) + (" held" if nic.claims else ""), 10, _SOFT)
    yield "</g>"


def _mesh_colours(node: GpuNode) -> dict[str, str]:
    meshes = [name for name, members in node.meshes.items() if len(members) > 1]
    return {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(meshes)}


def _short(pci: str) -> str:
    """Without domain 0, which says nothing."""
    return pci.removeprefix("0000:")


def _folded(line: str, width: int) -> list[str]:
    lines = [""]
    for word in line.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines


def _text(
    x: int, y: int, text: str, size: int, fill: str = _INK, *, weight: str = "", most: int = 400, halo: bool = False
) -> str:
    if not text:
        return ""
    shown = text if len(text) <= most else f"{text[: most - 1]}…"
    style = (f' font-weight="{weight}"' if weight else "") + (' stroke="#ffffff" stroke-width="4"' if halo else "")
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{fill}"{style}>{_clean(shown)}</text>'


def _clean(text: str) -> str:
    """XML has no control characters and no halves of characters, not even escaped."""
    kept = "".join(char if char.isprintable() else "?" for char in text)
    return escape(kept)


def _brief(title: str) -> str:
    """So short that it ends before the first drop."""
    return title.replace("PCIe root", "root").replace("NUMA node", "NUMA").replace("unknown", "?")
