"""When the hardware is looked at, and who is told what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from node_agent.presence import GRACE
from node_agent.readings import NodeReading
from node_agent.watch import RESCAN, Watch
from tests.unit.node_agent.test_presence import node, uuids


class Machine:
    """Hardware, a clock and the kernel's news, all in the test's hands."""

    def __init__(self) -> None:
        self.reading = node(0, 1)
        self.now = 0.0
        self.slept: list[float] = []
        self.news = asyncio.Event()
        self.told: list[NodeReading] = []
        self.looks = 0
        self.on_look: Callable[[], None] = lambda: None

    async def read(self) -> NodeReading:
        self.looks += 1
        self.on_look()
        return self.reading

    async def wait(self) -> None:
        await self.news.wait()
        self.news.clear()

    async def sleep(self, seconds: float) -> None:
        """Time passes only where nothing else can happen."""
        self.slept.append(seconds)
        for _ in range(20):
            await asyncio.sleep(0)
        self.now += seconds

    def watch(self) -> Watch:
        return Watch(self.read, self.wait, self.told.append, clock=lambda: self.now, sleep=self.sleep)


async def run_until(watch: Watch, machine: Machine, looks: int) -> None:
    enough = asyncio.Event()

    def on_look() -> None:
        if machine.looks >= looks:
            enough.set()

    machine.on_look = on_look
    task = asyncio.create_task(watch.run())
    await asyncio.wait_for(enough.wait(), 5)
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_first_look_is_told_and_an_unchanged_one_is_not() -> None:
    machine = Machine()
    watch = machine.watch()
    assert await watch.look() == machine.reading
    await watch.look()
    assert machine.told == [machine.reading]


async def test_without_news_it_looks_once_a_rescan_interval() -> None:
    machine = Machine()
    await run_until(machine.watch(), machine, looks=4)
    assert set(machine.slept[:3]) == {RESCAN}
    assert machine.told == [machine.reading]


async def test_news_is_looked_at_and_a_new_gpu_is_told() -> None:
    machine = Machine()
    watch = machine.watch()
    await watch.look()
    machine.reading = node(0, 1, 2)
    machine.news.set()
    await run_until(watch, machine, looks=2)
    assert machine.told == [node(0, 1), node(0, 1, 2)]
    assert machine.now < RESCAN


async def test_a_missing_gpu_is_looked_for_again_when_its_grace_ends() -> None:
    machine = Machine()
    watch = machine.watch()
    await watch.look()
    machine.reading = node(0)
    assert uuids(await watch.look()) == {"GPU-0", "GPU-1"}
    doubtful = machine.told[-1]
    assert {gpu.uuid: gpu.doubt for gpu in doubtful.gpus} == {"GPU-0": None, "GPU-1": "missing"}
    await run_until(watch, machine, looks=4)
    assert machine.now == GRACE
    assert machine.told == [node(0, 1), doubtful, node(0)]
