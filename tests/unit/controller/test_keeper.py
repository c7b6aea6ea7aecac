"""Passes over the classes against a store in memory."""

from __future__ import annotations

import asyncio
import logging

import pytest

from controller.class_list import WantedClass
from controller.device_classes import Release
from controller.keeper import Keeper
from controller.leader import LeaseLost
from gpu_dra.errors import Unavailable
from tests.fakes.classes import FakeClasses, FakeReport
from tests.fakes.turns import until

RELEASE = Release("gpu", "main")
WANTED = (
    WantedClass("gpu.nvidia.com", "gpu", "gpu.nvidia.com", "nvidia.com/gpu"),
    WantedClass("mig.nvidia.com", "mig", "gpu.nvidia.com"),
)


def keeper(store: FakeClasses, report: FakeReport | None = None) -> Keeper:
    return Keeper(WANTED, RELEASE, store, report or FakeReport())


async def test_a_second_pass_finds_nothing_to_do() -> None:
    store, report = FakeClasses(), FakeReport()
    item = keeper(store, report)
    assert (await item.once()).writes == 2
    assert (await item.once()).writes == 0
    assert report.actions == ["create", "create"]
    assert report.states[-1] == (2, 0, 0)


async def test_dropped_fields_are_told_once_and_not_written_again(caplog: pytest.LogCaptureFixture) -> None:
    store = FakeClasses(drops=["extendedResourceName"])
    item = keeper(store)
    for _ in range(4):
        await item.once()
    assert store.writes == [("create", "gpu.nvidia.com"), ("create", "mig.nvidia.com")]
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(told) == 1
    assert "did not store spec.extendedResourceName of DeviceClass gpu.nvidia.com as asked" in told[0]


async def test_a_restart_tries_a_dropped_field_once_and_counts_no_write() -> None:
    store = FakeClasses(drops=["extendedResourceName"])
    await keeper(store).once()
    store.writes.clear()
    report = FakeReport()
    again = keeper(store, report)
    await again.once()
    await again.once()
    assert store.writes == [("replace", "gpu.nvidia.com")]
    assert report.actions == []


async def test_a_repair_is_made_though_a_field_is_dropped() -> None:
    store = FakeClasses(drops=["extendedResourceName"])
    item = keeper(store)
    await item.once()
    store.edit("gpu.nvidia.com", selectors=[])
    await item.once()
    assert store.objects["gpu.nvidia.com"]["spec"]["selectors"]


async def test_a_refused_class_does_not_keep_the_others_from_being_made() -> None:
    store, report = FakeClasses(refuses=["gpu.nvidia.com"]), FakeReport()
    result = await keeper(store, report).once()
    assert result.problems == ("DeviceClass gpu.nvidia.com cannot be created: no",)
    assert set(store.objects) == {"mig.nvidia.com"}
    assert report.states == [(1, 0, 1)]


async def test_a_foreign_class_is_told_once_and_again_when_it_is_another(caplog: pytest.LogCaptureFixture) -> None:
    store, report = FakeClasses(), FakeReport()
    foreign = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "spec": {}}
    await store.create({**foreign, "metadata": {"name": "gpu.nvidia.com"}})
    item = keeper(store, report)
    await item.once()
    await item.once()
    assert len(report.foreign) == 1
    assert len([record for record in caplog.records if "is left alone" in record.getMessage()]) == 1
    del store.objects["gpu.nvidia.com"]
    await store.create({**foreign, "metadata": {"name": "gpu.nvidia.com"}})
    await item.once()
    assert len(report.foreign) == 2


async def test_without_the_right_to_write_nothing_is_written() -> None:
    def lost() -> None:
        raise LeaseLost("gone")

    store = FakeClasses()
    item = Keeper(WANTED, RELEASE, store, FakeReport(), may_write=lost)
    with pytest.raises(LeaseLost):
        await item.once()
    assert store.writes == []


async def test_runs_on_through_an_outage_and_wakes_for_what_concerns_it() -> None:
    store = FakeClasses()
    store.away = "the API server is out of reach"
    slept: list[float] = []
    turn = asyncio.Event()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        turn.set()
        await asyncio.sleep(0)

    async def next_turn() -> None:
        turn.clear()
        await turn.wait()

    item = Keeper(WANTED, RELEASE, store, FakeReport(), sleep=sleep)
    assert item.trouble
    running = asyncio.create_task(item.run())
    try:
        await next_turn()
        await next_turn()
        assert item.trouble == "the API server is out of reach"
        assert slept[1] > slept[0] * 1.1, "later each time"
        store.away = ""
        await until(lambda: not item.trouble)
        assert set(store.objects) == {"gpu.nvidia.com", "mig.nvidia.com"}

        before = len(slept)
        item.notice({"metadata": {"name": "somebody-elses"}})
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(slept) == before
        del store.objects["mig.nvidia.com"]
        item.notice({"metadata": {"name": "mig.nvidia.com"}})
        await next_turn()
        assert set(store.objects) == {"gpu.nvidia.com", "mig.nvidia.com"}
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_resync_gives_a_dropped_field_another_chance() -> None:
    store = FakeClasses(drops=["extendedResourceName"])
    item = Keeper(WANTED, RELEASE, store, FakeReport(), resync=0.01, sleep=lambda _: asyncio.sleep(0))
    running = asyncio.create_task(item.run())
    try:
        await until(lambda: store.objects)
        store.drops.clear()
        await until(lambda: "extendedResourceName" in store.objects["gpu.nvidia.com"]["spec"])
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_an_outage_is_the_callers_business_in_a_single_pass() -> None:
    store = FakeClasses()
    store.away = "away"
    with pytest.raises(Unavailable):
        await keeper(store).once()
