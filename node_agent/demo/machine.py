"""A simulated node with the agent on it: its real parts, put together on folders that are thrown away afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from gpu_dra import device_class, names
from gpu_dra.device_class import DeviceClass
from gpu_dra.errors import HostError
from gpu_dra.names import GPU_DRIVER, NIC_DRIVER
from gpu_dra.resource_slice import ResourceSlice
from node_agent import cdi, inventory
from node_agent.adapters import simulated
from node_agent.adapters.files import ClaimFiles
from node_agent.adapters.kubelet import KubeletPlugin
from node_agent.demo import kubelet
from node_agent.demo.cluster import Claims, Slices
from node_agent.demo.kubelet import Plugin
from node_agent.inventory import Inventory
from node_agent.prepare import Node, Preparer
from node_agent.publish import Publisher
from node_agent.readings import NodeReading
from node_agent.slices import WantedPool
from node_agent.sockets import Sockets

NODE: Final = "node-a"
CLASSES: Final = (
    DeviceClass("gpu.nvidia.com", (device_class.selector(GPU_DRIVER, "gpu"),), "nvidia.com/gpu"),
    DeviceClass("mig.nvidia.com", (device_class.selector(GPU_DRIVER, "mig"),)),
    DeviceClass("nic.gpu-dra.io", (device_class.selector(NIC_DRIVER, "nic"),)),
)
"""The chart's default classes."""


@dataclass(frozen=True, slots=True)
class Driver:
    """One driver of the agent, published and registered."""

    inventory: Inventory
    slices: Slices
    plugin: Plugin
    state: Path
    cdi_root: Path

    def cdi_file(self, uid: names.ClaimUid) -> Path:
        return self.cdi_root / cdi.file_name(self.plugin.driver, uid)

    def leftovers(self) -> dict[str, int]:
        """How many files of each kind there are that belong to some claim."""
        return {
            "CDI files": len(list(self.cdi_root.glob(f"{cdi.file_prefix(self.plugin.driver)}*"))),
            "state files": len(list((self.state / "claims").iterdir())),
            "reservations": len(list((self.state / "held").iterdir())),
        }


@dataclass(frozen=True, slots=True)
class Machine:
    """The node and all that the demo plays around it."""

    reading: NodeReading
    claims: Claims
    drivers: dict[str, Driver]

    @property
    def published(self) -> list[ResourceSlice]:
        return [item for driver in self.drivers.values() for item in driver.slices.stored.values()]


@asynccontextmanager
async def start(profile: str, folder: Path) -> AsyncGenerator[Machine, None]:
    """The agent of a simulated node, running: slices published, both drivers registered with the kubelet."""
    reading = simulated.SimulatedNode(simulated.load(profile), NODE, None).read()
    claims = Claims(CLASSES)
    async with AsyncExitStack() as stack:
        drivers = {
            name: await stack.enter_async_context(_driver(name, kind, found, env, claims, folder))
            for name, kind, found, env in _kinds(reading)
        }
        yield Machine(reading, claims, drivers)


def _kinds(reading: NodeReading) -> Iterable[tuple[str, str, Inventory, tuple[str, ...]]]:
    yield GPU_DRIVER, "gpu", inventory.gpus(reading), cdi.GPU_ENV
    yield NIC_DRIVER, "nic", inventory.nics(reading), ()


@asynccontextmanager
async def _driver(
    name: str, kind: str, found: Inventory, env: tuple[str, ...], claims: Claims, folder: Path
) -> AsyncGenerator[Driver, None]:
    try:
        sockets = Sockets.of(PurePosixPath(folder / "kubelet"), name, "demo")
    except ValueError as problem:
        raise HostError(f"the temporary folder cannot be used: {problem}; set TMPDIR to a shorter path") from problem
    cdi_root, state = folder / "cdi", Path(sockets.state)
    files = ClaimFiles(name, state, cdi_root)
    await asyncio.to_thread(files.open)
    pool = names.pool_name(NODE, kind)
    preparer = Preparer(Node(name, pool, "demo", env), lambda: found, claims, files)
    slices = Slices()
    await Publisher(lambda: WantedPool(name, NODE, pool, found.devices), slices).reconcile()
    plugin = KubeletPlugin(name, sockets, preparer)
    await plugin.start()
    try:
        async with kubelet.register(Path(sockets.registration)) as registered:
            yield Driver(found, slices, registered, state, cdi_root)
    finally:
        await plugin.stop()
