"""Tables of real boxes as drivers print them and as people paste them, tables made up at random, and broken ones."""

from __future__ import annotations

import contextlib
import json
import random
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_dra import link_matrix
from gpu_dra.errors import InputError
from gpu_dra.link_matrix import LinkMatrix

FOLDER = Path(__file__).parents[2] / "data" / "topologies"
FACTS: list[dict[str, Any]] = json.loads((FOLDER / "facts.json").read_text())
"""What each table says, and whence it is; drawn up apart from the texts."""

SMALL = """
        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV12    PXB     0-47    0               N/A
GPU1    NV12     X      SYS     48-95   1               N/A
NIC0    PXB     SYS      X
"""


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(InputError) as raised:
        link_matrix.parse(text)
    return raised.value.problems


@pytest.mark.parametrize("shape", ["raw", "paste"])
@pytest.mark.parametrize("facts", FACTS, ids=[facts["name"] for facts in FACTS])
def test_tables_of_real_boxes(facts: dict[str, Any], shape: str) -> None:
    matrix = link_matrix.parse((FOLDER / f"{facts['name']}.{shape}.txt").read_text())
    gpus, nics = len(facts["gpu"]), len(facts["nic_nic"] or ())
    assert matrix.gpus == tuple(f"GPU{number}" for number in range(gpus))
    assert [list(row[:gpus]) for row in matrix.words[:gpus]] == facts["gpu"]
    if nics:
        assert [list(row[gpus:]) for row in matrix.words[:gpus]] == facts["gpu_nic"]
        assert [list(row[gpus:]) for row in matrix.words[gpus:]] == facts["nic_nic"]
    assert list(matrix.cpu_affinities) == facts["cpu"]
    assert list(matrix.numa_nodes) == [int(numa) for numa in facts["numa"]] if facts["numa"] else [None] * gpus
    # The pasted ones end before the legend of NICs.
    told = shape == "raw" or facts["name"] == "dgx1-v100"
    assert list(matrix.nics) == (facts["nic_names"] if told else [f"NIC{number}" for number in range(nics)])


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("dgx-a100", "8"), ("dgx1-v100", "4+4"), ("two-mesh-4x4-synthetic", "4+4"), ("a100-pcie-pairs", "2+2"), ("l40s-4", "4x1")],
)  # fmt: skip
def test_meshes(name: str, sizes: str) -> None:
    matrix = link_matrix.parse((FOLDER / f"{name}.raw.txt").read_text())
    node = link_matrix.to_gpu_node(matrix, "n1")
    assert (node.name, node.mesh_sizes, node.links) == ("n1", sizes, matrix.words)


def test_a_node_knows_the_numa_node_of_a_nic_that_is_near_a_gpu() -> None:
    node = link_matrix.to_gpu_node(link_matrix.parse((FOLDER / "dgx-a100.raw.txt").read_text()), "n")
    assert [nic.place.numa_node for nic in node.nics] == [3, 3, 1, 1, 7, 7, 5, 5, None, None]
    assert [gpu.place.numa_node for gpu in node.gpus] == [3, 3, 1, 1, 7, 7, 5, 5]
    assert [nic.label for nic in node.nics] == [f"mlx5_{number}" for number in range(10)]


def test_a_numa_node_of_which_nothing_is_known_makes_none_known() -> None:
    node = link_matrix.to_gpu_node(link_matrix.parse("GPU0 mlx5_0\nGPU0 X PIX\nmlx5_0 PIX X"), "n")
    assert node.nics[0].place.numa_node is None


@pytest.mark.parametrize(
    "text",
    [
        SMALL,
        SMALL.replace("\n", "\r\n"),
        SMALL.replace("\n", "\n      "),
        f"\ufeffuser@host:~$ nvidia-smi topo -m{SMALL}user@host:~$ ",
        SMALL.replace("        GPU0", "\t\x1b[4mGPU0").replace("ID", "ID\x1b[0m"),
        SMALL.replace("        GPU0", "        [4mGPU0").replace("ID", "ID[0m"),  # the escape itself was lost
        f"```\n{SMALL}```\n\nLegend:\n\n  X    = Self\n",
        "\n".join([*SMALL.splitlines()[:2], "", *SMALL.splitlines()[2:]]),
        "\n".join([*SMALL.splitlines()[:2], *reversed(SMALL.splitlines()[2:])]),
    ],
)
def test_what_surrounds_a_table_does_not_matter(text: str) -> None:
    assert link_matrix.parse(text) == LinkMatrix(
        ("GPU0", "GPU1"),
        ("NIC0",),
        (("X", "NV12", "PXB"), ("NV12", "X", "SYS"), ("PXB", "SYS", "X")),
        (0, 1),
        ("0-47", "48-95"),
    )


