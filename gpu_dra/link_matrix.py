"""The text of `nvidia-smi topo -m`, as drivers print it and as people paste it, to a matrix of links. Pure.

        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
    GPU0     X      NV12    PXB     0-47            0               N/A
    GPU1    NV12     X      SYS     48-95           1               N/A
    NIC0    PXB     SYS      X

Cells are told apart by blanks and counted, never by their place in the line: tabs become spaces when text is copied, and
short cells move to the left. What stands before the header is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, NoReturn

from gpu_dra import topology
from gpu_dra.decode import shown
from gpu_dra.errors import InputError
from gpu_dra.gpu_node import SELF, GpuEntry, GpuNode, NicEntry
from gpu_dra.pcie import NODE, WORDS, Place

WHERE: Final = "the table of nvidia-smi topo -m"
_ADVICE: Final = "save it with `nvidia-smi topo -m > topo.txt` and give that file"

# The escape character itself is often lost when text is copied: `[4mGPU0`.
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\[[0-9;]*m")
_GPU: Final = re.compile(r"GPU(\d{1,4})")
_DEVICE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]*")
_NVLINK: Final = re.compile(r"NV([1-9]\d{0,2})")
_TAIL: Final = re.compile(r"CPU\s+Affinity|NUMA\s+Affinity|GPU\s+NUMA\s+ID")
_NIC_LEGEND: Final = re.compile(r"(NIC\d+)\s*:\s*(\S+)")
_WORD_LEGEND: Final = re.compile(r"([A-Z][A-Z0-9]*)\s*=.*travers", re.IGNORECASE)
_SOCKET: Final = "SOC"
"""What drivers before 390 print for SYS."""
_KNOWN: Final = frozenset((SELF, *WORDS, _SOCKET))
_UNKNOWN: Final = frozenset(("", "N/A"))
_MOST_PROBLEMS: Final = 20


@dataclass(frozen=True, slots=True)
class LinkMatrix:
    """`words` has a row for each of `gpus` and then of `nics`; the other tuples go with `gpus` (None: unknown)."""

    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    """By their names in the RDMA stack, where the table tells them: mlx5_0, else NIC0."""
    words: tuple[tuple[str, ...], ...]
    numa_nodes: tuple[int | None, ...]
    cpu_affinities: tuple[str | None, ...]

    @property
    def nvlinks(self) -> dict[tuple[str, str], int]:
        """The links of each pair of GPUs that has some."""
        counts: dict[tuple[str, str], int] = {}
        for (row, first), (column, second) in combinations(enumerate(self.gpus), 2):
            match = _NVLINK.fullmatch(self.words[row][column])
            if match:
                counts[first, second] = int(match[1])
        return counts


@dataclass(frozen=True, slots=True)
class _Row:
    line: int
    links: tuple[str, ...]
    tail: tuple[str, ...]


def parse(text: str, where: str = WHERE) -> LinkMatrix:
    """Read one table; InputError lists everything that is wrong with it."""
    return _Table(text, where).read()


def to_gpu_node(matrix: LinkMatrix, name: str) -> GpuNode:
    """The node as far as the table tells it: no addresses, no models, no claims."""
    mesh_of = {
        gpu: f"mesh-{number}"
        for number, members in enumerate(topology.meshes(matrix.gpus, matrix.nvlinks))
        for gpu in members
    }
    gpus = tuple(
        GpuEntry(int(gpu.removeprefix("GPU")), uuid="", pci="", model="", mesh=mesh_of[gpu], place=Place(None, numa))
        for gpu, numa in zip(matrix.gpus, matrix.numa_nodes, strict=True)
    )
    nics = tuple(
        NicEntry(pci="", rdma_device=nic, place=Place(None, _numa_node_of(matrix, len(gpus) + number)))
        for number, nic in enumerate(matrix.nics)
    )
    return GpuNode(name, gpus, nics, matrix.words)


def _numa_node_of(matrix: LinkMatrix, row: int) -> int | None:
    """A NIC's NUMA node: no column says it, but all words nearer than SYS mean the same NUMA node."""
    near = {
        numa
        for word, numa in zip(matrix.words[row], matrix.numa_nodes, strict=False)
        if word in WORDS[: WORDS.index(NODE) + 1] and numa is not None
    }
    return near.pop() if len(near) == 1 else None


