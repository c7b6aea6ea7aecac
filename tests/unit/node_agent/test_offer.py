"""What is offered follows the hardware at once and the claims before long, and says so only when it changed."""

from __future__ import annotations

import asyncio

from gpu_dra.device import Device
from gpu_dra.names import PCI_BUS_ID, DeviceName, PoolName
from node_agent.inventory import Inventory, Item
from node_agent.offer import Offer
from node_agent.slices import WantedPool


def found(*numbers: int) -> Inventory:
    names = {number: DeviceName(f"gpu-{number}") for number in numbers}
    return Inventory(
        {
            name: Item(Device(name, {"nvlink_mesh_id": f"mesh-{at // 2}", PCI_BUS_ID: f"0000:{at:02x}:00.0"}), ())
            for at, name in names.items()
        }
    )


class Rig:
    def __init__(self) -> None:
        self.held: set[DeviceName] = set()
        self.changes = 0
        pool = WantedPool("gpu.nvidia.com", "n1", PoolName("n1/gpu"), ())
        self.offer = Offer(pool, found(0, 1, 2, 3), lambda: self.held, self._changed)

    @property
    def offered(self) -> list[str]:
        return [device.name[4:] for device in self.offer.wanted.devices]

    def _changed(self) -> None:
        self.changes += 1


def test_other_hardware_is_offered_at_once() -> None:
    rig = Rig()
    rig.offer.replace(found(0, 1, 2))
    assert rig.offered == ["2", "0", "1"]
    rig.offer.replace(found(0, 1, 2))
    assert rig.changes == 1


async def test_a_claim_brings_a_new_order_once_for_many(monkeypatch: object) -> None:
    rig = Rig()
    loop = asyncio.get_running_loop()
    start = loop.time()
    now = [start]
    loop.time = lambda: now[0]  # type: ignore[method-assign]
    rig.held = {DeviceName("gpu-3")}
    for _ in range(5):
        rig.offer.claims_changed()
    now[0] += 0.6
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (rig.offered, rig.changes) == (["2", "3", "0", "1"], 1)
    rig.held = {DeviceName("gpu-0")}
    rig.offer.claims_changed()
    now[0] += 4.0
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert rig.changes == 1, "two orders come at least five seconds apart"
    now[0] += 1.1
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (rig.offered, rig.changes) == (["0", "1", "2", "3"], 2)


async def test_hardware_and_order_meet() -> None:
    rig = Rig()
    rig.held = {DeviceName("gpu-3")}
    rig.offer.replace(found(0, 1, 2, 3))
    assert rig.offered == ["2", "3", "0", "1"]
