"""The allocator on small clusters, and its search against brute force."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_dra import resource_claim, selectors
from gpu_dra.allocator import Allocation, DeviceId, Refusal, allocate
from gpu_dra.api import JsonObject
from gpu_dra.device import Attribute, Device, Taint
from gpu_dra.device_class import DeviceClass, selector
from gpu_dra.errors import InputError
from gpu_dra.names import DeviceName, PoolName
from gpu_dra.resource_claim import ResourceClaim
from gpu_dra.resource_slice import Pool, ResourceSlice
from gpu_dra.search import Candidate, Exhausted, Want, choose

GPU, NIC = "gpu.nvidia.com", "nic.gpu-dra.io"
NUMA = "resource.kubernetes.io/numaNode"
MESH = f"{GPU}/nvlink_mesh_id"
CLASSES = {
    "gpu": DeviceClass("gpu", (selector(GPU, "gpu"),)),
    "nic": DeviceClass("nic", (selector(NIC, "nic"),)),
}


def gpu(number: int, mesh: int, **more: Attribute) -> Device:
    place: dict[str, Attribute] = {"type": "gpu", "nvlink_mesh_id": f"mesh-{mesh}", NUMA: mesh, "index": number}
    return Device(DeviceName(f"gpu-{number}"), {**place, **more}, {"memory": 80 << 30})


def nic(number: int, numa: int) -> Device:
    return Device(DeviceName(f"nic-{number}"), {"type": "nic", NUMA: numa})


def pool(driver: str, devices: Sequence[Device], node: str = "a") -> ResourceSlice:
    kind = driver.partition(".")[0]
    return ResourceSlice(f"{node}-{kind}", driver, node, Pool(PoolName(f"{node}/{kind}"), 1, 1), tuple(devices))


def claim(requests: list[JsonObject], constraints: list[JsonObject] | None = None, name: str = "c") -> ResourceClaim:
    devices = {"requests": requests, "constraints": constraints or []}
    metadata = {"name": name, "namespace": "ns", "uid": name}
    return resource_claim.decode(
        {"apiVersion": "resource.k8s.io/v1", "metadata": metadata, "spec": {"devices": devices}}
    )


def exactly(name: str, device_class: str = "gpu", **more: object) -> JsonObject:
    return {"name": name, "exactly": {"deviceClassName": device_class, **more}}


def names(found: Allocation | Refusal) -> list[list[str]]:
    assert isinstance(found, Allocation), str(found)
    return [[result.device for result in results] for results in found.results]


def taken(*numbers: int) -> set[DeviceId]:
    return {DeviceId(GPU, PoolName("a/gpu"), DeviceName(f"gpu-{number}")) for number in numbers}


SPLIT = pool(GPU, [gpu(number, number // 4) for number in range(8)])
NICS = pool(NIC, [nic(0, 1), nic(1, 1)])


def give(
    claims: ResourceClaim | list[ResourceClaim],
    slices: Sequence[ResourceSlice] = (SPLIT,),
    used: set[DeviceId] | None = None,
) -> Allocation | Refusal:
    return allocate(claims if isinstance(claims, list) else [claims], slices, CLASSES, used or set(), selectors.matches)


def test_first_fit_in_list_order() -> None:
    assert names(give(claim([exactly("gpus", count=2)]))) == [["gpu-0", "gpu-1"]]
    assert names(give(claim([exactly("gpus", count=2)]), used=taken(0, 2))) == [["gpu-1", "gpu-3"]]


def test_four_in_one_mesh_where_the_first_mesh_is_broken() -> None:
    wanted = claim([exactly("gpus", count=4)], [{"requests": ["gpus"], "matchAttribute": MESH}])
    assert names(give(wanted, used=taken(0))) == [["gpu-4", "gpu-5", "gpu-6", "gpu-7"]]
    refused = give(wanted, used=taken(0, 5))
    assert isinstance(refused, Refusal)
    assert (
        refused.reasons["a"] == f"request gpus asks for 4 with one value of {MESH}; free are 3 in mesh-0, 3 in mesh-1"
    )


def test_gpu_and_nic_on_one_numa_node_passes_over_the_first_gpus() -> None:
    wanted = claim([exactly("gpu"), exactly("nic", "nic")], [{"matchAttribute": NUMA}])
    assert names(give(wanted, [SPLIT, NICS])) == [["gpu-4", "nic-0"]]
    assert isinstance(found := give(wanted, [SPLIT, NICS], taken(4, 5, 6, 7)), Refusal)
    assert "not all of them together with one value of resource.kubernetes.io/numaNode" in found.reasons["a"]


def test_selectors_of_the_request() -> None:
    cel = 'device.attributes["gpu.nvidia.com"].index >= 5'
    assert names(give(claim([exactly("gpu", selectors=[{"cel": {"expression": cel}}])]))) == [["gpu-5"]]


def test_all_wants_every_matching_device_free() -> None:
    wanted = claim([exactly("gpus", allocationMode="All")])
    assert names(give(wanted)) == [[f"gpu-{number}" for number in range(8)]]
    assert isinstance(found := give(wanted, used=taken(3)), Refusal)
    assert found.reasons["a"] == "request gpus asks for all of gpu, and 1 of 8 that match are in use"


def test_first_available_prefers_the_first_alternative_that_fits() -> None:
    alternatives = [{"name": "many", "deviceClassName": "gpu", "count": 9}, {"name": "few", "deviceClassName": "gpu"}]
    found = give(claim([{"name": "gpus", "firstAvailable": alternatives}]))
    assert isinstance(found, Allocation)
    assert [(result.request, result.device) for result in found.results[0]] == [("gpus/few", "gpu-0")]


def test_a_constraint_on_one_alternative_only() -> None:
    alternatives = [
        {"name": "mesh", "deviceClassName": "gpu", "count": 4},
        {"name": "any", "deviceClassName": "gpu", "count": 4},
    ]
    wanted = claim(
        [{"name": "gpus", "firstAvailable": alternatives}], [{"requests": ["gpus/mesh"], "matchAttribute": MESH}]
    )
    found = give(wanted, used=taken(0, 4))
    assert isinstance(found, Allocation)
    assert [result.request for result in found.results[0]] == ["gpus/any"] * 4


def test_claims_of_one_pod_share_the_node_and_no_device() -> None:
    both = [claim([exactly("gpus", count=4)], name="one"), claim([exactly("gpus", count=4)], name="two")]
    assert names(give(both)) == [[f"gpu-{n}" for n in range(4)], [f"gpu-{n}" for n in range(4, 8)]]


def test_the_next_node_is_tried_and_every_reason_told() -> None:
    small = pool(GPU, [gpu(0, 0)], "a")
    large = pool(GPU, [gpu(number, 0) for number in range(2)], "b")
    found = give(claim([exactly("gpus", count=2)]), [small, large])
    assert isinstance(found, Allocation)
    assert found.node == "b"
    assert isinstance(refused := give(claim([exactly("gpus", count=3)]), [small, large]), Refusal)
    assert str(refused) == (
        "a: request gpus asks for 3 of gpu, and of 1 that match 1 are free;"
        " b: request gpus asks for 3 of gpu, and of 2 that match 2 are free"
    )


def test_an_old_generation_and_an_incomplete_pool_give_nothing() -> None:
    old = replace(SPLIT, name="old")
    new = replace(SPLIT, pool=replace(SPLIT.pool, generation=2), devices=SPLIT.devices[4:])
    assert names(give(claim([exactly("gpu")]), [old, new])) == [["gpu-4"]]
    partial = replace(SPLIT, pool=replace(SPLIT.pool, slice_count=2))
    assert isinstance(give(claim([exactly("gpu")]), [partial]), Refusal)


def test_admin_access_looks_at_devices_in_use() -> None:
    wanted = claim([exactly("gpus", allocationMode="All", adminAccess=True)])
    found = give(wanted, used=taken(0, 1))
    assert isinstance(found, Allocation)
    assert len(found.results[0]) == 8
    assert all(result.admin_access for result in found.results[0])


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (claim([exactly("gpu", "gqu")]), "there is no DeviceClass gqu; there is gpu, nic"),
        (claim([exactly("gpu")], [{"distinctAttribute": MESH}]), "constraint distinctAttribute is not known"),
        (
            claim(
                [exactly("gpu", selectors=[{"cel": {"expression": 'device.attributes["gpu.nvidia.com"].nope == 1'}}])]
            ),
            "claim ns/c, request gpu: .* on device gpu-0: no such key: nope",
        ),
    ],
    ids=["class", "unsupported", "selector"],
)
def test_what_cannot_be_judged_is_an_error(wanted: ResourceClaim, words: str) -> None:
    with pytest.raises(InputError, match=words):
        give(wanted)


def test_more_devices_than_a_claim_holds() -> None:
    many = pool(GPU, [gpu(number, 0) for number in range(40)])
    assert isinstance(found := give(claim([exactly("gpus", count=33)]), [many]), Refusal)
    assert "at most 32" in found.reasons["a"]


def test_a_hopeless_search_ends() -> None:
    """Two wants of which each is possible alone: alike devices are not tried one by one."""
    numa = tuple(Candidate(f"g{n}", (n % 2, n // 2)) for n in range(24))
    other = tuple(Candidate(f"n{n}", (n % 2 + 2, n)) for n in range(24))
    assert choose([Want(numa, 6, ("a", "x")), Want(other, 6, ("a", "y"))]) is None


@st.composite
def wants(draw: st.DrawFn) -> list[Want[int, int]]:
    keys = ("k", "l")
    values = draw(st.lists(st.tuples(*[st.sampled_from([0, 1, None])] * 2), min_size=1, max_size=6))
    found: list[Want[int, int]] = []
    for _ in range(draw(st.integers(1, 3))):
        members = sorted(draw(st.sets(st.integers(0, len(values) - 1))))
        used = draw(st.lists(st.sampled_from((0, 1)), max_size=2, unique=True))
        candidates = tuple(Candidate(number, tuple(values[number][at] for at in used)) for number in members)
        found.append(Want(candidates, draw(st.integers(0, 3)), tuple(keys[at] for at in used)))
    return found


def brute_force(problem: list[Want[int, int]]) -> list[list[int]] | None:
    """The first solution as the scheduler's search would meet it: every order of every choice, place by place."""
    places = [[(at, candidate) for at, candidate in enumerate(want.candidates)] for want in problem]
    choices = [permutations(place, want.count) for place, want in zip(places, problem, strict=True)]
    for picked in product(*choices):
        devices = [candidate.id for picks in picked for _, candidate in picks]
        agreed: dict[object, set[int | None]] = {}
        for want, picks in zip(problem, picked, strict=True):
            for _, candidate in picks:
                for key, value in zip(want.keys, candidate.values, strict=True):
                    agreed.setdefault(key, set()).add(value)
        if len(set(devices)) == len(devices) and all(
            len(found) == 1 and None not in found for found in agreed.values()
        ):
            return [[candidate.id for _, candidate in picks] for picks in picked]
    return None


