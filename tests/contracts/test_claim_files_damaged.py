"""ClaimStore: files that somebody damaged, or that a newer version wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from node_agent import checkpoint
from node_agent.adapters.files import Sweep
from node_agent.ports import DeviceHeld
from tests.contracts.places import FILE, ONE, TWO, YES, Folders, Place, spec
from tests.fakes.claims import NODE, example

BAD = {
    "empty": b"",
    "cut off": checkpoint.encode(ONE)[:-20],
    "no text": b"\xff\xfe",
    "a list": b"[]",
    "no uid": b'{"format": 1, "claim": {"namespace": "a", "name": "b"}, "bootId": "x", "devices": []}',
    "no devices": b'{"format": 1, "claim": {"uid": "uid-of-one", "namespace": "a", "name": "b"}, "bootId": "x"}',
    "another claim": checkpoint.encode(TWO),
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_a_state_file_that_cannot_be_read_is_set_aside_whole_and_reported_once(place: Place, content: bytes) -> None:
    place.put(FILE, content)
    sweep = place.store().open()
    assert sweep.claims == ()
    assert [FILE in sentence for sentence in sweep.set_aside] == [True]
    assert (place.claims(), place.set_aside()) == ({}, [content])
    assert place.store().open() == Sweep((), (), ())
    place.store().commit(TWO, spec(), YES)


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_a_state_file_that_goes_bad_while_the_agent_runs_counts_as_none(place: Place, content: bytes) -> None:
    store = place.store()
    store.commit(ONE, spec(), YES)
    place.put(FILE, content)
    assert store.load(ONE.uid) is None
    assert place.set_aside() == [content]
    store.commit(ONE, spec(), YES)
    assert store.load(ONE.uid) == ONE


def test_a_state_file_that_goes_bad_while_the_agent_runs_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folders = Folders(tmp_path)
    folders.put(FILE, b"{")
    assert folders.store().load(ONE.uid) is None
    assert [FILE in str(vars(record)["problem"]) for record in caplog.records] == [True]


def test_a_newer_version_is_read_as_far_as_it_is_known_and_set_aside_where_something_is_missing(place: Place) -> None:
    newer = json.loads(checkpoint.encode(ONE)) | {"format": 99, "more": {"than": ["known"]}}
    newer["claim"]["generation"] = newer["devices"][0]["slot"] = 7
    place.put(FILE, json.dumps(newer).encode())
    assert place.store().open() == Sweep((ONE,), (), ())
    assert place.store().load(ONE.uid) == ONE
    with pytest.raises(DeviceHeld):
        place.store().commit(TWO, spec(), YES)
    newer["allocations"] = newer.pop("devices")
    place.put(FILE, json.dumps(newer).encode())
    assert len(place.store().open().set_aside) == 1


def test_a_claim_that_is_allocated_anew_holds_only_its_new_devices(place: Place) -> None:
    place.store().commit(ONE, spec(), YES)
    place.put(FILE, b"{")
    place.store().release(ONE.uid)
    place.store().commit(example(NODE, "one", "gpu-d"), spec(), YES)
    place.store().commit(TWO, spec(), YES)
