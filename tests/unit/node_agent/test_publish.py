"""The publisher over a store in memory: what is stored becomes what is wanted, told once, written no more than needed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpu_dra.device import Taint
from gpu_dra.kube.client import ApiError
from gpu_dra.names import PoolName
from gpu_dra.resource_slice import Pool, ResourceSlice
from node_agent.slices import WantedPool
from tests.fakes.slices import FakeSliceServer
from tests.fakes.turns import until
from tests.unit.node_agent.publish_rig import DRIVER, FIRST, NODE, POOL, SECOND, Rig, pool


@pytest.fixture
def rig() -> Rig:
    return Rig(FakeSliceServer(), pool(2))


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[str], list[str]]:
    """What the log says of something: of each warning that has it as a field, the field."""

    def find(field: str) -> list[str]:
        records: list[dict[str, Any]] = [vars(record) for record in caplog.records if record.levelno >= logging.WARNING]
        return [str(record[field]) for record in records if field in record]

    return find


async def test_what_is_wanted_is_stored_and_told(rig: Rig) -> None:
    async with rig.running():
        await rig.until_published()
    assert rig.server.items == {FIRST: ResourceSlice(FIRST, DRIVER, NODE, Pool(POOL, 1, 1), rig.wanted.devices)}


async def test_nothing_is_written_where_nothing_changed(rig: Rig) -> None:
    assert await rig.publisher.reconcile() == 1
    assert await rig.publisher.reconcile() == 0
    another = Rig(rig.server, rig.wanted)
    async with another.running():
        await another.until_published()
        another.publisher.wake()
        await another.until_published(2)
    assert rig.server.writes == [("create", FIRST)]


async def test_what_is_wanted_anew_is_written_when_the_publisher_is_woken(rig: Rig) -> None:
    async with rig.running():
        await rig.until_published()
        rig.wanted = pool(1, numa=1)
        rig.publisher.wake()
        await rig.until_published(2)
    assert rig.devices == list(rig.wanted.devices)


@pytest.mark.parametrize("count", [2, 70])
async def test_a_slice_that_anybody_deletes_comes_back(count: int) -> None:
    rig = Rig(FakeSliceServer(), pool(count))
    async with rig.running():
        await rig.until_published()
        before = set(rig.server.items)
        for _ in range(3):
            seen = rig.published
            rig.server.remove(FIRST)
            await rig.until_published(seen + 1)
            assert set(rig.server.items) == before
            assert rig.devices == list(rig.wanted.devices)


async def test_a_slice_that_anybody_changes_is_made_right(rig: Rig) -> None:
    async with rig.running():
        await rig.until_published()
        rig.server.put(replace(rig.server.items[FIRST], devices=()))
        await rig.until_published(2)
    assert rig.devices == list(rig.wanted.devices)


async def test_slices_of_an_older_layout_go_and_those_of_others_stay(rig: Rig) -> None:
    old = [
        ResourceSlice(FIRST, DRIVER, NODE, Pool(PoolName("n1"), 7, 2), pool(1).devices),
        ResourceSlice(SECOND, DRIVER, NODE, Pool(PoolName("n1"), 7, 2), ()),
        ResourceSlice("n1-by-another-name", DRIVER, NODE, Pool(POOL, 3, 1), ()),
    ]
    others = [
        ResourceSlice("n2-slice", DRIVER, "n2", Pool(PoolName("n2/gpu"), 1, 1), ()),
        ResourceSlice("n1-nic", "nic.gpu-dra.io", NODE, Pool(PoolName("n1/nic"), 1, 1), ()),
    ]
    for item in (*old, *others):
        rig.server.put(item)
    assert await rig.publisher.reconcile() == 3
    mine = ResourceSlice(FIRST, DRIVER, NODE, Pool(POOL, 8, 1), rig.wanted.devices)
    assert rig.server.items == {item.name: item for item in (mine, *others)}
    assert await rig.publisher.reconcile() == 0


async def test_a_dropped_field_is_told_once_and_is_not_written_again_and_again(
    said: Callable[[str], list[str]],
) -> None:
    rig = Rig(FakeSliceServer(drops=["numa_node"]), pool(2))
    async with rig.running():
        await rig.until_published()
        await rig.turns()
        assert rig.server.writes == [("create", FIRST)]
        rig.server.remove(FIRST)
        await rig.until_published(2)
        await rig.turns()
        assert rig.server.writes == [("create", FIRST)] * 2
        assert said("dropped") == ["numa_node"]
        rig.server.put(replace(rig.server.items[FIRST], devices=()))
        await rig.until_published(3)
    assert [dict(device.attributes) for device in rig.devices] == [{"model": "H100"}] * 2
    assert said("dropped") == ["numa_node"]


async def test_a_refusal_is_told_once_and_tried_again_ever_later(said: Callable[[str], list[str]]) -> None:
    rig = Rig(FakeSliceServer(), pool(1, "Not_A_Label"))
    async with rig.running():
        await until(lambda: len(rig.pauses) >= 12)
        assert (said("problem"), rig.published, rig.server.writes) == (
            [f"ResourceSlice {FIRST} is invalid: Not_A_Label is no device's name"], 0, [],
        )  # fmt: skip
        # Doubled each time up to half a minute, with a quarter of jitter either way.
        for number, pause in enumerate(rig.pauses):
            assert 0.75 <= pause / min(0.2 * 2**number, 30) <= 1.25
        rig.wanted = pool(1, "Nor_This")
        await until(lambda: len(said("problem")) == 2)
        rig.wanted = pool(1)
        await rig.until_published()
    assert len(said("problem")) == 2


async def test_a_refused_slice_does_not_make_the_others_be_written_each_time(said: Callable[[str], list[str]]) -> None:
    rig = Rig(FakeSliceServer(), pool(65, "Not_A_Label"))
    with pytest.raises(ApiError):
        await rig.publisher.reconcile()
    written = list(rig.server.writes)
    for _ in range(5):
        with pytest.raises(ApiError):
            await rig.publisher.reconcile()
    assert rig.server.writes == written
    rig.wanted = pool(66)
    assert await rig.publisher.reconcile() > 0
    assert rig.devices == list(rig.wanted.devices)


async def test_a_server_that_asks_for_patience_gets_it(rig: Rig) -> None:
    def busy() -> None:
        raise ApiError(429, "TooManyRequests", "the server is busy", retry_after=100)

    rig.server.meanwhile = [busy]
    async with rig.running():
        await rig.until_published()
    assert rig.pauses[0] >= 75


async def test_an_outage_ends_without_a_restart(rig: Rig, said: Callable[[str], list[str]]) -> None:
    rig.server.away = "the API server is out of reach"
    async with rig.running():
        await until(lambda: len(rig.pauses) > 5)
        assert said("problem") == [rig.server.away]
        rig.server.away = ""
        await rig.until_published()
    assert rig.devices == list(rig.wanted.devices)


async def test_whoever_is_quicker_is_put_right_the_next_time(rig: Rig) -> None:
    await rig.publisher.reconcile()
    theirs = replace(rig.server.items[FIRST], devices=())
    rig.server.meanwhile = [lambda: rig.server.put(theirs)]
    rig.wanted = pool(3)
    async with rig.running():
        await rig.until_published()
    assert rig.devices == list(rig.wanted.devices)


async def test_an_agent_that_a_younger_one_has_superseded_writes_nothing_until_that_one_is_gone(rig: Rig) -> None:
    rig.superseded = True
    async with rig.running():
        await until(lambda: len(rig.pauses) > 5)
        rig.publisher.wake()
        await rig.turns()
        assert (rig.server.writes, rig.published) == ([], 0)
        rig.superseded = False
        await rig.until_published()
    assert rig.devices == list(rig.wanted.devices)


def in_doubt(*numbers: int) -> WantedPool:
    wanted = pool(3)
    doubt = (Taint("gpu-dra.io/doubt", "lost"),)
    devices = [replace(device, taints=doubt if at in numbers else ()) for at, device in enumerate(wanted.devices)]
    return replace(wanted, devices=tuple(devices))


async def test_a_taint_that_the_server_dates_is_no_difference(rig: Rig, said: Callable[[str], list[str]]) -> None:
    rig.wanted = in_doubt(1)
    assert await rig.publisher.reconcile() == 1
    assert await rig.publisher.reconcile() == 0
    assert await Rig(rig.server, rig.wanted).publisher.reconcile() == 0
    assert said("dropped") == []


async def test_where_taints_are_dropped_a_device_in_doubt_is_not_offered(said: Callable[[str], list[str]]) -> None:
    rig = Rig(FakeSliceServer(drops=["taints"]), in_doubt(1))
    await rig.publisher.reconcile()
    assert [device.name for device in rig.devices] == ["gpu-0", "gpu-2"]
    assert said("dropped") == ["taints"]
    assert await rig.publisher.reconcile() == 0
    rig.wanted = in_doubt()
    assert await rig.publisher.reconcile() == 1
    assert rig.devices == list(pool(3).devices)
