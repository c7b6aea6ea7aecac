"""The controller put together: who talks to whom, and how it starts and ends.

    kopf watch -> keeper -> DeviceClasses          (on the replica that holds the Lease)
    Lease <-> leader

A lost lease, an ended task or an unforeseen error ends the process with an error: the pod is started again, from nothing.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from controller.adapters import operator
from controller.adapters.kube import KubeClasses, KubeEvents, KubeLease
from controller.adapters.metrics import Metrics
from controller.device_classes import ForeignClass
from controller.keeper import Keeper
from controller.leader import Leader
from controller.settings import PROGRAM, Settings
from gpu_dra.errors import Unavailable
from gpu_dra.http import HttpServer
from gpu_dra.kube import connection as connections
from gpu_dra.kube.client import ApiError, KubeClient
from gpu_dra.kube.connection import Connection

_log = logging.getLogger(__name__)

_DISCOVERY_RETRY: Final = 2.0


class Status:
    """What /readyz says."""

    def __init__(self) -> None:
        self.waiting_for = "the API server has not answered yet"
        self.keeper: Keeper | None = None

    def answered(self) -> None:
        """The API server answers; a replica that stands by is ready."""
        self.waiting_for = ""

    def troubles(self) -> list[str]:
        trouble = self.keeper.trouble if self.keeper is not None else self.waiting_for
        return [trouble] if trouble else []


class Reporting:
    """Report over metrics and events."""

    def __init__(self, metrics: Metrics, events: KubeEvents) -> None:
        self._metrics = metrics
        self._events = events

    def written(self, action: str) -> None:
        self._metrics.written(action)

    def state(self, *, kept: int, foreign: int, problems: int) -> None:
        self._metrics.state(kept=kept, foreign=foreign, problems=problems)

    async def left_alone(self, foreign: ForeignClass) -> None:
        await self._events.left_alone(foreign)


@dataclass(frozen=True, slots=True)
class App:
    """The parts that live from start to end."""

    settings: Settings
    connection: Connection
    kube: KubeClient
    status: Status
    metrics: Metrics
    stop: asyncio.Event

    async def run(self) -> None:
        """Return when `stop` is set; raise where the work cannot go on."""
        if not self.settings.leader_elect:
            await _first(self.stop.wait(), self._work(lambda: None))
            return
        store = KubeLease(self.kube, self.settings.release.namespace, self.settings.lease_name)
        leader = Leader(store, self.settings.identity, on_looked=self.status.answered)
        try:
            await _first(self.stop.wait(), leader.acquire())
            if not self.stop.is_set():
                await _first(self.stop.wait(), leader.keep(), self._work(leader.check))
        finally:
            await leader.release()

    async def _work(self, may_write: Callable[[], None]) -> None:
        """Keep the classes; ends when kopf does, which is told to stop together with us."""
        version = await self._served_version()
        store = KubeClasses(self.kube, version, self.settings.owner_cluster_role)
        report = Reporting(self.metrics, KubeEvents(self.kube, version, self.settings.identity))
        keeper = Keeper(self.settings.classes, self.settings.release, store, report, may_write=may_write)
        self.status.keeper = keeper
        self.metrics.leading(yes=True)
        try:
            await _first(
                keeper.run(), operator.watch(self.connection, version, keeper.notice, on_started=self.take_signals)
            )
        finally:
            self.metrics.leading(yes=False)

    async def _served_version(self) -> str:
        said = ""
        while True:
            try:
                return await self.kube.resource_version()
            except (Unavailable, ApiError) as problem:
                self.status.waiting_for = str(problem)
                if str(problem) != said:
                    said = str(problem)
                    _log.warning("cannot start, trying again", extra={"problem": said})
            await asyncio.sleep(_DISCOVERY_RETRY)

    def take_signals(self) -> None:
        """Let SIGTERM and SIGINT set `stop`. kopf takes them for itself when it starts, and would end more slowly."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop.set)


async def run(settings: Settings) -> None:
    """Work until SIGTERM or SIGINT; raises GpuDraError where it cannot go on."""
    where = connections.from_kubeconfig(settings.kubeconfig) if settings.kubeconfig else connections.in_cluster()
    status, metrics = Status(), Metrics()
    async with (
        # That the event loop comes round to answer is all of /healthz: whatever else breaks ends the process.
        HttpServer(settings.http_address, healthy=list, ready=status.troubles, metrics=metrics.read) as server,
        KubeClient(where, user_agent=PROGRAM) as kube,
    ):
        app = App(settings, where, kube, status, metrics, asyncio.Event())
        app.take_signals()
        _log.info("started", extra={"port": server.port, "classes": len(settings.classes), "server": where.server})
        await app.run()
    _log.info("stopped")


async def _first(*coroutines: Coroutine[Any, Any, object]) -> None:
    """Run all until one ends, then stop the others; raises what the one raised."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if task in done:
            task.result()
