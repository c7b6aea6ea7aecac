"""The election, on a clock of the test's own."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from controller import lease
from controller.leader import Leader, LeaseLost
from controller.lease import Lease, Sighting
from tests.fakes.classes import FakeLease
from tests.fakes.turns import until


class Clock:
    """Time passes only while somebody sleeps; an await of a store takes none."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


def replica(store: FakeLease, clock: Clock, name: str) -> Leader:
    return Leader(store, name, clock=clock, sleep=clock.sleep)


async def test_the_first_takes_a_lease_that_is_not_there() -> None:
    store, clock = FakeLease(), Clock()
    leader = replica(store, clock, "a")
    with pytest.raises(LeaseLost):
        leader.check()
    await leader.acquire()
    leader.check()
    assert store.item is not None
    assert (store.item.holder, store.item.transitions, store.item.duration) == ("a", 0, lease.DURATION)


async def test_another_waits_until_the_lease_has_ended() -> None:
    store, clock = FakeLease(), Clock()
    await replica(store, clock, "a").acquire()
    started = clock.now
    await replica(store, clock, "b").acquire()
    assert clock.now - started >= lease.DURATION, "the holder was given its whole time, on the waiter's clock"
    assert store.item is not None
    assert (store.item.holder, store.item.transitions) == ("b", 1)


async def test_another_waits_for_ever_while_the_lease_is_renewed() -> None:
    store, clock = FakeLease(), Clock()
    first, second = replica(store, clock, "a"), replica(store, clock, "b")
    await first.acquire()
    keeping, waiting = asyncio.create_task(first.keep()), asyncio.create_task(second.acquire())
    await until(lambda: clock.now >= 1000.0 + 20 * lease.DURATION)
    assert not waiting.done()
    assert not keeping.done()
    await cancel(keeping)
    await first.release()
    await waiting
    assert store.item is not None
    assert store.item.holder == "b"


async def test_a_released_lease_is_taken_at_once() -> None:
    store, clock = FakeLease(), Clock()
    first = replica(store, clock, "a")
    await first.acquire()
    await first.release()
    started = clock.now
    await replica(store, clock, "b").acquire()
    assert clock.now == started


async def test_the_same_name_takes_its_own_lease_back_at_once() -> None:
    store, clock = FakeLease(), Clock()
    await replica(store, clock, "a").acquire()
    started = clock.now
    await replica(store, clock, "a").acquire()
    assert clock.now == started
    assert store.item is not None
    assert store.item.transitions == 0


async def test_a_lease_that_was_taken_away_is_lost() -> None:
    store, clock = FakeLease(), Clock()
    leader = replica(store, clock, "a")
    await leader.acquire()
    assert store.item is not None
    await store.write(replace(store.item, holder="b"))
    with pytest.raises(LeaseLost, match="it is now held by b"):
        await leader.keep()
    with pytest.raises(LeaseLost):
        leader.check()
    await leader.release()
    assert store.item.holder == "b", "another's lease is not released"


async def test_a_server_that_is_away_for_too_long_ends_it_before_the_lease_ends() -> None:
    store, clock = FakeLease(), Clock()
    leader = replica(store, clock, "a")
    await leader.acquire()
    started = clock.now
    store.away = True
    with pytest.raises(LeaseLost, match="could not be renewed for 10 seconds"):
        await leader.keep()
    assert clock.now - started < lease.DURATION


async def test_a_short_outage_is_no_loss() -> None:
    store, clock = FakeLease(), Clock()
    leader = replica(store, clock, "a")
    await leader.acquire()
    keeping = asyncio.create_task(leader.keep())
    store.away = True
    await until(lambda: clock.now >= 1000.0 + lease.RETRY * 3)
    store.away = False
    await until(lambda: clock.now >= 1000.0 + lease.DURATION * 3)
    assert not keeping.done()
    await cancel(keeping)


async def test_a_machine_that_stood_still_may_not_write() -> None:
    store, clock = FakeLease(), Clock()
    leader = replica(store, clock, "a")
    await leader.acquire()
    clock.now += lease.RENEW_DEADLINE
    with pytest.raises(LeaseLost, match="10 seconds ago"):
        leader.check()


async def test_a_release_that_fails_is_no_error() -> None:
    store, clock = FakeLease(), Clock()
    leader = replica(store, clock, "a")
    await leader.acquire()
    store.away = True
    await leader.release()


async def test_acquire_goes_on_through_an_outage() -> None:
    store, clock = FakeLease(), Clock()
    store.away = True
    waiting = asyncio.create_task(replica(store, clock, "a").acquire())
    await until(lambda: clock.now >= 1100.0)
    store.away = False
    await waiting


def test_a_lease_ages_only_while_it_is_unchanged() -> None:
    first = Lease("a", 15.0, "", "t1")
    sighting = lease.seen(None, first, 10.0)
    assert lease.seen(sighting, replace(first, stored={"new": 1}), 20.0).since == 10.0
    assert lease.seen(sighting, replace(first, renewed="t2"), 20.0) == Sighting(replace(first, renewed="t2"), 20.0)
    assert not lease.is_free(sighting, "b", 24.9)
    assert lease.is_free(sighting, "b", 25.0)
    assert lease.is_free(sighting, "a", 10.0)


def test_the_object_keeps_what_others_wrote() -> None:
    stored = {
        "metadata": {"name": "l", "namespace": "n", "resourceVersion": "9", "labels": {"x": "y"}},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "strategy": "OldestEmulationVersion"},
    }
    obj = lease.encode(lease.taken(lease.decode(stored), "b", "2026-01-01T00:00:00.000000Z"), "n", "l")
    assert obj["metadata"] == stored["metadata"]
    assert obj["spec"] == {
        "holderIdentity": "b",
        "leaseDurationSeconds": 15,
        "strategy": "OldestEmulationVersion",
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 1,
    }
    assert lease.decode({"spec": {}}) == Lease("", 0.0, "", "", 0)


async def cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