@settings(max_examples=300)
@given(wants())
def test_the_search_finds_what_brute_force_finds(problem: list[Want[int, int]]) -> None:
    assert choose(problem) == brute_force(problem)


def test_the_search_gives_up_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_dra.search._MAX_STEPS", 2)
    with pytest.raises(Exhausted):
        choose([Want(tuple(Candidate(n) for n in range(5)), 5)])
    assert isinstance(found := give(claim([exactly("gpus", count=3)])), Refusal)
    assert "given up" in found.reasons["a"]


@pytest.mark.parametrize(("effect", "given"), [("NoSchedule", "gpu-1"), ("NoExecute", "gpu-1"), ("None", "gpu-0")])
def test_a_tainted_device_is_passed_over(effect: str, given: str) -> None:
    sick = replace(gpu(0, 0), taints=(Taint("gpu-dra.io/doubt", "lost", effect),))
    found = allocate([claim([exactly("r")])], [pool(GPU, [sick, gpu(1, 0)])], CLASSES, (), selectors.matches)
    assert names(found) == [[given]]


def test_a_refusal_tells_of_taints() -> None:
    sick = replace(gpu(0, 0), taints=(Taint("gpu-dra.io/doubt", "lost"),))
    for request in (exactly("r", count=2), exactly("r", allocationMode="All")):
        found = allocate([claim([request])], [pool(GPU, [sick, gpu(1, 0)])], CLASSES, (), selectors.matches)
        assert isinstance(found, Refusal)
        assert "(1 tainted)" in str(found)
