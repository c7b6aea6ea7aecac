"""The converter between the versions of resource.k8s.io: by example, and there and back again."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_dra.api import VERSIONS, JsonObject, best_version, is_resource, to_version

GPU = {"attributes": {"model": {"string": "H100"}}, "capacity": {"memory": {"value": "80Gi"}}}
EXACT = {
    "deviceClassName": "gpu",
    "count": 4,
    "allocationMode": "ExactCount",
    "selectors": [{"cel": {"expression": "x"}}],
}
EITHER = {"name": "either", "firstAvailable": [{"name": "big", "deviceClassName": "gpu"}]}


def resource(version: str, kind: str, spec: Any) -> JsonObject:
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": {"name": "n"}, "spec": spec}


def slice_of(version: str, *devices: JsonObject) -> JsonObject:
    return resource(version, "ResourceSlice", {"driver": "d", "nodeName": "a", "devices": list(devices)})


def claim_of(version: str, *requests: JsonObject) -> JsonObject:
    spec = {"devices": {"requests": list(requests), "constraints": [{"matchAttribute": "d/x"}]}}
    return resource(version, "ResourceClaim", spec)


def template_of(version: str, *requests: JsonObject) -> JsonObject:
    claim = claim_of(version, *requests)
    return resource(version, "ResourceClaimTemplate", {"metadata": {"labels": {"a": "b"}}, "spec": claim["spec"]})


PAIRS = {
    "slice": (
        slice_of("v1", {"name": "gpu-0", **GPU}, {"name": "gpu-1"}),
        slice_of("v1beta1", {"name": "gpu-0", "basic": GPU}, {"name": "gpu-1", "basic": {}}),
    ),
    "claim": (
        claim_of("v1", {"name": "gpus", "exactly": EXACT}, EITHER),
        claim_of("v1beta1", {"name": "gpus", **EXACT}, EITHER),
    ),
    "template": (
        template_of("v1", {"name": "gpus", "exactly": EXACT}, EITHER),
        template_of("v1beta1", {"name": "gpus", **EXACT}, EITHER),
    ),
    "class": (
        resource("v1", "DeviceClass", {"selectors": [{"cel": {"expression": "x"}}]}),
        resource("v1beta1", "DeviceClass", {"selectors": [{"cel": {"expression": "x"}}]}),
    ),
    "slice without devices": (
        resource("v1", "ResourceSlice", {"driver": "d", "devices": None}),
        resource("v1beta1", "ResourceSlice", {"driver": "d", "devices": None}),
    ),
    "empty claim": (
        resource("v1", "ResourceClaim", {"devices": None}),
        resource("v1beta1", "ResourceClaim", {"devices": None}),
    ),
    "template without a spec": (
        resource("v1", "ResourceClaimTemplate", None),
        resource("v1beta1", "ResourceClaimTemplate", None),
    ),
}


@pytest.mark.parametrize(("new", "old"), PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("newer", ["v1", "v1beta2"])
def test_v1beta1_and_the_others(new: JsonObject, old: JsonObject, newer: str) -> None:
    new = {**new, "apiVersion": f"resource.k8s.io/{newer}"}
    before = copy.deepcopy((new, old))
    assert to_version(new, "v1beta1") == old
    assert to_version(old, newer) == new
    assert (new, old) == before


@pytest.mark.parametrize(("new", "old"), PAIRS.values(), ids=PAIRS)
def test_v1_and_v1beta2_have_one_shape(new: JsonObject, old: JsonObject) -> None:
    assert to_version(new, "v1beta2") == {**new, "apiVersion": "resource.k8s.io/v1beta2"}
    assert to_version(old, "v1beta1") == old


def test_a_request_that_says_nothing_stays_so() -> None:
    request = {"name": "gpus"}
    assert to_version(claim_of("v1beta1", request), "v1") == claim_of("v1", request)
    assert to_version(claim_of("v1", request), "v1beta1") == claim_of("v1beta1", request)


def test_a_request_in_the_new_shape_under_the_old_name_is_left_for_the_server_to_judge() -> None:
    request = {"name": "gpus", "exactly": EXACT}
    assert to_version(claim_of("v1beta1", request), "v1") == claim_of("v1", request)


def test_fields_of_tomorrow_are_kept() -> None:
    new = claim_of("v1", {"name": "gpus", "exactly": {**EXACT, "novelty": {"a": [1]}}})
    assert to_version(new, "v1beta1")["spec"]["devices"]["requests"][0]["novelty"] == {"a": [1]}
    old = slice_of("v1beta1", {"name": "gpu-0", "basic": {**GPU, "novelty": 1}})
    assert to_version(old, "v1")["spec"]["devices"] == [{"name": "gpu-0", **GPU, "novelty": 1}]


@pytest.mark.parametrize("api_version", ["v1", "apps/v1", "resource.k8s.io.evil.example/v1", "gpu-dra.io/v1alpha1", ""])
def test_other_groups_are_left_alone(api_version: str) -> None:
    obj = {**slice_of("v1", {"name": "gpu-0", **GPU}), "apiVersion": api_version}
    assert not is_resource(obj)
    assert to_version(obj, "v1beta1") == obj


def test_an_object_without_a_version_is_left_alone() -> None:
    assert not is_resource({"kind": "ResourceSlice"})
    assert to_version({"kind": "ResourceSlice"}, "v1") == {"kind": "ResourceSlice"}


def test_a_version_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(
        ValueError, match=r"v1alpha3 is not a version of resource\.k8s\.io; known are v1, v1beta2, v1beta1"
    ):
        to_version(slice_of("v1"), "v1alpha3")


@pytest.mark.parametrize(
    ("served", "best"),
    [
        (["v1beta1"], "v1beta1"),
        (["v1beta1", "v1beta2"], "v1beta2"),
        (["v1beta2", "v1", "v1beta1", "v2"], "v1"),
        (["v1alpha3", "v2"], None),
        ([], None),
    ],
)
def test_the_best_version_that_is_served(served: list[str], best: str | None) -> None:
    assert best_version(served) == best


NAMES = st.sampled_from(["gpu-0", "gpus", "a"])
VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.lists(st.integers(), max_size=2)
FIELDS = st.dictionaries(st.sampled_from(["attributes", "capacity", "taints", "count", "novelty"]), VALUES)


@st.composite
def devices(draw: st.DrawFn) -> JsonObject:
    return {**draw(FIELDS), "name": draw(NAMES)}


@st.composite
def requests(draw: st.DrawFn) -> JsonObject:
    fields = {**draw(FIELDS), "deviceClassName": "c"}
    content = {"exactly": fields} if draw(st.booleans()) else {"firstAvailable": [{**fields, "name": "big"}]}
    return {"name": draw(NAMES), **content}


@st.composite
def objects(draw: st.DrawFn) -> JsonObject:
    kind = draw(st.sampled_from([slice_of, claim_of, template_of, None]))
    if kind is None:
        return resource("v1", "DeviceClass", draw(FIELDS))
    return kind("v1", *draw(st.lists(devices() if kind is slice_of else requests(), max_size=3)))


OBJECTS = objects()


@given(OBJECTS, st.lists(st.sampled_from(VERSIONS), max_size=6))
def test_any_way_through_the_versions_leads_back(obj: JsonObject, way: list[str]) -> None:
    before = copy.deepcopy(obj)
    there = obj
    for version in way:
        there = to_version(there, version)
        assert there["apiVersion"] == f"resource.k8s.io/{version}"
    assert to_version(there, "v1") == before
    assert obj == before


@given(OBJECTS)
def test_the_old_shape_has_nothing_of_the_new(obj: JsonObject) -> None:
    old = to_version(obj, "v1beta1")
    devices = old["spec"].get("devices", {}) if old["kind"] == "ResourceSlice" else []
    assert all(set(device) == {"name", "basic"} for device in devices)
    spec = old["spec"]["spec"] if old["kind"] == "ResourceClaimTemplate" else old["spec"]
    requests = spec["devices"]["requests"] if "Claim" in old["kind"] else []
    assert all("exactly" not in request for request in requests)
