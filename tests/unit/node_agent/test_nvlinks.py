"""How many NVLinks join each pair of GPUs, from what each says of its own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpu_dra.pci import PciAddress
from node_agent import nvlinks
from node_agent.nvlinks import Ends

A, B, C, D = (PciAddress(0, bus, 0) for bus in range(4))
UUIDS = {A: "GPU-a", B: "GPU-b", C: "GPU-c", D: "GPU-d"}


def test_direct_links_are_those_that_both_ends_see() -> None:
    ends = {A: Ends(peers=(B, B, C)), B: Ends(peers=(A, A)), C: Ends()}
    assert nvlinks.counted(ends, UUIDS) == {("GPU-a", "GPU-b"): 2}


def test_through_switches_the_pairs_are_those_that_reach_each_other() -> None:
    ends = {
        A: Ends(switched=18, reaches=frozenset({B})),
        B: Ends(switched=17, reaches=frozenset({A})),
        C: Ends(switched=18, reaches=frozenset({D, A})),
        D: Ends(switched=18, reaches=frozenset({C})),
    }
    assert nvlinks.counted(ends, UUIDS) == {("GPU-a", "GPU-b"): 17, ("GPU-c", "GPU-d"): 18}


def test_a_peer_that_is_not_there_joins_nobody() -> None:
    assert nvlinks.counted({A: Ends(peers=(D,), switched=2, reaches=frozenset({D}))}, UUIDS) == {}


def test_only_the_links_of_the_doubtful_are_kept() -> None:
    before = {("GPU-a", "GPU-b"): 4, ("GPU-b", "GPU-c"): 4, ("GPU-a", "GPU-c"): 4}
    assert nvlinks.kept(before, ["GPU-a"]) == {("GPU-a", "GPU-b"): 4, ("GPU-a", "GPU-c"): 4}
    assert nvlinks.kept(before, []) == {}


@given(st.permutations([A, B, C, D]), st.data())
def test_the_order_of_the_gpus_does_not_matter(order: list[PciAddress], data: st.DataObject) -> None:
    pairs = [(one, two) for one in UUIDS for two in UUIDS if one < two]
    links = {names: data.draw(st.integers(0, 3)) for names in pairs}
    ends = {
        gpu: Ends(
            tuple(
                two if one == gpu else one
                for (one, two), count in links.items()
                if gpu in (one, two)
                for _ in range(count)
            )
        )
        for gpu in UUIDS
    }
    assert nvlinks.counted({gpu: ends[gpu] for gpu in order}, UUIDS) == nvlinks.counted(ends, UUIDS)
