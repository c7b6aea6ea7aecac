"""The tables of `nvidia-smi topo -m`: real boxes in both layouts, made-up ones in any, and what is no table."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_dra import link_matrix
from gpu_dra.errors import InputError

FOLDER = Path(__file__).parents[2] / "data/topologies"
FACTS: list[dict[str, Any]] = json.loads((FOLDER / "facts.json").read_text())
MESHES = {
    "a100-pcie-pairs": [2, 2], "dgx-a100": [8], "dgx-h100": [8], "dgx1-v100": [4, 4], "dgx1-v100-new": [4, 4],
    "gb200-tray": [4], "hgx-h800": [8], "l40s-4": [1] * 4, "rtx4090-8-allsys": [1] * 8, "two-mesh-4x4-synthetic": [4, 4],
}  # fmt: skip


def read(text: str) -> link_matrix.LinkMatrix:
    return link_matrix.parse(text)


@pytest.mark.parametrize("layout", ["raw", "paste"])
@pytest.mark.parametrize("facts", FACTS, ids=lambda facts: str(facts["name"]))
def test_real_boxes(facts: dict[str, Any], layout: str) -> None:
    found = read((FOLDER / f"{facts['name']}.{layout}.txt").read_text())
    count = len(facts["gpu"])
    assert [list(row[:count]) for row in found.words[:count]] == facts["gpu"]
    if facts["gpu_nic"]:
        assert [list(row[count:]) for row in found.words[:count]] == facts["gpu_nic"]
    numa = facts["numa"] or [None] * count
    assert list(found.numa_nodes) == [None if node is None else int(node) for node in numa]
    assert list(found.cpu_affinities) == facts["cpu"]
    node = link_matrix.to_gpu_node(found, "n")
    assert [len(members) for members in node.meshes.values()] == MESHES[facts["name"]]


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[list[str]], int]:
    """The rows of a symmetric matrix of GPUs and NICs, and how many GPUs it has."""
    gpus, nics = draw(st.integers(1, 10)), draw(st.integers(0, 4))
    size = gpus + nics
    rows = [["X"] * size for _ in range(size)]
    for one in range(size):
        for two in range(one + 1, size):
            words = ["NV1", "NV18", "PIX", "SYS"] if two < gpus else ["PIX", "PXB", "PHB", "NODE", "SYS"]
            rows[one][two] = rows[two][one] = draw(st.sampled_from(words))
    return rows, gpus


@given(tables(), st.sampled_from(["\t", "    ", " "]), st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_any_table_is_read_in_any_layout(table: tuple[list[list[str]], int], blank: str, ansi: bool, end: str) -> None:
    rows, gpus = table
    names = [f"GPU{number}" for number in range(gpus)] + [f"NIC{number}" for number in range(len(rows) - gpus)]
    head = blank.join(["", *names, "CPU Affinity", "NUMA Affinity"])
    lines = [f"\x1b[4m{head}\x1b[0m" if ansi else head]
    for number, (name, row) in enumerate(zip(names, rows, strict=True)):
        lines.append(blank.join([name, *row, *(["0-3", "1"] if number < gpus else [])]))
    found = read(end.join(lines))
    assert [list(row) for row in found.words] == rows
    assert found.numa_nodes == (1,) * gpus
    assert len(found.gpus) == gpus


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "nvidia-smi topo -m"),
        ("hello\nworld", "nvidia-smi topo -m"),
        ("\tGPU0\tGPU1\nGPU0\t X \tNV4\n", "GPU1"),
        ("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tSYS\t X \n", "NV4"),
        ("\tGPU0\tGPU1\nGPU0\t X \tWAT\nGPU1\tWAT\t X \n", "WAT"),
    ],
)
def test_what_is_no_table_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        read(text)


@given(st.text(alphabet="GPUNIC X0123VSYPB\t\n AF", max_size=120) | st.text(max_size=60))
def test_any_text_is_a_table_or_an_input_error(text: str) -> None:
    with contextlib.suppress(InputError):
        read(text)