class _Table:
    """One reading of a text."""

    def __init__(self, text: str, where: str) -> None:
        self._where = where
        self._lines = [_ANSI.sub("", line).replace("\ufeff", "").strip() for line in text.splitlines()]
        self._problems: list[str] = []
        explained = [_WORD_LEGEND.match(line) for line in self._lines]
        # A driver may know more words than we do: one that its own legend explains as a way is passed on as it is.
        self._words = _KNOWN | {match[1] for match in explained if match}

    def read(self) -> LinkMatrix:
        start = self._find_header()
        devices, tail = self._header(start)
        rows = self._rows(start, devices, len(tail))
        self._check_pairs(devices, rows)
        gpus = [name for name in devices if _GPU.fullmatch(name)]
        numa = [self._numa_node(name, rows.get(name), tail) for name in gpus]
        if self._problems:
            raise InputError(self._where, self._shortened())
        nics = [name for name in devices if name not in gpus]
        place = {name: number for number, name in enumerate(devices)}
        legend = self._nic_legend()
        return LinkMatrix(
            gpus=tuple(gpus),
            nics=tuple(legend.get(name, name) for name in nics),
            words=tuple(tuple(rows[one].links[place[other]] for other in (*gpus, *nics)) for one in (*gpus, *nics)),
            numa_nodes=tuple(numa),
            cpu_affinities=tuple(_cell(rows[name], tail, "CPU Affinity") for name in gpus),
        )

    def _find_header(self) -> int:
        """The number of the header's line in the list."""
        headers = [number for number, line in enumerate(self._lines) if self._is_header(line)]
        if not headers:  # a table of NICs alone is told apart from none
            headers = [number for number, line in enumerate(self._lines) if line.endswith(("Affinity", "NUMA ID"))][:1]
        if not headers:
            raise InputError(
                self._where,
                [
                    f"no line with the columns GPU0, GPU1, ... is there; copy the whole output of the command, or {_ADVICE}"
                ],
            )
        if headers[1:] and headers[1] == headers[0] + 1:
            self._fail_wrapped(headers[1])
        if headers[1:]:
            begins = " and ".join(f"line {number + 1}" for number in headers[:3])
            self._problems.append(f"more than one table is there (they begin in {begins}); give one")
        return headers[0]

    def _is_header(self, line: str) -> bool:
        cells = line.split()
        if not cells or not _GPU.fullmatch(cells[0]) or any(self._is_link(cell) for cell in cells):
            return False
        return bool(_TAIL.search(line)) or all(any(map(str.isdigit, cell)) and cell[0].isalpha() for cell in cells)

    def _header(self, start: int) -> tuple[list[str], list[str]]:
        """The devices, and the columns that come after them."""
        line = self._lines[start]
        first = _TAIL.search(line)
        devices = (line if first is None else line[: first.start()]).split()
        tail = [" ".join(column.split()) for column in _TAIL.findall(line)]
        for name in dict.fromkeys(devices):
            if devices.count(name) > 1:
                self._problem(start, f"has the column {shown(name)} {devices.count(name)} times; give each device once")
            if not _DEVICE.fullmatch(name):
                self._problem(start, f"has {shown(name)} among the columns, which is no name of a device")
        if not any(_GPU.fullmatch(name) for name in devices):
            self._problem(start, "has no column of a GPU (GPU0, GPU1, ...); run nvidia-smi where GPUs are visible")
        return devices, tail

    def _rows(self, start: int, devices: Sequence[str], tail: int) -> dict[str, _Row]:
        rows: dict[str, _Row] = {}
        for number, cells in self._table_lines(start):
            name = cells[0]
            if name in rows:
                self._problem(number, f"is a second row for {name} (line {rows[name].line} is the first); give one")
            elif name in devices:
                rows[name] = self._row(number, cells, len(devices), tail, devices)
            elif self._is_wrapped(number, cells, start):
                self._fail_wrapped(number)
            elif _GPU.fullmatch(name) or any(self._is_link(cell) for cell in cells[1:]):
                self._problem(number, f"is a row for {shown(name)}, which is no column of the header")
        missing = [name for name in devices if name not in rows]
        if missing:
            listed = ", ".join(missing[:8]) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
            self._problems.append(f"the row of {listed} is missing; copy the whole table, or {_ADVICE}")
        return rows

    def _table_lines(self, start: int) -> Iterator[tuple[int, list[str]]]:
        for number, line in enumerate(self._lines[start + 1 :], start + 1):
            if line.endswith("Legend:") or self._is_header(line):
                return
            if line:
                yield number, line.split()

    def _is_wrapped(self, number: int, cells: Sequence[str], start: int) -> bool:
        """The rest of a row begins with a link or an affinity, the rest of a header with a name and has no links."""
        if self._is_link(cells[0]) or cells[0][0].isdigit() or cells[0] == "N/A":
            return True
        return number == start + 1 and not any(self._is_link(cell) for cell in cells)

    def _fail_wrapped(self, number: int) -> NoReturn:
        """Alone: everything else that is wrong follows from it."""
        problem = f"line {number + 1} continues the line above: the table was wrapped when it was copied; {_ADVICE}"
        raise InputError(self._where, [problem])

    def _row(self, number: int, cells: Sequence[str], width: int, tail: int, devices: Sequence[str]) -> _Row:
        name, links, rest = cells[0], cells[1 : width + 1], cells[width + 1 :]
        valid = next((place for place, word in enumerate(links) if _is_affinity(word)), len(links))
        if valid < width:
            self._problem(
                number, f"({name}) has links for {valid} of {width} columns; copy the whole line, or {_ADVICE}"
            )
            return _Row(number + 1, (), ())
        for column, word in zip(devices, links, strict=True):
            if not self._is_link(word):
                known = ", ".join((SELF, "NV#", *WORDS))
                self._problem(
                    number, f"({name}) has {shown(word)} in the column {column}; `nvidia-smi topo -m` prints {known}"
                )
        if rest and self._is_link(rest[0]):
            self._problem(number, f"({name}) has more links than the header has columns ({width})")
        elif len(rest) > tail:
            self._problem(number, f"({name}) has {len(rest)} cells after the links, and the header names {tail}")
        # A cell that is empty leaves no trace. It is the CPUs that some drivers leave out, so what there is fills the
        # columns from the right, unless it begins with a list of CPUs.
        gap = () if not rest or re.search(r"\d[-,]\d", rest[0]) else ("",) * (tail - len(rest))
        return _Row(number + 1, tuple(links), (*gap, *rest))

    def _check_pairs(self, devices: Sequence[str], rows: Mapping[str, _Row]) -> None:
        place = {name: number for number, name in enumerate(devices)}
        whole = [name for name in place if name in rows and rows[name].links]
        for name in whole:
            word = rows[name].links[place[name]]
            if word != SELF and self._is_link(word):
                self._problem(rows[name].line - 1, f"({name}) has {word} in the column {name}, where X has to stand")
        for one, other in combinations(whole, 2):
            there, back = rows[one].links[place[other]], rows[other].links[place[one]]
            if not (self._is_link(there) and self._is_link(back)):
                continue
            lines = f"line {rows[one].line} says that {one} reaches {other} over {there}"
            if there != back:
                self._problems.append(
                    f"{lines}, and line {rows[other].line} that {other} reaches {one} over {back}; "
                    "both have to be the same: take the output as it was printed"
                )
            elif there == SELF:
                self._problems.append(f"{lines}, and X is the link of a device with itself")

    def _numa_node(self, name: str, row: _Row | None, tail: Sequence[str]) -> int | None:
        text = _cell(row, tail, "NUMA Affinity")
        if row is None or text is None:
            return None
        if not re.fullmatch(r"[\d,-]{1,40}", text):
            self._problem(row.line - 1, f"({name}) has the NUMA affinity {shown(text)}; a number or N/A is wanted")
        # Several NUMA nodes (0-1): the machine does not say which is near.
        return int(text) if re.fullmatch(r"\d{1,4}", text) else None

    def _nic_legend(self) -> dict[str, str]:
        found = [_NIC_LEGEND.fullmatch(line) for line in self._lines]
        return {match[1]: match[2] for match in found if match and _DEVICE.fullmatch(match[2])}

    def _is_link(self, word: str) -> bool:
        return word in self._words or _NVLINK.fullmatch(word) is not None

    def _problem(self, number: int, text: str) -> None:
        self._problems.append(f"line {number + 1} {text}")

    def _shortened(self) -> list[str]:
        more = len(self._problems) - _MOST_PROBLEMS
        return self._problems if more <= 0 else [*self._problems[:_MOST_PROBLEMS], f"and {more} more problems"]


def _is_affinity(word: str) -> bool:
    return word[0].isdigit() or word == "N/A"


def _cell(row: _Row | None, tail: Sequence[str], column: str) -> str | None:
    if row is None or column not in tail or len(row.tail) <= tail.index(column):
        return None
    text = row.tail[tail.index(column)]
    return None if text in _UNKNOWN else text
