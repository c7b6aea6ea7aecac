"""Who holds what: as the store has it, told when it changes."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from gpu_dra.errors import GpuDraError
from gpu_dra.names import ClaimUid, DeviceName, PoolName
from node_agent.checkpoint import PreparedClaim, PreparedDevice
from node_agent.holdings import Holdings
from tests.fakes.claims import NODE, FakeClaimStore, FakeDisk


def claim(name: str, *devices: str, admin: bool = False) -> PreparedClaim:
    prepared = tuple(
        PreparedDevice("r", PoolName("n1/gpu"), DeviceName(device), f"x/y={device}", admin) for device in devices
    )
    return PreparedClaim(ClaimUid(f"uid-of-{name}"), "default", name, "boot", prepared)


class Rig:
    def __init__(self, disk: FakeDisk | None = None, *kept: PreparedClaim) -> None:
        self.disk = disk or FakeDisk()
        self.changes = 0
        self.holdings = Holdings(FakeClaimStore(NODE.driver, self.disk), kept, self._changed)

    def commit(self, one: PreparedClaim) -> None:
        wanted = threading.Event()
        wanted.set()
        self.holdings.commit(one, {"cdiVersion": "0.5.0"}, wanted)

    def _changed(self) -> None:
        self.changes += 1


def test_what_comes_and_goes_is_held_and_told() -> None:
    rig = Rig()
    rig.commit(claim("one", "gpu-a", "gpu-b"))
    rig.commit(claim("one", "gpu-a", "gpu-b"))
    assert (set(rig.holdings.held), rig.changes) == ({"gpu-a", "gpu-b"}, 1)
    assert rig.holdings.release(ClaimUid("uid-of-one"))
    assert not rig.holdings.release(ClaimUid("uid-of-one"))
    assert (set(rig.holdings.held), rig.changes) == (set[str](), 2)


def test_admin_access_holds_nothing() -> None:
    rig = Rig()
    rig.commit(claim("one", "gpu-a", admin=True))
    assert rig.holdings.held == set()
    assert [one.name for one in rig.holdings.claims] == ["one"]


def test_what_was_kept_before_is_held_from_the_start() -> None:
    assert Rig(None, claim("one", "gpu-a")).holdings.held == {"gpu-a"}


def test_what_another_agent_kept_is_held_once_it_is_seen() -> None:
    rig = Rig()
    Rig(rig.disk).commit(claim("one", "gpu-a"))
    assert rig.holdings.load(ClaimUid("uid-of-one")) is not None
    assert (set(rig.holdings.held), rig.changes) == ({"gpu-a"}, 1)


def test_what_failed_is_not_held() -> None:
    rig = Rig()
    rig.commit(claim("one", "gpu-a"))
    with pytest.raises(GpuDraError):
        rig.commit(replace(claim("two", "gpu-a")))
    assert [one.name for one in rig.holdings.claims] == ["one"]
