"""One driver of the agent with all its parts: its devices, its claims, its slices, its side of the kubelet."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final

from gpu_dra import names
from gpu_dra.errors import HostError
from gpu_dra.kube.client import KubeClient
from node_agent.adapters.files import ClaimFiles
from node_agent.adapters.kube import ApiVersion, KubeClaims, KubeSlices
from node_agent.adapters.kubelet import KubeletPlugin
from node_agent.adapters.metrics import Metrics
from node_agent.holdings import Holdings
from node_agent.inventory import Inventory
from node_agent.offer import Offer
from node_agent.prepare import Node, Preparer
from node_agent.publish import Publisher
from node_agent.readings import NodeReading
from node_agent.settings import Settings
from node_agent.slices import WantedPool
from node_agent.sockets import Sockets

_log = logging.getLogger(__name__)


_PATIENCE: Final = 3.0
"""Seconds that the kubelet waits for the hardware to be read; it is served then, whatever hangs."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What makes one driver another than the other. `env` goes into each container."""

    driver: str
    pool: str
    found: Callable[[NodeReading], Inventory]
    env: tuple[str, ...]


class Driver:
    """Made in a thread (it opens its files); everything else belongs to the event loop `loop`."""

    def __init__(
        self,
        kind: Kind,
        settings: Settings,
        kube: KubeClient,
        version: ApiVersion,
        metrics: Metrics,
        loop: asyncio.AbstractEventLoop,
        claims_changed: Callable[[], None],
    ) -> None:
        self.name = kind.driver
        self._kind = kind
        self._metrics = metrics
        self._known = asyncio.Event()
        self._published = False
        sockets = Sockets.of(PurePosixPath(settings.kubelet_root), self.name, settings.pod_uid)
        pool = names.pool_name(settings.node_name, kind.pool)
        files = ClaimFiles(self.name, Path(sockets.state), settings.cdi_root)
        self._sweep = files.open()

        def changed() -> None:
            loop.call_soon_threadsafe(self.offer.claims_changed)
            loop.call_soon_threadsafe(claims_changed)

        self.holdings = Holdings(files, self._sweep.claims, changed)
        self.offer = Offer(
            WantedPool(self.name, settings.node_name, pool, ()),
            Inventory(MappingProxyType({}), reason="the hardware is still being read"),
            lambda: self.holdings.held,
            lambda: self._publisher.wake(),  # noqa: PLW0108 - the publisher is made below
        )
        node = Node(self.name, pool, _boot_id(settings.host_root), kind.env)
        self._preparer = Preparer(node, lambda: self.offer.inventory, KubeClaims(kube, version), self.holdings)
        self._plugin = KubeletPlugin(self.name, sockets, self._preparer, observe=self._observe)
        self._publisher = Publisher(
            lambda: self.offer.wanted,
            KubeSlices(kube, version, self.name, settings.node_name),
            on_published=self._on_published,
            superseded=self._plugin.superseded,
        )

    async def run(self) -> None:
        """Serve the kubelet, repair what a crash or a reboot left, and publish, until cancelled."""
        for text in self._sweep.set_aside:
            _log.error("a state file cannot be read; its claim must be prepared again", extra={"problem": text})
        for uid in self._sweep.removed:
            _log.warning(
                "removed the CDI file of a claim that is not prepared", extra={"driver": self.name, "uid": uid}
            )
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._known.wait(), _PATIENCE)
        await self._plugin.start()
        counts = {"devices": len(self.offer.inventory.items), "claims": len(self._sweep.claims)}
        _log.info("serving", extra={"driver": self.name, **counts})
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._plugin.run())
            await self._known.wait()
            for problem in await self._preparer.repair(self.holdings.claims):
                _log.error("a prepared claim cannot be repaired", extra={"driver": self.name, "problem": problem})
            tasks.create_task(self._publisher.run())

    async def stop(self) -> None:
        """Leave the kubelet; the slices stay: kubelet takes them away by itself if no agent comes back."""
        await self._plugin.stop()

    def replace(self, reading: NodeReading) -> None:
        """The hardware is known now, or is another one."""
        found = self._kind.found(reading)
        if found.problems != self.offer.inventory.problems:
            self._tell_problems(found)
        self.offer.replace(found)
        self._known.set()

    def not_ready(self) -> list[str]:
        """What is still missing, in sentences."""
        problems: list[str] = []
        if not self._known.is_set():
            problems.append(f"{self.name}: the hardware is still being read")
        elif not self._published:
            problems.append(f"{self.name}: its ResourceSlices are not published yet")
        if not self._plugin.registered:
            problems.append(f"{self.name}: the kubelet has not registered it yet")
        return problems

    def tell_metrics(self) -> None:
        """Bring the gauges up to date."""
        self._metrics.state(
            self.name,
            devices=len(self.offer.inventory.items),
            prepared=len(self.holdings.claims),
            registered=self._plugin.registered,
            set_aside=len(self._sweep.set_aside),
        )

    def _tell_problems(self, found: Inventory) -> None:
        for problem in found.problems:
            _log.warning("a device cannot be published", extra={"driver": self.name, "problem": problem})

    def _on_published(self) -> None:
        self._published = True
        self._metrics.published(self.name)

    def _observe(self, operation: str, seconds: float, ok: bool) -> None:  # noqa: FBT001 - as KubeletPlugin calls it
        self._metrics.claim(self.name, operation, seconds, ok=ok)


def _boot_id(host_root: Path) -> str:
    path = host_root / "proc/sys/kernel/random/boot_id"
    try:
        return path.read_text().strip()
    except OSError as problem:
        raise HostError(f"cannot read {path}: {problem.strerror}") from problem
