"""What is kept of a claim comes back as it was; anything else is the documented error, with the file's name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_dra.errors import InputError
from gpu_dra.names import ClaimUid, DeviceName, PoolName
from node_agent import checkpoint
from node_agent.checkpoint import PreparedClaim, PreparedDevice

WHERE = "/state/claims/u1.json"
CLAIM = PreparedClaim(
    ClaimUid("u1"),
    "default",
    "job",
    "boot-1",
    (
        PreparedDevice("gpus", PoolName("n1/gpu"), DeviceName("gpu-b"), "gpu.nvidia.com/claim=u1-gpu-b"),
        PreparedDevice("gpus", PoolName("n1/gpu"), DeviceName("gpu-a"), "gpu.nvidia.com/claim=u1-gpu-a"),
        PreparedDevice(
            "watch", PoolName("n1/gpu"), DeviceName("gpu-c"), "gpu.nvidia.com/claim=u1-gpu-c", admin_access=True
        ),
    ),
)
KEPT: dict[str, Any] = json.loads(checkpoint.encode(CLAIM))


def problems(text: bytes) -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        checkpoint.decode(text, WHERE)
    assert caught.value.where == WHERE
    return caught.value.problems


def kept(**changes: object) -> bytes:
    return json.dumps(KEPT | changes).encode()


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
devices = st.builds(
    PreparedDevice,
    request=texts,
    pool=texts.map(PoolName),
    device=texts.map(DeviceName),
    cdi_id=texts,
    admin_access=st.booleans(),
)
claims = st.builds(
    PreparedClaim,
    uid=texts.map(ClaimUid),
    namespace=texts,
    name=texts,
    boot_id=texts,
    devices=st.lists(devices, max_size=4).map(tuple),
)


@given(claims)
def test_what_is_kept_comes_back(claim: PreparedClaim) -> None:
    assert checkpoint.decode(checkpoint.encode(claim), WHERE) == claim


def test_the_form_of_the_file_which_the_next_version_must_still_read() -> None:
    gpus, watch = {"request": "gpus", "pool": "n1/gpu"}, {"request": "watch", "pool": "n1/gpu"}
    wanted = {
        "format": 1,
        "claim": {"uid": "u1", "namespace": "default", "name": "job"},
        "bootId": "boot-1",
        "devices": [
            {**gpus, "device": "gpu-b", "cdiId": "gpu.nvidia.com/claim=u1-gpu-b"},
            {**gpus, "device": "gpu-a", "cdiId": "gpu.nvidia.com/claim=u1-gpu-a"},
            {**watch, "device": "gpu-c", "cdiId": "gpu.nvidia.com/claim=u1-gpu-c", "adminAccess": True},
        ],
    }
    assert json.loads(checkpoint.encode(CLAIM)) == wanted


def test_what_is_reserved_is_sorted_and_without_admin_access() -> None:
    assert CLAIM.reserved == ("gpu-a", "gpu-b")
    assert CLAIM.reference == "default/job"


def test_a_file_that_was_cut_anywhere_is_an_error() -> None:
    whole = checkpoint.encode(CLAIM)
    for end in range(len(whole) - 1):
        assert problems(whole[:end])


def test_a_newer_version_may_say_more() -> None:
    newer = KEPT | {"format": 2, "since": "2026-01-01", "claim": {**KEPT["claim"], "owner": "job"}}
    newer["devices"] = [{**device, "shareId": "s1"} for device in KEPT["devices"]]
    assert checkpoint.decode(json.dumps(newer).encode(), WHERE) == CLAIM


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "this is no JSON"),
        (b"\x00" * 64, "this is no JSON"),
        (b"\xff\xfe\xff", "this is no JSON"),
        (b"[" * 100_000, "this is no JSON"),
        (b"9" * 5_000, "this is no JSON"),
        (b"[]", "the document is a list, and a mapping"),
        (kept(format=0), "format is 0, and the least allowed is 1"),
        (kept(format="1"), "format is the text '1', and a whole number"),
        (kept(format=None), "format is missing"),
        (kept(claim="u1"), "claim is the text 'u1', and a mapping"),
        (kept(claim={**KEPT["claim"], "uid": ""}), "claim.uid is empty"),
        (kept(bootId=None), "bootId is missing"),
        (kept(bootId="\ud800"), "bootId holds half a character"),
        (kept(devices=None), "devices is missing"),
        (kept(devices=[7]), "devices[0] is the number 7, and a mapping"),
        (kept(devices=[{**KEPT["devices"][0], "device": None}]), "devices[0].device is missing"),
        (
            kept(devices=[{**KEPT["devices"][0], "adminAccess": 1}]),
            "devices[0].adminAccess is the number 1, and true or",
        ),
    ],
)
def test_a_malformed_file_is_an_error_that_names_the_field(text: bytes, problem: str) -> None:
    assert any(told.startswith(problem) for told in problems(text)), problems(text)


def test_all_that_is_wrong_is_told_at_once() -> None:
    told = problems(b'{"format": 0, "claim": {"uid": "u1", "name": 3}, "devices": [{"request": "r", "pool": ""}]}')
    assert sorted(problem.split(" ", 1)[0] for problem in told) == [
        *("bootId", "claim.name", "claim.namespace"),
        *("devices[0].cdiId", "devices[0].device", "devices[0].pool", "format"),
    ]


keys = (
    st.sampled_from(["format", "claim", "uid", "namespace", "name", "bootId", "devices", "request", "cdiId"])
    | st.text()
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
)
spoilt = st.dictionaries(st.sampled_from(sorted(KEPT)), values, min_size=1, max_size=2).map(lambda some: kept(**some))


@given(st.binary() | values.map(lambda value: json.dumps(value).encode()) | spoilt)
def test_whatever_stands_in_the_file_it_is_a_claim_or_the_error_for_it(text: bytes) -> None:
    try:
        claim = checkpoint.decode(text, WHERE)
    except InputError as error:
        told = error.problems
    else:
        told = (f"claim {claim.reference}",)
        assert checkpoint.decode(checkpoint.encode(claim), WHERE) == claim
    assert told
