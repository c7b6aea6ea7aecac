"""ResourceSlices: the words on the wire by example, and back to the same values through every version."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_dra.api import VERSIONS, to_version
from gpu_dra.device import Device, Taint, Version
from gpu_dra.names import DeviceName, PoolName
from gpu_dra.resource_slice import Pool, ResourceSlice, decode, encode

GPU = Device(
    DeviceName("gpu-0"),
    {
        "model": "H100-SXM5-80GB",
        "driverVersion": Version("580.95.5"),
        "index": 0,
        "migCapable": True,
        "resource.kubernetes.io/numaNode": 1,
    },
    {"memory": 81559 << 20},
)
SLICE = ResourceSlice("a-gpu", "gpu.nvidia.com", "a", Pool(PoolName("a/gpu"), 3, 1), (GPU, Device(DeviceName("gpu-1"))))
WIRE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "a-gpu"},
    "spec": {
        "driver": "gpu.nvidia.com",
        "nodeName": "a",
        "pool": {"name": "a/gpu", "generation": 3, "resourceSliceCount": 1},
        "devices": [
            {
                "name": "gpu-0",
                "attributes": {
                    "model": {"string": "H100-SXM5-80GB"},
                    "driverVersion": {"version": "580.95.5"},
                    "index": {"int": 0},
                    "migCapable": {"bool": True},
                    "resource.kubernetes.io/numaNode": {"int": 1},
                },
                "capacity": {"memory": {"value": "81559Mi"}},
            },
            {"name": "gpu-1"},
        ],
    },
}


def wire(**changes: Any) -> dict[str, Any]:
    return {**WIRE, "spec": {**spec_of(WIRE), **changes}}


def spec_of(obj: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = obj["spec"]
    return spec


def test_on_the_wire() -> None:
    assert encode(SLICE) == WIRE


def test_the_owner_stands_in_the_metadata() -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "u"}
    assert encode(SLICE, owner=owner)["metadata"] == {"name": "a-gpu", "ownerReferences": [owner]}


@pytest.mark.parametrize("version", VERSIONS)
def test_read_in_every_version(version: str) -> None:
    assert decode(to_version(WIRE, version)) == SLICE


def test_a_truth_is_no_number_on_the_wire() -> None:
    device = Device(DeviceName("d"), {"one": 1, "yes": True, "text": "1", "nothing": ""})
    attributes = encode(ResourceSlice("s", "d", "a", SLICE.pool, (device,)))["spec"]["devices"][0]["attributes"]
    assert attributes == {"one": {"int": 1}, "yes": {"bool": True}, "text": {"string": "1"}, "nothing": {"string": ""}}


def test_what_this_model_has_no_place_for_is_left_out() -> None:
    device = {
        "name": "gpu-0",
        "attributes": {"list": {"strings": ["a"]}, "index": {"int": 2}},
        "capacity": {"memory": {"value": "1Gi", "requestPolicy": {"default": "1Gi"}}},
    }
    read = decode(wire(devices=[device], sharedCounters=[]))
    assert read.devices == (Device(DeviceName("gpu-0"), {"index": 2}, {"memory": 1 << 30}),)


def test_a_taint_keeps_its_age_and_says_no_more_than_it_has() -> None:
    sick = Device(DeviceName("gpu-0"), taints=(Taint("k", "v", "NoExecute", "2026-01-02T03:04:05Z"), Taint("other")))
    item = replace(SLICE, devices=(sick,))
    body = encode(item)
    assert body["spec"]["devices"][0]["taints"] == [
        {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z"},
        {"key": "other", "effect": "NoSchedule"},
    ]
    assert decode(body) == item


@pytest.mark.parametrize("value", ["1Gi", "1073741824", 1073741824, "1048576Ki"])
def test_a_capacity_in_any_spelling_is_one_number(value: object) -> None:
    read = decode(wire(devices=[{"name": "d", "capacity": {"memory": {"value": value}}}]))
    assert read.devices[0].capacity == {"memory": 1 << 30}


@pytest.mark.parametrize("devices", [[], None])
def test_a_slice_may_be_empty(devices: object) -> None:
    assert decode(wire(devices=devices)).devices == ()


def test_a_slice_of_no_node_and_a_pool_without_a_generation() -> None:
    spec = {"driver": "d", "allNodes": True, "pool": {"name": "p", "resourceSliceCount": 2}}
    read = decode({**WIRE, "spec": spec})
    assert read == ResourceSlice("a-gpu", "d", "", Pool(PoolName("p"), 0, 2), ())


IDS = st.text(alphabet="abcABC019_", min_size=1, max_size=8)
NAMES = IDS | IDS.map(lambda name: f"resource.kubernetes.io/{name}")
VERSION = st.from_regex(r"(0|[1-9][0-9]{0,3})(\.(0|[1-9][0-9]{0,3})){2}(-rc\.1)?", fullmatch=True).map(Version)
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
ATTRIBUTES = st.dictionaries(NAMES, st.text(max_size=8) | NUMBERS | st.booleans() | VERSION, max_size=4)
DEVICES = st.builds(
    Device, IDS.map(DeviceName), ATTRIBUTES, st.dictionaries(NAMES, st.integers(0, (1 << 63) - 1), max_size=3)
)
SLICES = st.builds(
    ResourceSlice,
    IDS,
    IDS,
    IDS,
    st.builds(Pool, IDS.map(PoolName), st.integers(0, 1 << 40), st.integers(1, 9)),
    st.lists(DEVICES, max_size=3).map(tuple),
)


def kinds(item: ResourceSlice) -> list[list[type]]:
    """1 == True in Python, and not on the wire."""
    return [[type(value) for value in device.attributes.values()] for device in item.devices]


@given(SLICES, st.sampled_from(VERSIONS))
def test_round_trip_through_any_version(item: ResourceSlice, version: str) -> None:
    read = decode(to_version(encode(item), version))
    assert read == item
    assert kinds(read) == kinds(item)
