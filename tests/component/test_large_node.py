"""A node far larger than any of today: 700 MIG devices of 100 GPUs, and 32 NICs, as a real API server takes them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from gpu_dra import names
from gpu_dra.kube.client import KubeClient
from node_agent import inventory, order
from node_agent import profile as profiles
from node_agent.adapters import simulated
from node_agent.adapters.kube import ApiVersion, KubeSlices
from node_agent.inventory import Inventory
from node_agent.publish import Publisher
from node_agent.readings import MigReading, NodeReading
from node_agent.slices import WantedPool
from tests.component import objects
from tests.component.apiserver import ApiServer

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "large"}}


def reading(migs: int) -> NodeReading:
    base = profiles.readings(simulated.load("split-4x4"), "large", None)
    gpu, nic = base.gpus[0], base.nics[0]

    def mig(card: int, place: int) -> MigReading:
        return MigReading(
            f"MIG-{card}-{place}", place, "1g.10gb", place, 0, memory_bytes=9856 << 20, multiprocessors=16
        )

    return replace(
        base,
        gpus=tuple(
            replace(
                gpu,
                uuid=f"GPU-{number}",
                index=number,
                pci=replace(gpu.pci, domain=number),
                mig_enabled=migs > 0,
                migs=tuple(mig(number, place) for place in range(migs)),
            )
            for number in range(100)
        ),
        nics=tuple(
            replace(nic, pci=replace(nic.pci, domain=number), rdma_device=f"mlx5_{number}") for number in range(32)
        ),
        links={},
    )


@pytest.fixture
async def version(admin: KubeClient) -> AsyncIterator[ApiVersion]:
    await objects.apply(admin, [NODE])
    yield ApiVersion(admin)
    await objects.remove(admin, [NODE])


@pytest.mark.parametrize(
    ("kind", "migs", "count", "slices"), [("gpu", 0, 100, 2), ("gpu", 7, 700, 11), ("nic", 0, 32, 1)]
)
async def test_every_device_is_stored(
    admin: KubeClient, api_server: ApiServer, version: ApiVersion, kind: str, migs: int, count: int, slices: int
) -> None:
    found: Inventory = (inventory.gpus if kind == "gpu" else inventory.nics)(reading(migs))
    assert found.problems == ()
    pool = WantedPool(
        f"large-{kind}.example.com", "large", names.pool_name("large", kind), order.arranged(found.devices, ())
    )
    store = KubeSlices(admin, version, pool.driver, "large")
    publisher = Publisher(lambda: pool, store)
    try:
        assert await publisher.reconcile() == slices
        assert await publisher.reconcile() == 0
        stored = await KubeSlices(admin, version, pool.driver, "large").list()
        assert len(stored) == slices
        assert {device.name: device for item in stored.values() for device in item.devices} == {
            device.name: device for device in pool.devices
        }
    finally:
        for name in await store.list():
            await store.delete(name)
