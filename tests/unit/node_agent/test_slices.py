"""The plan of a pool: what is written, in which order, and that no consumer ever sees half of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_dra.device import Device, Taint
from gpu_dra.names import DeviceName, PoolName
from gpu_dra.resource_slice import Pool, ResourceSlice
from node_agent.slices import WantedPool, plan

DRIVER, NODE, POOL = "gpu.nvidia.com", "n1", PoolName("n1/gpu")
API_LIMIT = 128

Stored = dict[str, ResourceSlice]


def pool(count: int, changed: Sequence[int] = ()) -> WantedPool:
    """`count` devices; those in `changed` look different from those of another pool."""
    devices = [Device(DeviceName(f"gpu-{number}"), {"sick": number in changed}) for number in range(count)]
    return WantedPool(DRIVER, NODE, POOL, tuple(devices))


def steps(wanted: WantedPool, stored: Stored) -> Iterator[Stored]:
    """What is stored after each single request of the plan, in the order that Plan promises."""
    made = plan(wanted, stored)
    for name in made.delete:
        stored = {other: item for other, item in stored.items() if other != name}
        yield stored
    for item in made.write:
        stored = {**stored, item.name: item}
        yield stored


def published(wanted: WantedPool, stored: Stored | None = None) -> Stored:
    after = stored or {}
    for state in steps(wanted, after):
        after = state
    return after


def generation(stored: Stored) -> int:
    return max((item.pool.generation for item in stored.values()), default=0)


def consumed(stored: Stored) -> tuple[Device, ...] | None:
    """What a scheduler makes of it: the highest generation, if all its slices are there."""
    newest = [stored[name] for name in sorted(stored) if stored[name].pool.generation == generation(stored)]
    if not newest or any(item.pool.slice_count != len(newest) for item in newest):
        return None
    return tuple(device for item in newest for device in item.devices)


pools = st.builds(pool, st.sampled_from([0, 1, 2, 63, 64, 65, 128, 129, 200]), st.sets(st.sampled_from([0, 70, 130])))


@dataclass(frozen=True)
class Past:
    """What a server holds after some pools were written, some of them not to the end, and somebody deleted a slice."""

    stored: Stored
    wanted: tuple[WantedPool, ...]


@st.composite
def pasts(draw: st.DrawFn) -> Past:
    stored: Stored = {}
    wanted = tuple(draw(st.lists(pools, max_size=3)))
    for one in wanted:
        states = [stored, *steps(one, stored)]
        killed = draw(st.none() | st.integers(0, len(states) - 1))
        stored = states[-1 if killed is None else killed]
    gone = draw(st.none() | st.sampled_from(sorted(stored))) if stored else None
    stored = {name: item for name, item in stored.items() if name != gone}
    return Past(stored, wanted)


@given(pasts(), pools)
def test_what_is_stored_in_the_end_is_what_was_wanted(past: Past, wanted: WantedPool) -> None:
    after = published(wanted, past.stored)
    assert consumed(after) == wanted.devices
    assert {item.pool for item in after.values()} == {Pool(POOL, generation(after), len(after))}
    assert all((name, item.driver, item.node) == (item.name, DRIVER, NODE) for name, item in after.items())
    assert all(len(item.devices) <= API_LIMIT for item in after.values())
    assert plan(wanted, after).empty


@given(pasts(), pools)
def test_a_consumer_sees_one_whole_pool_or_none_at_any_time(past: Past, wanted: WantedPool) -> None:
    whole = [None, *(one.devices for one in (*past.wanted, wanted))]
    for state in steps(wanted, past.stored):
        assert consumed(state) in whole


@given(pasts(), pools)
def test_the_generation_grows_unless_at_most_one_slice_changes_in_place(past: Past, wanted: WantedPool) -> None:
    made, before = plan(wanted, past.stored), generation(past.stored)
    after = {name: past.stored.get(name) for name in made.delete} | {item.name: item for item in made.write}
    in_place = len(made.write) <= 1 and set(after) <= set(past.stored) and not made.delete
    alone = len(wanted.chunks) == 1 and not made.delete
    assert all(item.pool.generation >= before for item in made.write)
    if made.empty:
        return
    if not past.stored:
        assert {item.pool.generation for item in made.write} == {1}
    elif in_place or alone:
        assert {item.pool.generation for item in made.write} == {before}
    else:
        assert {item.pool.generation for item in made.write} == {before + 1}
        assert len(made.write) == len(wanted.chunks)


@given(pasts(), pools)
@settings(max_examples=50)
def test_the_same_input_gives_the_same_plan_in_any_order(past: Past, wanted: WantedPool) -> None:
    backwards = dict(reversed(past.stored.items()))
    assert plan(wanted, backwards) == plan(replace(wanted), past.stored)


def test_no_devices_make_one_empty_slice() -> None:
    (item,) = published(pool(0)).values()
    assert item == ResourceSlice("n1-gpu.nvidia.com-00000", DRIVER, NODE, Pool(POOL, 1, 1), ())


def test_names_are_fixed_and_sort_as_the_devices_do() -> None:
    assert [pool(700).slice_name(number) for number in (0, 10)] == [
        "n1-gpu.nvidia.com-00000",
        "n1-gpu.nvidia.com-00010",
    ]


@pytest.mark.parametrize(
    ("before", "after", "grows"),
    [
        pytest.param(pool(8), pool(8), 0, id="nothing changes"),
        pytest.param(pool(8), pool(8, [3]), 0, id="one slice in place"),
        pytest.param(pool(100), pool(100, [3]), 0, id="one slice of two in place"),
        pytest.param(pool(0), pool(8), 0, id="devices come to an empty slice"),
        pytest.param(pool(100), pool(100, [3, 70]), 1, id="both slices"),
        pytest.param(pool(64), pool(65), 1, id="one slice more"),
        pytest.param(pool(65), pool(64), 1, id="one slice less"),
    ],
)
def test_when_the_generation_grows(before: WantedPool, after: WantedPool, grows: int) -> None:
    assert generation(published(after, published(before))) == 1 + grows


def test_a_deleted_slice_of_several_comes_back_under_a_new_generation() -> None:
    stored = published(pool(100))
    del stored["n1-gpu.nvidia.com-00001"]
    made = plan(pool(100), stored)
    assert [(item.name[-1], item.pool.generation) for item in made.write] == [("0", 2), ("1", 2)]


def test_slices_of_other_names_go_and_the_generation_passes_theirs() -> None:
    old = ResourceSlice("n1-gpu.nvidia.com-x7k2p", DRIVER, NODE, Pool(POOL, 7, 1), ())
    made = plan(pool(8), {old.name: old})
    assert made.delete == (old.name,)
    assert [(item.name, item.pool.generation) for item in made.write] == [("n1-gpu.nvidia.com-00000", 8)]


def test_a_change_by_somebody_else_is_put_right_in_place() -> None:
    stored = published(pool(8))
    (name,) = stored
    spoilt = {name: replace(stored[name], devices=())}
    assert [(item.devices, item.pool.generation) for item in plan(pool(8), spoilt).write] == [(pool(8).devices, 1)]


def tainted(*taints: Taint) -> WantedPool:
    devices = (Device(DeviceName("gpu-0"), taints=taints), Device(DeviceName("gpu-1")))
    return WantedPool(DRIVER, NODE, POOL, devices)


def test_a_taint_that_is_stored_keeps_its_age() -> None:
    doubt = Taint("gpu-dra.io/doubt", "lost")
    aged = published(tainted(replace(doubt, since="2026-01-02T03:04:05Z")))
    assert plan(tainted(doubt), aged).empty
    assert plan(tainted(replace(doubt, value="silent")), aged).write[0].devices[0].taints[0].since is None
    assert plan(tainted(), aged).write[0].devices[0].taints == ()
    both = plan(tainted(doubt, Taint("k")), aged).write[0].devices[0].taints
    assert [taint.since for taint in both] == ["2026-01-02T03:04:05Z", None]


def test_without_taints_only_what_new_claims_may_have_is_offered() -> None:
    assert [device.name for device in tainted(Taint("k")).without_tainted().devices] == ["gpu-1"]
    told = tainted(Taint("k", effect="None")).without_tainted().devices
    assert [(device.name, device.taints) for device in told] == [("gpu-0", ()), ("gpu-1", ())]
