"""When the GpuNode is written: coalesced, and never without need."""

from __future__ import annotations

import asyncio

from gpu_dra.errors import Unavailable
from gpu_dra.gpu_node import GpuNode
from node_agent.reporter import Reporter


class Rig:
    """A store in memory, and a clock that only sleeping moves."""

    def __init__(self) -> None:
        self.node: GpuNode | None = GpuNode("n")
        self.written: list[GpuNode] = []
        self.fails = 0
        self.slept: list[float] = []
        self.reporter = Reporter(lambda: self.node, self, sleep=self.sleep)

    async def write(self, node: GpuNode) -> bool:
        if self.fails:
            self.fails -= 1
            raise Unavailable("no API server")
        self.written.append(node)
        return True

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

    async def turns(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)


async def test_an_unchanged_node_is_written_once() -> None:
    rig = Rig()
    assert await rig.reporter.reconcile()
    assert not await rig.reporter.reconcile()
    assert rig.written == [GpuNode("n")]


async def test_nothing_is_written_before_the_hardware_is_known() -> None:
    rig = Rig()
    rig.node = None
    assert not await rig.reporter.reconcile()
    assert rig.written == []


async def test_a_burst_of_changes_is_one_write() -> None:
    rig = Rig()
    task = asyncio.create_task(rig.reporter.run())
    await rig.turns()
    for number in range(5):
        rig.node = GpuNode("n", problems=(str(number),))
        rig.reporter.wake()
    await rig.turns()
    assert rig.written == [GpuNode("n"), GpuNode("n", problems=("4",))]
    rig.reporter.wake()
    await rig.turns()
    assert len(rig.written) == 2
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_write_that_fails_is_repeated_ever_later() -> None:
    rig = Rig()
    rig.fails = 8
    task = asyncio.create_task(rig.reporter.run())
    await rig.turns()
    assert rig.written
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    waits = rig.slept[:8]
    assert 4 <= waits[0] <= 6
    assert 240 <= waits[7] <= 360