@pytest.mark.parametrize(
    ("columns", "cells", "cpus", "numa"),
    [
        ("", "", None, None),
        ("\tCPU Affinity", "", None, None),
        ("\tCPU Affinity", "\tN/A", None, None),
        ("\tCPU Affinity", "\t5", "5", None),
        ("\tCPU Affinity\tNUMA Affinity", "\t0-3\tN/A", "0-3", None),
        ("\tCPU Affinity\tNUMA Affinity", "\t0-3", "0-3", None),
        ("\tCPU Affinity\tNUMA Affinity", "\t0\t1", "0", 1),
        ("\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID", "\t\t1\t\tN/A", None, 1),
        ("\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID", "\t6,14,22\t0-1\t\tN/A", "6,14,22", None),
        ("\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID", "\t0-71\t0\t\t2", "0-71", 0),
    ],
)
def test_affinities(columns: str, cells: str, cpus: str | None, numa: int | None) -> None:
    matrix = link_matrix.parse(f"\tGPU0{columns}\nGPU0\t X {cells}\n")
    assert (matrix.cpu_affinities, matrix.numa_nodes) == ((cpus,), (numa,))


def test_gpus_of_a_container_keep_their_numbers() -> None:
    matrix = link_matrix.parse("GPU3 GPU6 mlx5_bond_0\nGPU3 X NV4 SYS\nGPU6 NV4 X SYS\nmlx5_bond_0 SYS SYS X")
    assert [gpu.index for gpu in link_matrix.to_gpu_node(matrix, "n").gpus] == [3, 6]
    assert matrix.nvlinks == {("GPU3", "GPU6"): 4}


