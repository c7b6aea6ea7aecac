"""ResourceClaims as allocation and Prepare see them, read in any served version."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_dra.api import VERSIONS, JsonObject, to_version
from gpu_dra.names import ClaimUid, DeviceName, PoolName
from gpu_dra.resource_claim import Allocated, FirstAvailable, MatchAttribute, Request, ResourceClaim, decode

CEL = [{"cel": {"expression": "a"}}, {"cel": {"expression": "b"}}]
NUMA = "resource.kubernetes.io/numaNode"


def claim(devices: JsonObject | None = None, *, status: Any = None) -> JsonObject:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"namespace": "ml", "name": "train", "uid": "u-1"},
        "spec": {"devices": devices} if devices is not None else {},
        "status": status,
    }


def exactly(**content: Any) -> JsonObject:
    return claim({"requests": [{"name": "gpus", "exactly": {"deviceClassName": "gpu", **content}}]})


def result(request: str, device: str, **more: Any) -> JsonObject:
    return {"request": request, "driver": "gpu.nvidia.com", "pool": "a/gpu", "device": device, **more}


FULL = claim(
    {
        "requests": [
            {"name": "gpus", "exactly": {"deviceClassName": "gpu", "selectors": CEL, "count": 4}},
            {
                "name": "nic",
                "firstAvailable": [
                    {"name": "fast", "deviceClassName": "nic", "count": 2},
                    {"name": "any", "deviceClassName": "nic", "allocationMode": "All", "selectors": CEL[:1]},
                ],
            },
        ],
        "constraints": [{"matchAttribute": NUMA}, {"requests": ["gpus", "nic"], "matchAttribute": "d/x"}],
    },
    status={"allocation": {"devices": {"results": [result("gpus", "gpu-0"), result("nic/fast", "gpu-1")]}}},
)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_claim_in_every_version(version: str) -> None:
    pool, driver = PoolName("a/gpu"), "gpu.nvidia.com"
    assert decode(to_version(FULL, version)) == ResourceClaim(
        namespace="ml",
        name="train",
        uid=ClaimUid("u-1"),
        requests=(
            Request("gpus", "gpu", ("a", "b"), 4),
            FirstAvailable("nic", (Request("fast", "nic", (), 2), Request("any", "nic", ("a",), None))),
        ),
        constraints=(MatchAttribute(NUMA), MatchAttribute("d/x", ("gpus", "nic"))),
        allocated=(
            Allocated("gpus", driver, pool, DeviceName("gpu-0")),
            Allocated("nic/fast", driver, pool, DeviceName("gpu-1")),
        ),
    )


@pytest.mark.parametrize(
    ("content", "count"),
    [
        ({}, 1),
        ({"allocationMode": "ExactCount"}, 1),
        ({"allocationMode": "ExactCount", "count": 8}, 8),
        ({"count": 0}, 1),
        ({"allocationMode": "All"}, None),
    ],
    ids=["left out", "mode alone", "both", "zero is left out", "all"],
)
def test_how_many(content: JsonObject, count: int | None) -> None:
    assert decode(exactly(**content)).requests == (Request("gpus", "gpu", (), count),)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("given", "expected"), [(True, True), (False, False), (None, False)])
def test_admin_access(version: str, given: bool | None, *, expected: bool) -> None:
    read = decode(to_version(exactly(adminAccess=given), version))
    assert read.requests == (Request("gpus", "gpu", (), 1, expected),)


def test_admin_access_of_what_was_given() -> None:
    results = [result("gpus", "gpu-0", adminAccess=True), result("gpus", "gpu-1", adminAccess=None)]
    allocated = decode(claim(status={"allocation": {"devices": {"results": results}}})).allocated
    assert allocated is not None
    assert [each.admin_access for each in allocated] == [True, False]


@pytest.mark.parametrize("status", [None, {}, {"allocation": None}, {"reservedFor": []}])
def test_not_allocated_is_none(status: JsonObject | None) -> None:
    assert decode(claim(status=status)).allocated is None


@pytest.mark.parametrize("allocation", [{}, {"devices": None}, {"devices": {"results": None}}])
def test_allocated_with_no_device_is_not_none(allocation: JsonObject) -> None:
    assert decode(claim(status={"allocation": allocation})).allocated == ()


@pytest.mark.parametrize(("request_name", "base"), [("gpus", "gpus"), ("gpus/big", "gpus"), ("a/b", "a")])
def test_the_request_as_kubelet_knows_it(request_name: str, base: str) -> None:
    assert Allocated(request_name, "d", PoolName("p"), DeviceName("x")).base_request == base


def test_a_claim_that_was_never_stored_has_no_uid() -> None:
    read = decode({**claim({}), "metadata": {"name": "train"}})
    assert (read.reference, read.uid) == ("/train", "")
    assert decode(claim({})).reference == "ml/train"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("devices", [None, {}, {"requests": None}, {"requests": [], "constraints": None}])
def test_a_claim_may_ask_for_nothing(version: str, devices: JsonObject | None) -> None:
    read = decode(to_version(claim(devices), version))
    assert (read.requests, read.constraints, read.unsupported) == ((), (), ())


@pytest.mark.parametrize("version", VERSIONS)
def test_devices_left_empty_ask_for_nothing(version: str) -> None:
    obj = {**claim(), "apiVersion": f"resource.k8s.io/{version}", "spec": {"devices": None}}
    assert decode(obj).requests == ()


def test_what_this_model_has_no_place_for_is_told_by_where_it_stands() -> None:
    content = {"deviceClassName": "gpu", "tolerations": [{"key": "k"}], "capacity": {"requests": {"memory": "1Gi"}}}
    alternative = {"name": "big", **content}
    devices = {
        "requests": [
            {"name": "gpus", "exactly": content},
            {"name": "either", "firstAvailable": [alternative, {"name": "small", "deviceClassName": "gpu"}]},
            {"name": "tomorrow", "novelty": {}, "also": 1},
            {"name": "empty"},
        ],
        "constraints": [{"distinctAttribute": "d/x", "requests": ["gpus"]}, {"matchAttribute": NUMA}],
    }
    read = decode(claim(devices))
    assert read.unsupported == (
        "request gpus: tolerations",
        "request gpus: capacity",
        "request either/big: tolerations",
        "request either/big: capacity",
        "request tomorrow: also, novelty",
        "request empty: no content",
        "constraint distinctAttribute",
    )
    assert [request.name for request in read.requests] == ["gpus", "either"]
    assert read.constraints == (MatchAttribute(NUMA),)


def test_empty_tolerations_are_none_at_all() -> None:
    assert decode(exactly(tolerations=[], capacity=None)).unsupported == ()
