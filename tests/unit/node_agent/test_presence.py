"""A GPU that blinks does not flap, one that stays away goes, and nobody inherits a name."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gpu_dra.pci import PciAddress
from node_agent import presence
from node_agent.presence import GRACE, settle
from node_agent.readings import GpuReading, NodeReading, pair


def gpu(number: int, uuid: str = "") -> GpuReading:
    return GpuReading(
        uuid=uuid or f"GPU-{number}",
        index=number,
        minor=number,
        product_name="NVIDIA H100 80GB HBM3",
        pci=PciAddress.parse(f"0000:{number + 16:02x}:00.0"),
        nodes=(),
    )


def node(*numbers: int) -> NodeReading:
    links = {pair(f"GPU-{a}", f"GPU-{b}"): 18 for a in numbers for b in numbers if a < b}
    return NodeReading(gpus=tuple(gpu(number) for number in numbers), links=links, driver_version="580.1.1")


def uuids(reading: NodeReading) -> set[str]:
    return {one.uuid for one in reading.gpus}


def test_a_gpu_that_is_back_within_the_grace_period_never_left() -> None:
    first = settle(None, node(0, 1, 2), 100.0)
    blink = settle(first, node(0, 2), 100.2)
    assert uuids(blink.reading) == {"GPU-0", "GPU-1", "GPU-2"}
    assert blink.reading.links == node(0, 1, 2).links
    assert blink.look_again_at() == 100.2 + GRACE
    back = settle(blink, node(0, 1, 2), 100.4)
    assert back.reading == first.reading
    assert back.look_again_at() is None


def test_the_grace_period_counts_from_the_first_look_without_it() -> None:
    seen = settle(None, node(0, 1), 0.0)
    for now in (10.0, 11.0, 10.0 + GRACE - 0.001):
        seen = settle(seen, node(0), now)
        assert uuids(seen.reading) == {"GPU-0", "GPU-1"}
    gone = settle(seen, node(0), 10.0 + GRACE)
    assert gone.reading == node(0)
    assert not gone.missing_since


def test_a_driver_that_reloads_takes_nothing_away_for_a_moment() -> None:
    seen = settle(None, node(0, 1), 0.0)
    away = settle(seen, NodeReading(reason="no driver is loaded"), 1.0)
    assert away.reading.reason is None
    assert uuids(away.reading) == {"GPU-0", "GPU-1"}
    assert away.reading.driver_version == "580.1.1"
    assert settle(away, NodeReading(reason="no driver is loaded"), 1.0 + GRACE).reading.reason == "no driver is loaded"


def test_another_card_in_the_same_slot_ends_the_old_one_at_once() -> None:
    seen = settle(None, node(0, 1), 0.0)
    swapped = replace(node(0, 1), gpus=(gpu(0), gpu(1, "GPU-new")))
    assert uuids(settle(seen, swapped, 0.1).reading) == {"GPU-0", "GPU-new"}


@given(st.lists(st.tuples(st.frozensets(st.integers(0, 5)), st.floats(0.01, 3.0)), max_size=30))
def test_what_is_seen_counts_and_what_is_not_goes_after_the_grace_period(
    looks: list[tuple[frozenset[int], float]],
) -> None:
    now, state, last_seen = 0.0, None, dict[str, float]()
    for numbers, passed in looks:
        now += passed
        before = set(uuids(state.reading)) if state else set[str]()
        fresh = node(*sorted(numbers))
        state = settle(state, fresh, now)
        last_seen.update(dict.fromkeys(uuids(fresh), now))
        counted = uuids(state.reading)
        assert uuids(fresh) <= counted <= uuids(fresh) | before
        assert len(state.reading.gpus) == len(counted)
        assert set(state.missing_since) == counted - uuids(fresh)
        for uuid, since in state.missing_since.items():
            assert last_seen[uuid] < since <= now < since + presence.GRACE
