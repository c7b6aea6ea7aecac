"""The agent put together: what the machine has -> two drivers, each published and served to the kubelet.

The kubelet is served before the hardware is known: a driver that hangs in NVML must not keep pods from ending.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import gpu_dra
from gpu_dra import names
from gpu_dra.errors import GpuDraError
from gpu_dra.gpu_node import GpuNode
from gpu_dra.http import HttpServer
from gpu_dra.kube import connection
from gpu_dra.kube.client import KubeClient
from node_agent import cdi, inventory, report
from node_agent.adapters.kube import ApiVersion, KubeGpuNodes
from node_agent.adapters.metrics import CONTENT_TYPE, Metrics
from node_agent.driver import Driver, Kind
from node_agent.inventory import Inventory
from node_agent.machine import machine_of
from node_agent.readings import NodeReading
from node_agent.reporter import Reporter
from node_agent.settings import Settings, shown
from node_agent.watch import Watch

_log = logging.getLogger(__name__)


async def run(settings: Settings, *, stop: asyncio.Event | None = None) -> None:
    """Serve until SIGTERM or SIGINT (or `stop`). InputError or HostError where it cannot start."""
    _log.info("starting", extra={"version": gpu_dra.__version__, **shown(settings)})
    stopping = stop or _on_signal()
    metrics = Metrics(gpu_dra.__version__)
    async with AsyncExitStack() as stack:
        kube = await stack.enter_async_context(
            KubeClient(_connection(settings), user_agent=f"gpu-dra/{gpu_dra.__version__}")
        )
        # A thread may still read the hardware when the agent ends: closing the machine makes it return.
        machine = stack.enter_context(machine_of(settings))
        version = ApiVersion(kube)
        loop = asyncio.get_running_loop()
        latest: list[NodeReading] = []
        drivers: list[Driver] = []
        reporter = Reporter(lambda: _described(settings.node_name, latest, drivers), KubeGpuNodes(kube))
        drivers += [
            await asyncio.to_thread(Driver, kind, settings, kube, version, metrics, loop, reporter.wake)
            for kind in _kinds(settings)
        ]

        def changed(reading: NodeReading) -> None:
            latest[:] = [reading]
            for driver in drivers:
                driver.replace(reading)
            reporter.wake()

        await stack.enter_async_context(
            HttpServer(
                settings.http_address,
                healthy=list,
                ready=lambda: [problem for driver in drivers for problem in driver.not_ready()],
                metrics=lambda: _metrics(metrics, drivers),
            )
        )
        for driver in drivers:
            stack.push_async_callback(driver.stop)
        watch = Watch(machine.read, machine.news, changed)
        await _until(stopping, [watch.run(), reporter.run(), *(driver.run() for driver in drivers)])
    _log.info("stopped")


async def _until(stopping: asyncio.Event, work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run everything until `stopping` is set; the first known error of any of it is raised as it is."""
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(each) for each in work]
            await stopping.wait()
            _log.info("stopping")
            for task in running:
                task.cancel()
    except BaseExceptionGroup as group:
        known = next((each for each in _leaves(group) if isinstance(each, GpuDraError)), None)
        if known is None:
            raise
        raise known from group


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each


def _described(name: str, latest: Sequence[NodeReading], drivers: Sequence[Driver]) -> GpuNode | None:
    if not latest:
        return None
    gpus, *others = (driver.offer.inventory for driver in drivers)
    nics = others[0] if others else Inventory({})
    claims = [claim for driver in drivers for claim in driver.holdings.claims]
    return report.gpu_node(name, latest[0], gpus, nics, claims)


def _kinds(settings: Settings) -> Iterator[Kind]:
    yield Kind(settings.gpu_driver_name, "gpu", inventory.gpus, cdi.GPU_ENV)
    if settings.nics:
        yield Kind(names.NIC_DRIVER, "nic", partial(inventory.nics, without_rdma=settings.nics_without_rdma), ())


def _metrics(metrics: Metrics, drivers: Sequence[Driver]) -> tuple[bytes, str]:
    for driver in drivers:
        driver.tell_metrics()
    return metrics.text(), CONTENT_TYPE


def _connection(settings: Settings) -> connection.Connection:
    if settings.kubeconfig is not None:
        return connection.from_kubeconfig(settings.kubeconfig)
    return connection.in_cluster(settings.service_account)


def _on_signal() -> asyncio.Event:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    return stopping