def test_words_of_other_drivers_are_kept() -> None:
    legend = "\nLegend:\n  SHORT = Connection traversing something new"
    matrix = link_matrix.parse(f"GPU0 GPU1 GPU2\nGPU0 X SOC SHORT\nGPU1 SOC X SOC\nGPU2 SHORT SOC X{legend}")
    assert matrix.words[0] == ("X", "SOC", "SHORT")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "no line with the columns GPU0"),
        ("No devices were found\n", "no line with the columns GPU0"),
        ("  NIC0 CPU Affinity\nNIC0 X\n", "line 1 has no column of a GPU"),
        (SMALL.replace("NV12    PXB", "FAST    PXB"), "line 3 (GPU0) has 'FAST' in the column GPU1"),
        (SMALL.replace("NV12    PXB", "NV6     PXB"), "line 3 says that GPU0 reaches GPU1 over NV6, and line 4 that GPU1"),
        (SMALL.replace("NV12     X ", "NV12    SYS"), "line 4 (GPU1) has SYS in the column GPU1, where X has to stand"),
        (SMALL.replace("NIC0    PXB     SYS      X", ""), "the row of NIC0 is missing"),
        (SMALL.replace("GPU1    NV12     X      SYS", "GPU1    NV12     X"), "line 4 (GPU1) has links for 2 of 3 columns"),
        (SMALL.replace("NIC0    PXB     SYS      X", "NIC0    PXB     SYS      X  SYS"), "line 5 (NIC0) has more links"),
        (SMALL.replace("N/A\nGPU1", "N/A  7\nGPU1"), "line 3 (GPU0) has 4 cells after the links, and the header names 3"),
        (SMALL.replace("48-95   1 ", "48-95   one "), "line 4 (GPU1) has the NUMA affinity 'one'"),
        (SMALL + "GPU1  NV12 X SYS", "line 6 is a second row for GPU1 (line 4 is the first)"),
        (SMALL + "GPU2  NV12 X SYS", "line 6 is a row for 'GPU2', which is no column"),
        (SMALL.replace("GPU1    NIC0", "GPU0    NIC0"), "line 2 has the column 'GPU0' 2 times"),
        (SMALL.replace("NIC0    CPU", "NIC\x070  CPU"), "which is no name of a device"),
        (SMALL + SMALL, "more than one table is there (they begin in line 2 and line 7)"),
        (SMALL.replace("PXB     0-47", "PXB\n     0-47"), "line 4 continues the line above: the table was wrapped"),
        (SMALL.replace("NV12    PXB", "NV12\n    PXB"), "line 4 continues the line above"),
        (SMALL.replace("NIC0    CPU", "\n NIC0    CPU"), "line 3 continues the line above"),
        (SMALL.replace("GPU1    NIC0    CPU", "\n GPU1   NIC0    CPU"), "line 3 continues the line above"),
        ("GPU0 GPU1\nGPU0 X X\nGPU1 X X", "X is the link of a device with itself"),
        ("GPU0 GPU1\nGPU0 X OK\nGPU1 OK X", "has 'OK' in the column GPU1"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_a_sentence(text: str, wanted: str) -> None:
    found = problems(text)
    assert any(wanted in problem for problem in found), found


def test_all_problems_are_told_at_once_but_no_flood() -> None:
    names = [f"GPU{number}" for number in range(10)]
    found = problems("\n".join([" ".join(names), *(" ".join([name, *["OK"] * 10]) for name in names)]))
    assert len(found) == 21
    assert found[-1] == "and 80 more problems"


DEVICES = st.tuples(st.integers(1, 9), st.integers(0, 5), st.randoms(use_true_random=False))
WORDS = ["NV1", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS"]


def made_up(gpus: int, nics: int, rng: random.Random) -> LinkMatrix:
    names = [*(f"GPU{number}" for number in range(gpus)), *(f"mlx5_{number}" for number in range(nics))]
    words = {(one, other): rng.choice(WORDS) for one, other in combinations(names, 2)}
    return LinkMatrix(
        tuple(names[:gpus]),
        tuple(names[gpus:]),
        tuple(tuple("X" if a == b else words.get((a, b)) or words[b, a] for b in names) for a in names),
        tuple(rng.choice([None, 0, 1, 7]) for _ in range(gpus)),
        tuple(rng.choice(["0-3", "5", "0-1,4-5"]) for _ in range(gpus)),
    )


def rendered(matrix: LinkMatrix, *, tabs: bool) -> str:
    """As nvidia-smi prints it; without tabs as a terminal copies it."""
    names = [*matrix.gpus, *matrix.nics]
    text = "\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]) + "\n"
    for place, (name, words) in enumerate(zip(names, matrix.words, strict=True)):
        cells = [name, *(" X " if word == "X" else word for word in words)]
        if place < len(matrix.gpus):
            numa = matrix.numa_nodes[place]
            cells += [matrix.cpu_affinities[place] or "", "N/A" if numa is None else str(numa), "", "N/A"]
        text += "\t".join(cells) + "\n"
    return text if tabs else text.expandtabs(8)


@given(DEVICES, st.booleans())
def test_what_is_rendered_is_read_back(size: tuple[int, int, random.Random], tabs: bool) -> None:
    matrix = made_up(*size)
    assert link_matrix.parse(rendered(matrix, tabs=tabs)) == matrix


@given(DEVICES)
def test_the_order_of_rows_does_not_matter(size: tuple[int, int, random.Random]) -> None:
    matrix = made_up(*size)
    head, *rows = rendered(matrix, tabs=True).splitlines()
    size[2].shuffle(rows)
    assert link_matrix.parse("\n".join([head, *rows])) == matrix


@given(st.text(alphabet=st.sampled_from("GPU01 XNV\t\nNICSYmlx5_\x1b[:=$"), max_size=80))
def test_no_text_is_more_than_an_input_error(text: str) -> None:
    for whole in (text, f"GPU0 GPU1 NIC0 CPU Affinity\n{text}"):
        with contextlib.suppress(InputError):
            link_matrix.parse(whole)
