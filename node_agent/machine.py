"""The machine that the agent runs on: what it has, and when that may have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Protocol

from node_agent.adapters import simulated
from node_agent.readings import NodeReading
from node_agent.settings import Settings
from node_agent.sockets import Sockets


class Machine(Protocol):
    """Hardware, real or simulated."""

    async def read(self) -> NodeReading:
        """What there is now. What cannot be read is left out and named in `problems`."""
        ...

    async def news(self) -> None:
        """Return when something may have come or gone."""
        ...


@contextmanager
def machine_of(settings: Settings) -> Generator[Machine]:
    """The machine that the settings mean. InputError for a profile, HostError where it must not be simulated."""
    if settings.simulate is None:
        yield _Unread()
        return
    simulated.refuse_beside_a_real_driver(settings.host_root, nics=settings.nics)
    profile = simulated.load(settings.simulate)
    dev_root = (
        Path(Sockets.of(PurePosixPath(settings.kubelet_root), settings.gpu_driver_name, settings.pod_uid).state) / "dev"
    )
    yield _Simulated(simulated.SimulatedNode(profile, settings.node_name, dev_root))


class _Simulated:
    """Nothing ever comes or goes."""

    def __init__(self, node: simulated.SimulatedNode) -> None:
        self._node = node

    async def read(self) -> NodeReading:
        return await asyncio.to_thread(self._node.read)

    async def news(self) -> None:
        await asyncio.Event().wait()


class _Unread:
    async def read(self) -> NodeReading:
        return NodeReading(
            reason="this version reads no real hardware yet; start it with --simulate PROFILE (chart value"
            " nodeAgent.simulate.profile)"
        )

    async def news(self) -> None:
        await asyncio.Event().wait()
