"""The machine that the agent runs on: what it has, and when that may have changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import Protocol

from gpu_dra.errors import HostError
from node_agent.adapters import driver_files, simulated
from node_agent.adapters.hardware import Hardware
from node_agent.adapters.nvml import NvmlClient, NvmlError
from node_agent.adapters.uevents import Uevents
from node_agent.readings import NodeReading
from node_agent.settings import Settings
from node_agent.sockets import Sockets
from node_agent.watch import RESCAN

_log = logging.getLogger(__name__)


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
    if settings.simulate is not None:
        simulated.refuse_beside_a_real_driver(settings.host_root, nics=settings.nics)
        profile = simulated.load(settings.simulate)
        state = Sockets.of(PurePosixPath(settings.kubelet_root), settings.gpu_driver_name, settings.pod_uid).state
        yield _Simulated(simulated.SimulatedNode(profile, settings.node_name, Path(state) / "dev"))
        return
    with ExitStack() as stack:
        hardware = Hardware(settings.host_root, NvmlClient(_library(settings)), with_nics=settings.nics)
        stack.callback(hardware.close)
        uevents: Uevents | None = None
        try:
            uevents = stack.enter_context(Uevents())
        except HostError as problem:
            _log.warning("devices that come and go are seen late", extra={"problem": str(problem), "after": RESCAN})
        yield _Real(hardware, uevents)


class _Simulated:
    """Nothing ever comes or goes."""

    def __init__(self, node: simulated.SimulatedNode) -> None:
        self._node = node

    async def read(self) -> NodeReading:
        return await asyncio.to_thread(self._node.read)

    async def news(self) -> None:
        await asyncio.Event().wait()


class _Real:
    def __init__(self, hardware: Hardware, uevents: Uevents | None) -> None:
        self._hardware = hardware
        self._uevents = uevents

    async def read(self) -> NodeReading:
        return await asyncio.to_thread(self._hardware.read)

    async def news(self) -> None:
        if self._uevents is None:
            await asyncio.Event().wait()
            return
        await self._uevents.wait()
        self._hardware.look_closely()


def _library(settings: Settings) -> Callable[[], str | None]:
    """Finds NVML each time: a driver that comes in a container is not there from the start."""

    def find() -> str | None:
        if settings.nvml_library is not None:
            return str(settings.nvml_library)
        if settings.driver_root == Path("/"):
            return None
        found = driver_files.library(settings.driver_root)
        if found is None:
            where = f"{driver_files.NVML} is not in any library folder below {settings.driver_root}"
            raise NvmlError(f"{where}; --driver-root must be the root of the NVIDIA driver's files", code=12)
        return str(found)

    return find
