"""Meshes against the link matrices of real boxes, and against brute force."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_dra import topology
from gpu_dra.pci import PciAddress
from node_agent import inventory
from node_agent.readings import GpuReading, NodeReading, pair

# Bonded NVLinks of each pair as `nvidia-smi topo -m` prints them (NV18 is 18), a dot where the path is PCIe.
DGX_1 = """
    . 1 1 2 2 . . .
    1 . 2 1 . 2 . .
    1 2 . 2 . . 1 .
    2 1 2 . . . . 1
    2 . . . . 1 1 2
    . 2 . . 1 . 2 1
    . . 1 . 1 2 . 2
    . . . 1 2 1 2 .
"""
SPLIT_4_4 = """
    .  18 18 18 .  .  .  .
    18 .  18 18 .  .  .  .
    18 18 .  18 .  .  .  .
    18 18 18 .  .  .  .  .
    .  .  .  .  .  18 18 18
    .  .  .  .  18 .  18 18
    .  .  .  .  18 18 .  18
    .  .  .  .  18 18 18 .
"""
A100_PAIRS = """
    .  12 .  .
    12 .  .  .
    .  .  .  12
    .  .  12 .
"""
L40S = """
    . . . .
    . . . .
    . . . .
    . . . .
"""

Links = dict[tuple[str, str], int]


def names(count: int) -> list[str]:
    return [f"{number:02d}" for number in range(count)]


def through_a_switch(count: int, links: int) -> Links:
    return dict.fromkeys(combinations(names(count), 2), links)


def read(matrix: str) -> tuple[list[str], Links]:
    rows = [line.split() for line in matrix.strip().splitlines()]
    gpus = names(len(rows))
    links = {
        (gpus[a], gpus[b]): int(cell)
        for a, row in enumerate(rows)
        for b, cell in enumerate(row)
        if cell != "." and a < b
    }
    return gpus, links


def mesh_numbers(gpus: list[str], links: Links) -> list[list[int]]:
    return [[int(gpu) for gpu in group] for group in topology.meshes(gpus, links)]


@pytest.mark.parametrize(
    ("matrix", "wanted"),
    [
        pytest.param(DGX_1, [[0, 1, 2, 3], [4, 5, 6, 7]], id="dgx-1-hybrid-cube"),
        pytest.param(SPLIT_4_4, [[0, 1, 2, 3], [4, 5, 6, 7]], id="split-4x4"),
        pytest.param(A100_PAIRS, [[0, 1], [2, 3]], id="a100-pcie-bridges"),
        pytest.param(L40S, [[0], [1], [2], [3]], id="l40s-without-nvlink"),
    ],
)
def test_real_boxes(matrix: str, wanted: list[list[int]]) -> None:
    assert mesh_numbers(*read(matrix)) == wanted


@pytest.mark.parametrize(("count", "links"), [(4, 18), (8, 8), (8, 12), (8, 18), (16, 6), (72, 18)])
def test_behind_a_switch_all_are_one_mesh(count: int, links: int) -> None:
    assert mesh_numbers(names(count), through_a_switch(count, links)) == [list(range(count))]


@pytest.mark.parametrize("count", [8, 16, 18], ids=["h100", "exact-limit", "greedy"])
def test_a_broken_pair_is_parted_and_the_lower_gpu_keeps_the_company(count: int) -> None:
    links = through_a_switch(count, 18)
    links["01", "04"] = 0
    rest = [number for number in range(count) if number != 4]
    assert mesh_numbers(names(count), links) == [rest, [4]]


def test_among_the_fewest_groups_those_with_the_most_links_inside() -> None:
    assert mesh_numbers(names(3), {("00", "01"): 1, ("01", "02"): 2}) == [[0], [1, 2]]
    assert mesh_numbers(names(3), {("00", "01"): 2, ("01", "02"): 2}) == [[0, 1], [2]]


def test_meshes_come_by_their_lowest_gpu_also_where_components_interleave() -> None:
    assert mesh_numbers(names(4), {("00", "01"): 2, ("01", "03"): 1}) == [[0, 1], [2], [3]]


def test_links_of_a_gpu_with_itself_or_with_a_stranger_are_none() -> None:
    assert mesh_numbers(names(2), {("00", "00"): 4, ("00", "gone"): 4, ("gone", "01"): 4}) == [[0], [1]]


def test_no_gpus_no_meshes() -> None:
    assert mesh_numbers([], {("00", "01"): 1}) == []


@st.composite
def boxes(draw: st.DrawFn, least: int = 0, most: int = 8) -> tuple[list[str], Links]:
    gpus = names(draw(st.integers(least, most)))
    return gpus, {both: draw(st.integers(0, 3)) for both in combinations(gpus, 2)}


@st.composite
def large_boxes(draw: st.DrawFn) -> tuple[list[str], Links]:
    """One connected component above the limit of the exact search."""
    gpus = names(draw(st.integers(17, 19)))
    links = {both: draw(st.integers(0, 2)) for both in combinations(gpus, 2)}
    return gpus, links | dict.fromkeys(pairwise(gpus), 1)


def all_to_all(group: tuple[str, ...], links: Links) -> bool:
    return all(links.get(pair(a, b), 0) > 0 for a, b in combinations(group, 2))


@given(boxes() | large_boxes())
@settings(max_examples=60)
def test_every_gpu_is_in_one_mesh_and_every_mesh_is_all_to_all(box: tuple[list[str], Links]) -> None:
    gpus, links = box
    groups = topology.meshes(gpus, links)
    assert sorted(gpu for group in groups for gpu in group) == gpus
    assert all(all_to_all(group, links) for group in groups)
    assert [group[0] for group in groups] == sorted(group[0] for group in groups)
    assert all(list(group) == sorted(group) for group in groups)


def partitions(items: list[str]) -> Iterator[list[tuple[str, ...]]]:
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for groups in partitions(rest):
        yield [(first,), *groups]
        for place, group in enumerate(groups):
            yield [*groups[:place], (first, *group), *groups[place + 1 :]]


@given(boxes(least=1, most=6))
@settings(max_examples=60)
def test_no_other_partition_is_better(box: tuple[list[str], Links]) -> None:
    gpus, links = box

    def cost(groups: list[tuple[str, ...]]) -> tuple[int, int, int]:
        inside = sum(links[both] for group in groups for both in combinations(sorted(group), 2))
        with_lowest = next(len(group) for group in groups if gpus[0] in group)
        return len(groups), -inside, -with_lowest

    possible = [groups for groups in partitions(gpus) if all(all_to_all(group, links) for group in groups)]
    assert cost(topology.meshes(gpus, links)) == min(map(cost, possible))


@given(boxes())
@settings(max_examples=40)
def test_neither_the_order_nor_the_direction_of_links_matters(box: tuple[list[str], Links]) -> None:
    gpus, links = box
    reversed_links = {(b, a): count for (a, b), count in reversed(links.items())}
    assert topology.meshes(gpus, reversed_links) == topology.meshes(gpus, links)


@given(st.data(), boxes(least=1))
@settings(max_examples=40)
def test_mesh_ids_go_by_the_lowest_pci_address_whatever_the_order_of_enumeration(
    data: st.DataObject, box: tuple[list[str], Links]
) -> None:
    uuids, links = box
    buses = data.draw(st.lists(st.integers(0, 255), min_size=len(uuids), max_size=len(uuids), unique=True))
    gpus = [
        GpuReading(uuid, number, number, "NVIDIA L40S", PciAddress(0, bus, 0), ())
        for number, (uuid, bus) in enumerate(zip(uuids, buses, strict=True))
    ]
    reading = NodeReading(gpus=tuple(gpus), links={both: count for both, count in links.items() if count})
    devices = inventory.gpus(reading).devices

    bus_of = {gpu.uuid: gpu.pci.bus for gpu in gpus}
    meshes: dict[object, list[int]] = {}
    for device in devices:
        meshes.setdefault(device.attributes["nvlink_mesh_id"], []).append(bus_of[str(device.attributes["uuid"])])
    by_lowest = sorted(meshes, key=lambda mesh: min(meshes[mesh]))
    assert by_lowest == [f"mesh-{number}" for number in range(len(meshes))]
    for device in devices:
        assert device.attributes["nvlink_mesh_size"] == len(meshes[device.attributes["nvlink_mesh_id"]])

    shuffled = replace(reading, gpus=tuple(data.draw(st.permutations(gpus))))
    assert inventory.gpus(shuffled).devices == devices
