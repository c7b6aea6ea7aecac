"""Objects, ownership and the plan."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import device_classes
from controller.class_list import WantedClass
from controller.device_classes import MANAGED_BY, MARK, Owner, Plan, Release, encode, essence, name_of
from gpu_dra.api import JsonObject

RELEASE = Release("gpu", "main")
OWNER = Owner("gpu:main-controller", "uid-1")
GPU = WantedClass("gpu.nvidia.com", "gpu", "gpu.nvidia.com", "nvidia.com/gpu")
NIC = WantedClass("nic.gpu-dra.io", "nic", "nic.gpu-dra.io")


def stored(wanted: WantedClass, **changes: Any) -> JsonObject:
    """An object of ours as the API server returns it."""
    obj = encode(wanted, RELEASE, OWNER)
    obj["metadata"] |= {"uid": f"uid-of-{wanted.name}", "resourceVersion": "7", **changes}
    return obj


def plan(wanted: list[WantedClass], found: list[JsonObject], accepted: dict[str, JsonObject] | None = None) -> Plan:
    return device_classes.plan([encode(item, RELEASE, OWNER) for item in wanted], found, RELEASE, accepted)


def test_the_object() -> None:
    assert encode(GPU, RELEASE, OWNER) == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {
            "name": "gpu.nvidia.com",
            "labels": {
                "app.kubernetes.io/managed-by": "gpu-dra-controller",
                "app.kubernetes.io/instance": "main",
            },
            "annotations": {"gpu-dra.io/kept-for": "gpu/main/gpu.nvidia.com"},
            "ownerReferences": [
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "ClusterRole",
                    "name": "gpu:main-controller",
                    "uid": "uid-1",
                }
            ],
        },
        "spec": {
            "selectors": [
                {
                    "cel": {
                        "expression": 'device.driver == "gpu.nvidia.com" &&'
                        ' device.attributes["gpu.nvidia.com"].?type.orValue("") == "gpu"'
                    }
                }
            ],
            "extendedResourceName": "nvidia.com/gpu",
        },
    }


def test_creates_what_is_missing_and_touches_nothing_that_is_right() -> None:
    assert plan([GPU, NIC], [stored(NIC)]) == Plan(create=(encode(GPU, RELEASE, OWNER),))


@pytest.mark.parametrize(
    "spec",
    [
        {"selectors": []},
        {"config": [{"opaque": {"driver": "x", "parameters": {}}}]},
        {"extendedResourceName": "other.example/gpu"},
    ],
)
def test_repairs_the_spec(spec: JsonObject) -> None:
    changed = stored(GPU)
    changed["spec"] = {**changed["spec"], **spec}
    assert plan([GPU], [changed]) == Plan(replace=(stored(GPU),))


def test_repairs_marks_and_keeps_what_others_added() -> None:
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"}
    stale = {**OWNER.reference(), "uid": "uid-of-an-earlier-install"}
    changed = stored(
        GPU,
        labels={"team": "a"},
        annotations={MARK: RELEASE.mark(GPU.name), "note": "b"},
        ownerReferences=[stale, theirs],
    )
    (repaired,) = plan([GPU], [changed]).replace
    assert repaired["metadata"]["labels"] == {"team": "a", **encode(GPU, RELEASE, OWNER)["metadata"]["labels"]}
    assert repaired["metadata"]["annotations"] == {MARK: "gpu/main/gpu.nvidia.com", "note": "b"}
    assert repaired["metadata"]["ownerReferences"] == [theirs, OWNER.reference()]
    assert repaired["metadata"]["resourceVersion"] == "7", "a change in between must make the write fail"


def test_without_an_owner_references_stay_as_they_are() -> None:
    wanted = [encode(GPU, RELEASE, None)]
    assert device_classes.plan(wanted, [stored(GPU)], RELEASE) == Plan()


def test_removes_ours_that_nobody_wants() -> None:
    assert plan([GPU], [stored(GPU), stored(NIC)]) == Plan(delete=(stored(NIC),))


@pytest.mark.parametrize(
    ("annotations", "maker", "advice"),
    [
        ({}, "by somebody else", "delete that class"),
        ({MARK: "team/other/gpu.nvidia.com"}, "by the release other in namespace team", "install gpu-dra once"),
        ({MARK: "gpu/main/another-name"}, "by somebody else", "delete that class"),
        ({MARK: "nonsense"}, "by somebody else", "delete that class"),
    ],
)
def test_leaves_foreign_ones_alone_and_says_whose_they_are(
    annotations: dict[str, str], maker: str, advice: str
) -> None:
    # The label alone makes no class ours: anybody may write it.
    found = stored(GPU, annotations=annotations, labels={MANAGED_BY: "gpu-dra-controller"})
    result = plan([GPU], [found])
    assert (result.create, result.replace, result.delete) == ((), (), ())
    assert result.foreign[0].uid == "uid-of-gpu.nvidia.com"
    sentence = result.foreign[0].sentence
    assert sentence.startswith(f"DeviceClass gpu.nvidia.com was made {maker} and is left alone; {advice}")


def test_a_copy_of_ours_under_another_name_is_not_ours() -> None:
    copied = stored(NIC, annotations=stored(GPU)["metadata"]["annotations"])
    assert plan([GPU], [stored(GPU), copied]) == Plan()


def test_waits_for_one_that_is_being_deleted() -> None:
    going = stored(GPU, deletionTimestamp="2026-01-01T00:00:00Z", labels={})
    assert plan([GPU], [going]) == Plan()
    assert plan([], [going]) == Plan()


def test_does_not_write_again_what_the_server_made_of_it() -> None:
    answered = stored(GPU)
    del answered["spec"]["extendedResourceName"]
    assert plan([GPU], [answered]).replace == (stored(GPU),)
    assert plan([GPU], [answered], {GPU.name: essence(answered)}) == Plan()
    changed = copy.deepcopy(answered)
    changed["spec"]["selectors"] = []
    assert plan([GPU], [changed], {GPU.name: essence(answered)}).replace == (stored(GPU),)
    assert device_classes.lost_fields(encode(GPU, RELEASE, OWNER), answered) == ("spec.extendedResourceName",)


# Names from few letters, so that wanted and stored ones meet.
names = st.sampled_from(["a", "b", "c", "d", "e"])
wanted_lists = st.lists(
    st.builds(WantedClass, names, st.sampled_from(["gpu", "mig", "nic"]), st.just("d.example")), max_size=5
)
stored_kinds = st.dictionaries(
    names, st.sampled_from(["ours", "ours, changed", "ours, relabelled", "foreign", "rival"])
)


def made(name: str, kind: str) -> JsonObject:
    obj = stored(WantedClass(name, "gpu", "d.example"))
    if kind == "ours, changed":
        obj["spec"] = {}
    if kind == "ours, relabelled":
        obj["metadata"]["labels"] = {}
    if kind == "foreign":
        obj["metadata"]["annotations"] = {}
    if kind == "rival":
        obj["metadata"]["annotations"] = {MARK: f"x/y/{name}"}
    return obj


@given(wanted_lists, stored_kinds, st.randoms(use_true_random=False))
def test_a_plan_carried_out_leaves_nothing_to_do_and_does_not_depend_on_order(
    wanted: list[WantedClass], kinds: dict[str, str], random: Any
) -> None:
    wanted = list({item.name: item for item in wanted}.values())
    found = [made(name, kind) for name, kind in kinds.items()]
    result = plan(wanted, found)

    shuffled, reordered = list(found), list(wanted)
    random.shuffle(shuffled)
    random.shuffle(reordered)
    assert plan(reordered, shuffled) == result

    after = {name_of(obj): obj for obj in found}
    for obj in (*result.create, *result.replace):
        after[name_of(obj)] = obj
    for obj in result.delete:
        del after[name_of(obj)]
    again = plan(wanted, list(after.values()))
    assert (again.create, again.replace, again.delete) == ((), (), ())
    assert again.foreign == result.foreign

    foreign = {name for name, kind in kinds.items() if kind in ("foreign", "rival")}
    assert {name: after[name] for name in foreign} == {name_of(obj): obj for obj in found if name_of(obj) in foreign}
    ours = {name for name, obj in after.items() if name not in foreign and obj}
    assert ours == {item.name for item in wanted} - foreign
