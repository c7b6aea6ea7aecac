"""The order of devices: broken meshes first, whole meshes whole, and no write that serves nothing."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gpu_dra.device import Device
from gpu_dra.names import PCI_BUS_ID, DeviceName
from node_agent.order import arranged


def gpu(number: int, mesh: int | None) -> Device:
    place = {PCI_BUS_ID: f"0000:{number:02x}:00.0"}
    return Device(DeviceName(f"gpu-{number}"), place if mesh is None else {**place, "nvlink_mesh_id": f"mesh-{mesh}"})


SPLIT = [gpu(number, number // 4) for number in range(8)]


def numbers(devices: Sequence[Device], *held: int) -> list[int]:
    return [int(each.name[4:]) for each in arranged(devices, {DeviceName(f"gpu-{number}") for number in held})]


def test_a_free_node_is_in_the_order_of_the_bus() -> None:
    assert numbers(list(reversed(SPLIT))) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_the_mesh_with_the_fewest_free_gpus_is_first() -> None:
    assert numbers(SPLIT, 6) == [4, 5, 6, 7, 0, 1, 2, 3]
    assert numbers(SPLIT, 6, 0, 1) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_a_mesh_that_is_taken_as_a_whole_costs_no_new_order() -> None:
    assert numbers(SPLIT, 0, 1, 2, 3) == numbers(SPLIT)
    assert numbers(SPLIT, 4, 5, 6, 7) == numbers(SPLIT)


def test_gpus_without_nvlink_keep_their_places_whoever_holds_them() -> None:
    single = [gpu(number, number) for number in range(4)]
    assert numbers(single, 0, 2) == [0, 1, 2, 3]


def test_what_has_no_mesh_comes_last_as_given() -> None:
    assert numbers([gpu(9, None), gpu(8, None), *SPLIT], 5) == [4, 5, 6, 7, 0, 1, 2, 3, 9, 8]


@given(st.permutations(SPLIT), st.sets(st.integers(0, 7)))
def test_any_order_in_gives_one_order_out_with_each_mesh_together(devices: list[Device], held: set[int]) -> None:
    out = numbers(devices, *held)
    assert out == numbers(SPLIT, *held)
    assert {tuple(out[:4]), tuple(out[4:])} == {(0, 1, 2, 3), (4, 5, 6, 7)}
