"""A publisher over slices in memory, on a clock of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from gpu_dra.device import Device
from gpu_dra.names import DeviceName, PoolName
from node_agent.publish import Publisher
from node_agent.slices import WantedPool
from tests.fakes.slices import FakeSliceServer
from tests.fakes.turns import until

DRIVER, NODE, POOL = "gpu.nvidia.com", "n1", PoolName("n1/gpu")
FIRST, SECOND = f"{NODE}-{DRIVER}-00000", f"{NODE}-{DRIVER}-00001"


def pool(count: int, *extra: str, numa: int = 0) -> WantedPool:
    """`count` devices, and some of other names."""
    labels = [f"gpu-{number}" for number in range(count)] + list(extra)
    devices = [Device(DeviceName(name), {"numa_node": numa, "model": "H100"}) for name in labels]
    return WantedPool(DRIVER, NODE, POOL, tuple(devices))


class Rig:
    """A publisher whose pauses take no time; `pauses` are those that it asked for."""

    def __init__(self, server: FakeSliceServer, wanted: WantedPool) -> None:
        self.server = server
        self.wanted = wanted
        self.pauses: list[float] = []
        self.published = 0
        self.superseded = False
        self.publisher = Publisher(
            lambda: self.wanted,
            server.store(DRIVER, NODE),
            on_published=self._on_published,
            superseded=self._is_superseded,
            sleep=self._sleep,
        )

    @property
    def devices(self) -> list[Device]:
        return [device for _, item in sorted(self.server.items.items()) for device in item.devices]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        task = asyncio.create_task(self.publisher.run())
        try:
            yield
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def until_published(self, times: int = 1) -> None:
        await until(lambda: self.published >= times)

    async def turns(self, count: int = 50) -> None:
        """Let the publisher do what it wants to do."""
        for _ in range(count):
            await asyncio.sleep(0)

    def _on_published(self) -> None:
        self.published += 1

    async def _is_superseded(self) -> bool:
        return self.superseded

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)
