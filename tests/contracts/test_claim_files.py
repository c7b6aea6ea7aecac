"""ClaimStore: the same cases on the files of a node and on the fake that stands in for them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from gpu_dra.errors import ClaimError, HostError
from gpu_dra.names import ClaimUid
from node_agent.adapters.files import Sweep
from node_agent.ports import DeviceHeld
from tests.contracts.places import FILE, ONE, OURS, TWO, YES, Place, file_of, spec
from tests.fakes.claims import NODE, example

FOREIGN = ("vendor.json", f"{NODE.driver}.json", f"nic.gpu-dra.io-claim_{ONE.uid}.json", f"x{OURS}{ONE.uid}.json")


def test_a_committed_claim_is_kept_for_every_process_and_its_cdi_file_is_the_specification(place: Place) -> None:
    place.store().commit(ONE, spec(), YES)
    assert place.store().load(ONE.uid) == ONE
    assert place.store().has_cdi(ONE.uid)
    assert json.loads(place.cdi()[file_of(ONE.uid)]) == spec()
    assert place.store().open() == Sweep((ONE,), (), ())


def test_commit_may_be_repeated_and_a_repeat_that_fails_takes_nothing_away(place: Place) -> None:
    store = place.store()
    store.commit(ONE, spec(), YES)
    before = (place.claims(), place.cdi())
    store.commit(ONE, spec(), YES)
    assert (place.claims(), place.cdi()) == before
    with place.full(), pytest.raises(HostError):
        store.commit(ONE, spec("second"), YES)
    assert (place.claims(), place.cdi()) == before
    with pytest.raises(DeviceHeld):
        store.commit(TWO, spec(), YES)


def test_a_commit_that_fails_leaves_no_file_and_no_reservation(place: Place) -> None:
    with place.full(), pytest.raises(HostError, match="cannot write"):
        place.store().commit(ONE, spec(), YES)
    assert (place.claims(), place.cdi()) == ({}, {})
    place.store().commit(TWO, spec(), YES)


def test_a_commit_that_is_no_longer_wanted_leaves_nothing(place: Place) -> None:
    with pytest.raises(ClaimError, match="unprepared while it was being prepared"):
        place.store().commit(ONE, spec(), threading.Event())
    assert (place.claims(), place.cdi()) == ({}, {})


def test_a_device_that_one_claim_holds_is_refused_to_another_until_it_is_released(place: Place) -> None:
    place.store().commit(ONE, spec(), YES)
    with pytest.raises(DeviceHeld) as held:
        place.store().commit(TWO, spec(), YES)
    assert (held.value.device, held.value.holder) == ("gpu-b", ONE)
    assert list(place.claims()) == [FILE]
    assert list(place.cdi()) == [file_of(ONE.uid)]
    place.store().release(ONE.uid)
    place.store().commit(TWO, spec(), YES)


def test_admin_access_neither_takes_a_device_nor_minds_its_holder(place: Place) -> None:
    admin = example(NODE, "admin", "gpu-a", admin=True)
    place.store().commit(admin, spec(), YES)
    place.store().commit(ONE, spec(), YES)
    place.store().commit(admin, spec(), YES)
    assert place.store().open().claims == (admin, ONE)


def test_release_may_be_repeated_and_says_whether_there_was_a_claim(place: Place) -> None:
    place.store().commit(ONE, spec(), YES)
    assert [place.store().release(uid) for uid in (ONE.uid, ONE.uid, TWO.uid)] == [True, False, False]
    assert (place.claims(), place.cdi()) == ({}, {})
    assert place.store().load(ONE.uid) is None
    assert not place.store().has_cdi(ONE.uid)


def test_release_needs_nothing_but_the_uid(place: Place) -> None:
    place.store().commit(ONE, spec(), YES)
    place.put(FILE, b"{")
    assert place.store().release(ONE.uid)
    assert (place.claims(), place.cdi()) == ({}, {})


@pytest.mark.parametrize("uid", ["", ".", "../claims/x", "a/b", "a..b", ".tmp-a", "x" * 129])
def test_a_uid_that_no_api_server_gives_names_no_file(place: Place, uid: str) -> None:
    claim = replace(ONE, uid=ClaimUid(uid))
    calls: list[Callable[[], object]] = [
        lambda: place.store().load(claim.uid),
        lambda: place.store().release(claim.uid),
        lambda: place.store().commit(claim, spec(), YES),
        lambda: place.store().restore(claim, spec()),
    ]
    for call in calls:
        with pytest.raises(ClaimError, match="cannot be a claim's uid"):
            call()
    assert (place.claims(), place.cdi()) == ({}, {})


def test_a_claim_that_is_restored_has_the_new_boot_id_and_the_new_specification(place: Place) -> None:
    place.store().commit(ONE, spec(), YES)
    booted = replace(ONE, boot_id="boot-2")
    for _ in range(2):
        place.store().restore(booted, spec("second"))
        assert place.store().load(ONE.uid) == booted
        assert json.loads(place.cdi()[file_of(ONE.uid)]) == spec("second")
    with pytest.raises(DeviceHeld):
        place.store().commit(TWO, spec(), YES)


def test_a_claim_that_cannot_be_restored_stays_reserved_and_as_old_as_its_cdi_file(place: Place) -> None:
    place.store().commit(ONE, spec(), YES)
    with place.full(), pytest.raises(HostError):
        place.store().restore(replace(ONE, boot_id="boot-2"), spec("second"))
    # A new boot id beside the old numbers would be taken for the truth.
    assert place.store().load(ONE.uid) == ONE
    assert json.loads(place.cdi()[file_of(ONE.uid)]) == spec()
    with pytest.raises(DeviceHeld):
        place.store().commit(TWO, spec(), YES)


def test_a_claim_that_was_released_meanwhile_is_not_restored(place: Place) -> None:
    place.store().restore(ONE, spec())
    assert (place.claims(), place.cdi()) == ({}, {})


def test_a_cdi_file_without_a_claim_goes_at_the_start_and_others_files_are_never_touched(place: Place) -> None:
    for name in FOREIGN:
        place.put_cdi(name, b"theirs")
    place.put_cdi(file_of("dead"), b"{}")
    place.store().commit(ONE, spec(), YES)
    place.store().commit(ONE, spec(), YES)
    place.store().restore(ONE, spec())
    assert place.store().open() == Sweep((ONE,), (), ("dead",))
    assert set(place.cdi()) == {*FOREIGN, file_of(ONE.uid)}
    place.store().release(ONE.uid)
    assert place.cdi() == dict.fromkeys(FOREIGN, b"theirs")


def test_whoever_reads_a_cdi_file_while_it_is_written_anew_reads_all_of_the_old_one(place: Place) -> None:
    place.store().commit(ONE, spec("first" * 1000), YES)
    read = place.opened(file_of(ONE.uid))
    place.store().restore(ONE, spec("second"))
    assert json.loads(read()) == spec("first" * 1000)
    assert json.loads(place.cdi()[file_of(ONE.uid)]) == spec("second")
