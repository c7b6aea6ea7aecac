"""Profiles are read strictly: whatever is wrong is named, all of it at once, and nothing else is ever raised."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from importlib import resources
from pathlib import PurePosixPath
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_dra.errors import InputError
from node_agent import inventory, profile

GOOD: dict[str, Any] = {
    "driverVersion": "580.105.08",
    "cudaDriverVersion": "13.0",
    "gpuModels": {"h100": {"productName": "NVIDIA H100 80GB HBM3", "memoryMiB": 81559}},
    "gpus": [{"model": "h100", "pci": "0000:18:00.0"}, {"model": "h100", "pci": "0000:2a:00.0"}],
    "nvlinks": [{"gpus": [0, 1], "links": 18}],
    "nicModels": {"cx7": {"vendor": "Mellanox"}},
    "nics": [{"model": "cx7", "pci": "0000:19:00.0", "rdmaDevice": "mlx5_0"}],
}
SHIPPED = {
    entry.name.removesuffix(".yaml"): yaml.safe_load(entry.read_text())
    for entry in (resources.files("node_agent") / "profiles").iterdir()
    if entry.name.endswith(".yaml")
}


def problems(data: object) -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        profile.decode(data, "fleet.yaml")
    assert caught.value.where == "fleet.yaml"
    assert str(caught.value).startswith("fleet.yaml: ")
    return caught.value.problems


def spoilt(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    data = deepcopy(GOOD)
    change(data)
    return data


def put(*path: str | int, value: object) -> dict[str, Any]:
    def change(data: Any) -> None:
        for step in path[:-1]:
            data = data[step]
        data[path[-1]] = value

    return spoilt(change)


@pytest.mark.parametrize(
    ("name", "gpus", "nics", "meshes"),
    [("dgx-h100", 8, 12, [8]), ("l40s-4", 4, 2, [1] * 4), ("split-4x4", 8, 4, [4, 4])],
)
def test_every_shipped_profile_loads(name: str, gpus: int, nics: int, meshes: list[int]) -> None:
    reading = profile.readings(profile.decode(SHIPPED[name], name), "n1", None)
    devices = inventory.gpus(reading).devices
    sizes = {device.attributes["nvlink_mesh_id"]: device.attributes["nvlink_mesh_size"] for device in devices}
    assert (len(devices), len(inventory.nics(reading).devices), list(sizes.values())) == (gpus, nics, meshes)


def test_no_shipped_profile_is_forgotten_here() -> None:
    assert sorted(SHIPPED) == ["dgx-h100", "l40s-4", "split-4x4"]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (None, "the document is empty, and a mapping"),
        ([], "the document is a list, and a mapping"),
        (put("driverVersion", value=580), "driverVersion is the number 580, and a text is wanted"),
        (put("driverVersion", value=None), "driverVersion is missing"),
        (put("cudaDriverVersion", value=""), "cudaDriverVersion is empty"),
        (put("numaNodes", value=True), "numaNodes is true, and a whole number"),
        (put("gpuModels", value=[]), "gpuModels is a list, and a mapping"),
        (put("gpuModels", "h100", "memoryMiB", value="80Gi"), "gpuModels.h100.memoryMiB is the text '80Gi'"),
        (put("gpuModels", "h100", "memory", value=1), "gpuModels.h100.memory is not a known field; known here are"),
        (put("gpus", value={}), "gpus is a mapping, and a list is wanted"),
        (put("gpus", 1, value="h100"), "gpus[1] is the text 'h100', and a mapping"),
        (put("gpus", 1, "model", value="h200"), "gpus[1].model is 'h200', which gpuModels does not define"),
        (put("gpus", 1, "pci", value="2a"), "gpus[1].pci '2a' is not a PCI address; write it as"),
        (put("gpus", 1, "pci", value="18:00.0"), "gpus[1].pci is 0000:18:00.0, where gpus[0] sits already"),
        (put("gpus", 1, "numaNode", value=1), "gpus[1].numaNode is 1, and numaNodes says 1"),
        (put("gpus", 1, "numaNode", value=-2), "gpus[1].numaNode is -2, and the least allowed is -1"),
        (put("gpus", 1, "uuid", value="h100"), "gpus[1].uuid is 'h100', and a GPU's UUID starts with GPU-"),
        (put("gpus", 1, "minor", value=0), "gpus has two GPUs with one minor number"),
        (put("gpus", 1, "nvlinks", value=[]), "gpus[1].nvlinks is not a known field"),
        (put("nvlinks", 0, "gpus", value=[0]), "nvlinks[0].gpus must be a list of at least two places"),
        (put("nvlinks", 0, "gpus", value=[0, True]), "nvlinks[0].gpus must be a list of"),
        (
            put("nvlinks", 0, "gpus", value=[0, 2]),
            "nvlinks[0].gpus names 2, and the places in the list of GPUs are 0 to 1",
        ),
        (put("nvlinks", 0, "gpus", value=[1, 1]), "nvlinks[0].gpus is [1, 1]: a GPU is named twice"),
        (put("nvlinks", 0, "links", value=65), "nvlinks[0].links is 65, and the most allowed is 64"),
        (
            put("nics", 0, "model", value="cx6"),
            "nics[0].model is 'cx6', which nicModels does not define; it defines cx7",
        ),
        (put("nics", 0, "pci", value="0000:18:00.0"), "nics[0].pci is 0000:18:00.0, where gpus[0] sits already"),
        (put(7, value=1), "the document has the name 7, which is no text"),
        (
            spoilt(lambda data: data["nics"].append({**data["nics"][0], "pci": "20:00.0"})),
            "nics[1] has the name 'mlx5_0'",
        ),
    ],
)
def test_a_mistake_is_named_with_its_field_and_reason(data: object, problem: str) -> None:
    assert any(told.startswith(problem) for told in problems(data)), problems(data)


def test_one_mistake_is_told_once() -> None:
    assert len(problems(put("gpus", 1, "pci", value="2a"))) == 1
    assert len(problems(put("gpus", 1, "model", value="h200"))) == 1


def test_all_mistakes_at_once() -> None:
    def change(data: dict[str, Any]) -> None:
        del data["driverVersion"]
        data["colour"] = "red"
        data["gpus"][0] |= {"pci": "x", "numaNode": 5}
        data["gpus"][1] |= {"model": "h200", "uuid": "x"}
        data["nvlinks"][0]["gpus"] = [0, 9]
        data["nics"][0]["numaNode"] = "left"

    told = sorted(problem.split(" ", 1)[0] for problem in problems(spoilt(change)))
    fields = ["colour", "driverVersion", "gpus[0].pci", "gpus[1].model", "gpus[1].uuid", "nics[0].numaNode"]
    assert told == [*fields, "nvlinks[0].gpus"]


@pytest.mark.parametrize(("table", "most"), [("gpus", 254), ("nics", 32)])
def test_more_devices_than_there_are_numbers_for(table: str, most: int) -> None:
    one = {"model": "h100" if table == "gpus" else "cx7"}
    entries = [{**one, "pci": f"{number >> 8:04x}:{number & 255:02x}:00.0"} for number in range(most + 1)]
    other: dict[str, Any] = {"nics": []} if table == "gpus" else {"gpus": [], "nvlinks": []}
    profile.decode(GOOD | other | {table: entries[:most]}, "fleet.yaml")
    (told,) = problems(GOOD | other | {table: entries})
    assert told == f"{table} has {most + 1} entries, and a node holds at most {most}"


def test_two_nodes_of_one_profile_show_different_cards_and_one_node_the_same_ones() -> None:
    read = profile.decode(GOOD, "fleet.yaml")
    one, again, other = ({gpu.uuid for gpu in profile.readings(read, node, None).gpus} for node in ("n1", "n1", "n2"))
    assert one == again
    assert len(one | other) == 4


def test_device_nodes_lie_below_the_root_and_keep_their_place_in_the_container() -> None:
    reading = profile.readings(profile.decode(SHIPPED["split-4x4"], "p"), "n1", PurePosixPath("/dev-root"))
    nodes = [*reading.gpu_common_nodes, *reading.nic_common_nodes]
    nodes += [node for gpu in reading.gpus for node in gpu.nodes]
    nodes += [node for nic in reading.nics for node in nic.nodes]
    assert all(f"/dev-root{node.path.removeprefix('/dev')}" == str(node.host_path) for node in nodes)
    assert len({(node.major, node.minor) for node in nodes}) == len({node.path for node in nodes}) == 2 + 8 + 2 * 4


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (("numaNodes",), "numaNodes"),
        (("gpuModels", "h100", "memoryMiB"), "gpuModels.h100.memoryMiB"),
        (("gpuModels", "h100", "nvlinkVersion"), "gpuModels.h100.nvlinkVersion"),
        (("gpus", 0, "minor"), "gpus[0].minor"),
        (("gpus", 0, "numaNode"), "gpus[0].numaNode"),
        (("nics", 0, "numaNode"), "nics[0].numaNode"),
        (("nvlinks", 0, "links"), "nvlinks[0].links"),
        (("nvlinks", 0, "gpus", 1), "nvlinks[0].gpus"),
        (("nicModels", "cx7", "linkSpeedGbps"), "nicModels.cx7.linkSpeedGbps"),
        (("nics", 0, "pci"), "nics[0].pci"),
        ((1 << 20_000,), "the document"),
    ],
)
def test_a_number_that_python_refuses_to_print_is_told_like_any_other(path: tuple[str | int, ...], field: str) -> None:
    told = problems(put(*path, value=1 << 20_000))
    assert all(problem.startswith(f"{field} ") and len(problem) < 200 for problem in told)


FIELDS = sorted(
    {*GOOD, "numaNodes", "h100", "pci", "model", "numaNode", "minor", "uuid", "links", "memoryMiB", "rdmaDevice"}
)
odd = st.sampled_from(["h100", "18:00.0", "GPU-1", "\ud800"]) | st.binary()
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates() | odd
keys = st.sampled_from(FIELDS) | st.text(max_size=5) | st.integers() | st.booleans() | st.none()
junk = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=6))


@st.composite
def almost_profiles(draw: st.DrawFn) -> object:
    """A shipped profile or GOOD with something else in one to three places."""
    data = {"": deepcopy(draw(st.sampled_from([GOOD, *SHIPPED.values()])))}
    for _ in range(draw(st.integers(1, 3))):
        place: Any = data
        key: Any = ""
        while isinstance(place[key], dict | list) and place[key] and (key == "" or draw(st.integers(0, 3))):
            place = place[key]
            key = draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        place[key] = draw(junk)
    return data[""]


@given(junk | almost_profiles())
@settings(max_examples=200)
def test_whatever_is_given_it_is_a_profile_or_the_error_for_it(data: object) -> None:
    try:
        read = profile.decode(data, "fleet.yaml")
    except InputError as error:
        told = error.problems
    else:
        reading, told = profile.readings(read, "n1", None), ("none",)
        assert len(inventory.gpus(reading).items) + len(inventory.gpus(reading).problems) == len(read.gpus)
        inventory.nics(reading)
    assert told
    assert all("\n" not in problem for problem in told)
