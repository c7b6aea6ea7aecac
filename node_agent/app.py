"""The agent put together: readings -> two drivers, each published and served to the kubelet. The only place that joins them."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import gpu_dra
from gpu_dra import names
from gpu_dra.errors import HostError
from gpu_dra.http import HttpServer
from gpu_dra.kube import connection
from gpu_dra.kube.client import KubeClient
from node_agent import cdi, inventory
from node_agent.adapters import simulated
from node_agent.adapters.files import ClaimFiles, Sweep
from node_agent.adapters.kube import ApiVersion, KubeClaims, KubeSlices
from node_agent.adapters.kubelet import KubeletPlugin
from node_agent.adapters.metrics import CONTENT_TYPE, Metrics
from node_agent.inventory import Inventory
from node_agent.prepare import Node, Preparer
from node_agent.publish import Publisher
from node_agent.readings import NodeReading
from node_agent.settings import Settings, shown
from node_agent.slices import WantedPool
from node_agent.sockets import Sockets

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Driver:
    """One driver of the agent with all its parts."""

    name: str
    inventory: Inventory
    files: ClaimFiles
    sweep: Sweep
    preparer: Preparer
    plugin: KubeletPlugin
    publisher: Publisher
    published: asyncio.Event


async def run(settings: Settings, *, stop: asyncio.Event | None = None) -> None:
    """Serve until SIGTERM or SIGINT (or `stop`). InputError or HostError where it cannot start."""
    _log.info("starting", extra={"version": gpu_dra.__version__, **shown(settings)})
    stopping = stop or _on_signal()
    reading = await asyncio.to_thread(read_node, settings)
    if reading.reason:
        _log.warning("no devices", extra={"reason": reading.reason})
    metrics = Metrics(gpu_dra.__version__)
    async with AsyncExitStack() as stack:
        kube = await stack.enter_async_context(
            KubeClient(_connection(settings), user_agent=f"gpu-dra/{gpu_dra.__version__}")
        )
        version = ApiVersion(kube)
        drivers = [
            await asyncio.to_thread(_driver, settings, name, kind, found, env, kube, version, metrics)
            for name, kind, found, env in _kinds(settings, reading)
        ]
        await stack.enter_async_context(
            HttpServer(
                settings.http_address,
                healthy=list,
                ready=lambda: _not_ready(drivers),
                metrics=lambda: _metrics(metrics, drivers),
            )
        )
        for driver in drivers:
            stack.push_async_callback(driver.plugin.stop)
            await _start(driver)
        async with asyncio.TaskGroup() as tasks:
            work = [tasks.create_task(run()) for driver in drivers for run in (driver.publisher.run, driver.plugin.run)]
            await stopping.wait()
            _log.info("stopping")
            # The slices stay: kubelet takes them away by itself if no agent comes back.
            for task in work:
                task.cancel()
    _log.info("stopped")


def read_node(settings: Settings) -> NodeReading:
    """What this node has."""
    if settings.simulate is None:
        return NodeReading(
            reason="this version reads no real hardware yet; start it with --simulate PROFILE (chart value"
            " nodeAgent.simulate.profile)"
        )
    simulated.refuse_beside_a_real_driver(settings.host_root, nics=settings.nics)
    profile = simulated.load(settings.simulate)
    dev_root = (
        Path(Sockets.of(PurePosixPath(settings.kubelet_root), settings.gpu_driver_name, settings.pod_uid).state) / "dev"
    )
    return simulated.SimulatedNode(profile, settings.node_name, dev_root).read()


def _kinds(settings: Settings, reading: NodeReading) -> Iterable[tuple[str, str, Inventory, tuple[str, ...]]]:
    yield settings.gpu_driver_name, "gpu", inventory.gpus(reading), cdi.GPU_ENV
    if settings.nics:
        yield names.NIC_DRIVER, "nic", inventory.nics(reading), ()


def _driver(
    settings: Settings,
    name: str,
    kind: str,
    found: Inventory,
    env: tuple[str, ...],
    kube: KubeClient,
    version: ApiVersion,
    metrics: Metrics,
) -> Driver:
    for problem in found.problems:
        _log.warning("a device cannot be published", extra={"driver": name, "problem": problem})
    sockets = Sockets.of(PurePosixPath(settings.kubelet_root), name, settings.pod_uid)
    pool = names.pool_name(settings.node_name, kind)
    files = ClaimFiles(name, Path(sockets.state), settings.cdi_root)
    sweep = files.open()
    node = Node(name, pool, _boot_id(settings.host_root), env)
    preparer = Preparer(node, lambda: found, KubeClaims(kube, version), files)
    wanted = WantedPool(name, settings.node_name, pool, found.devices)
    published = asyncio.Event()

    def on_published() -> None:
        published.set()
        metrics.published(name)

    def observe(operation: str, seconds: float, ok: bool) -> None:  # noqa: FBT001
        metrics.claim(name, operation, seconds, ok=ok)

    store = KubeSlices(kube, version, name, settings.node_name)
    plugin = KubeletPlugin(name, sockets, preparer, observe=observe)
    return Driver(
        name,
        found,
        files,
        sweep,
        preparer,
        plugin,
        Publisher(lambda: wanted, store, on_published=on_published, superseded=plugin.superseded),
        published,
    )


async def _start(driver: Driver) -> None:
    for text in driver.sweep.set_aside:
        _log.error("a state file cannot be read; its claim must be prepared again", extra={"problem": text})
    for uid in driver.sweep.removed:
        _log.warning("removed the CDI file of a claim that is not prepared", extra={"driver": driver.name, "uid": uid})
    for problem in await driver.preparer.repair(driver.sweep.claims):
        _log.error("a prepared claim cannot be repaired", extra={"driver": driver.name, "problem": problem})
    await driver.plugin.start()
    kept = len(driver.sweep.claims)
    _log.info("serving", extra={"driver": driver.name, "devices": len(driver.inventory.items), "claims": kept})


def _not_ready(drivers: Iterable[Driver]) -> list[str]:
    problems: list[str] = []
    for driver in drivers:
        if not driver.published.is_set():
            problems.append(f"{driver.name}: its ResourceSlices are not published yet")
        if not driver.plugin.registered:
            problems.append(f"{driver.name}: the kubelet has not registered it yet")
    return problems


def _metrics(metrics: Metrics, drivers: Iterable[Driver]) -> tuple[bytes, str]:
    for driver in drivers:
        metrics.state(
            driver.name,
            devices=len(driver.inventory.items),
            prepared=driver.files.count(),
            registered=driver.plugin.registered,
            set_aside=len(driver.sweep.set_aside),
        )
    return metrics.text(), CONTENT_TYPE


def _connection(settings: Settings) -> connection.Connection:
    if settings.kubeconfig is not None:
        return connection.from_kubeconfig(settings.kubeconfig)
    return connection.in_cluster(settings.service_account)


def _boot_id(host_root: Path) -> str:
    path = host_root / "proc/sys/kernel/random/boot_id"
    try:
        return path.read_text().strip()
    except OSError as problem:
        raise HostError(f"cannot read {path}: {problem.strerror}") from problem


def _on_signal() -> asyncio.Event:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    return stopping
