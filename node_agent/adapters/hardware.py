"""The machine's own hardware: GPUs from NVML, the driver's files and sysfs; NICs from sysfs.

NVML is asked only when the kernel shows something new, when somebody said so, and from time to time: who holds NVML open
keeps the driver from being replaced and a GPU from being reset, and a GPU without persistence mode takes seconds to wake.
Each GPU is asked by itself, so that one that hangs or is lost costs itself. It stays, in doubt, where it was seen before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from gpu_dra.pci import PciAddress
from node_agent import nvlinks
from node_agent.adapters import nics, nvidia_proc, sysfs
from node_agent.adapters.nvml import NvmlError, NvmlSilent
from node_agent.adapters.sysfs import Function
from node_agent.nvlinks import Ends
from node_agent.readings import GpuReading, LinkCounts, MigReading, NodeReading

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)

FULL: Final = 600.0
"""Seconds after which NVML is asked again though the kernel shows nothing new: a link may have gone down."""
BACK_OFF: Final = (60.0, 600.0)
"""Seconds for which a GPU that did not answer is not asked again, at first and at most: each time may cost a process."""
_GPU_IS_LOST: Final = 15


@dataclass(slots=True)
class _Silence:
    until: float
    wait: float
    problem: str


@dataclass(frozen=True, slots=True)
class _Gpus:
    """The GPU part of a reading."""

    gpus: tuple[GpuReading, ...] = ()
    links: LinkCounts = field(default_factory=lambda: MappingProxyType({}))
    driver_version: str | None = None
    cuda_driver_version: str | None = None
    reason: str | None = None
    problems: tuple[str, ...] = ()


class Nvml(Protocol):
    """What of NvmlClient is used here."""

    def open(self) -> dict[str, Any]: ...
    def ask(self, do: str, **request: Any) -> Any: ...
    def release(self) -> None: ...
    def close(self) -> None: ...


class Hardware:
    """Reads one machine below `root`. Blocks; to be used from one thread at a time. `close` ends a read that hangs."""

    def __init__(self, root: Path, nvml: Nvml, *, with_nics: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._nvml = nvml
        self._with_nics = with_nics
        self._clock = clock
        self._seen: dict[PciAddress, GpuReading] = {}
        self._links: LinkCounts = {}
        self._silences: dict[PciAddress | None, _Silence] = {}
        self._last: tuple[object, float, _Gpus] | None = None

    def close(self) -> None:
        """From any thread."""
        self._nvml.close()

    def look_closely(self) -> None:
        """Something happened: ask NVML at the next read, whatever the files say."""
        self._last = None

    def read(self) -> NodeReading:
        """What there is now. Never an error: what cannot be read is left out with a sentence, or kept in doubt."""
        functions = sysfs.functions(self._root)
        driver = nvidia_proc.driver(self._root)
        found = self._gpus({function.pci: function for function in functions if function.is_gpu}, driver)
        net, net_problems = nics.nics(self._root, functions) if self._with_nics else ((), ())
        return NodeReading(
            gpus=found.gpus,
            nics=net,
            links=MappingProxyType(dict(found.links)),
            gpu_common_nodes=driver.common_nodes() if driver and found.gpus else (),
            nic_common_nodes=nics.common_nodes(self._root) if net else (),
            driver_version=found.driver_version,
            cuda_driver_version=found.cuda_driver_version,
            numa_nodes=sysfs.numa_nodes(self._root),
            reason=found.reason,
            problems=found.problems,
            nic_problems=net_problems,
        )

    def _gpus(self, functions: Mapping[PciAddress, Function], driver: nvidia_proc.Driver | None) -> _Gpus:
        # A function that is off the bus takes what was known of it along: another card may come to its place.
        there = {*functions, *(driver.minors if driver else ())}
        self._seen = {pci: gpu for pci, gpu in self._seen.items() if pci in there}
        now = self._clock()
        shows = (functions, driver)
        if self._last is not None and self._last[0] == shows and now < self._last[1]:
            return self._last[2]
        if not there:
            return self._remember(shows, now + FULL, _Gpus(reason="this node has no NVIDIA GPU"))
        if driver is None:
            self._silences.clear()
            file = self._root / "proc/driver/nvidia/version"
            reason = f"the NVIDIA kernel driver is not loaded ({file} is not there), and the node has {_count(there)}"
            return self._remember(shows, now + FULL, _Gpus(reason=reason))
        found = self._ask(functions, driver)
        again = min((silence.until for silence in self._silences.values()), default=now + FULL)
        return self._remember(shows, min(again, now + FULL), found)

    def _remember(self, shows: object, until: float, found: _Gpus) -> _Gpus:
        self._last = (shows, until, found)
        return found

    def _ask(self, functions: Mapping[PciAddress, Function], driver: nvidia_proc.Driver) -> _Gpus:
        try:
            opened = self._speak(None, self._nvml.open)
        except NvmlError as problem:
            self._seen.clear()
            return _Gpus(driver_version=driver.version or None, reason=_hint(problem))
        except NvmlSilent as problem:
            kept = tuple(replace(gpu, doubt="silent") for gpu in self._seen.values())
            reason = None if kept else f"NVML cannot be asked: {problem}"
            return _Gpus(kept, self._links, driver.version or None, reason=reason)
        try:
            return self._each(functions, driver, opened)
        finally:
            self._nvml.release()

    def _each(
        self, functions: Mapping[PciAddress, Function], driver: nvidia_proc.Driver, opened: Mapping[str, Any]
    ) -> _Gpus:
        gpus: dict[PciAddress, GpuReading] = {}
        ends: dict[PciAddress, Ends] = {}
        problems: list[str] = []
        # Those that were silent come last: whoever hangs now has not kept the others waiting.
        for pci in sorted({*functions, *driver.minors}, key=lambda pci: (pci in self._silences, pci)):
            unbound = _unbound(pci, functions.get(pci), driver)
            if unbound is not None:
                problems.append(f"GPU {pci} is left out: {unbound}")
                continue
            try:
                gpus[pci] = self._speak(pci, self._gpu, pci, functions.get(pci), driver)
                ends[pci] = self._speak(pci, self._ends, pci)
            except (NvmlError, NvmlSilent) as problem:
                gpus.pop(pci, None)
                if (known := self._seen.get(pci)) is None:
                    problems.append(f"GPU {pci} is left out: {problem}")
                else:
                    gpus[pci] = replace(known, doubt=_doubt(problem))
        for pci, end in list(ends.items()):
            if end.switched:
                others = [other for other in ends if other != pci and ends[other].switched]
                try:
                    reached = self._speak(pci, self._reached, pci, others)
                except (NvmlError, NvmlSilent) as problem:
                    del ends[pci]
                    gpus[pci] = replace(self._seen.get(pci, gpus[pci]), doubt=_doubt(problem))
                else:
                    ends[pci] = replace(end, reaches=reached)
        for pci, gpu in gpus.items():
            if gpu.doubt is None:
                self._silences.pop(pci, None)
        self._silences.pop(None, None)
        doubtful = [gpu.uuid for gpu in gpus.values() if gpu.doubt is not None]
        links = {
            **nvlinks.counted(ends, {pci: gpu.uuid for pci, gpu in gpus.items()}),
            **nvlinks.kept(self._links, doubtful),
        }
        self._seen |= {pci: gpu for pci, gpu in gpus.items() if gpu.doubt is None}
        self._links = links
        return _Gpus(
            tuple(gpus[pci] for pci in sorted(gpus)),
            links,
            opened.get("driver_version") or driver.version or None,
            opened.get("cuda_driver_version"),
            problems=tuple(problems),
        )

    def _gpu(self, pci: PciAddress, function: Function | None, driver: nvidia_proc.Driver) -> GpuReading:
        said = self._nvml.ask("gpu", pci=str(pci))
        migs = self._nvml.ask("migs", pci=str(pci)) if said.get("mig_enabled") else ()
        minor = said["minor"]
        # Not for the GPU itself: it would make the same card another reading on every look.
        said.pop("serial", None)
        return GpuReading(
            **said,
            pci=pci,
            nodes=(driver.gpu_node(minor),),
            pcie_root=function.root if function else None,
            pcie_path=function.path if function else (),
            numa_node=function.numa_node if function else None,
            migs=tuple(
                MigReading(**mig, nodes=driver.mig_nodes(minor, mig["gpu_instance"], mig["compute_instance"]))
                for mig in migs
            ),
        )

    def _ends(self, pci: PciAddress) -> Ends:
        links = self._nvml.ask("links", pci=str(pci))
        peers = tuple(PciAddress.parse(link["pci"]) for link in links if link["peer"] == "gpu" and "pci" in link)
        return Ends(peers, sum(link["peer"] == "switch" for link in links))

    def _reached(self, pci: PciAddress, others: Iterable[PciAddress]) -> frozenset[PciAddress]:
        answer = self._nvml.ask("joined", pci=str(pci), others=[str(other) for other in others])
        return frozenset(PciAddress.parse(other) for other in answer)

    def _speak(self, pci: PciAddress | None, ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask about one GPU (None: about the driver), unless it was silent a short while ago."""
        silence = self._silences.get(pci)
        if silence is not None and self._clock() < silence.until:
            raise NvmlSilent(silence.problem)
        try:
            answer = ask(*args, **kwargs)
        except NvmlSilent as problem:
            wait = BACK_OFF[0] if silence is None else min(2 * silence.wait, BACK_OFF[1])
            self._silences[pci] = _Silence(self._clock() + wait, wait, str(problem))
            _log.warning("NVML is silent", extra={"gpu": str(pci or "all"), "problem": str(problem), "again_in": wait})
            raise
        except NvmlError:
            self._silences.pop(pci, None)
            raise
        return answer


def _unbound(pci: PciAddress, function: Function | None, driver: nvidia_proc.Driver) -> str | None:
    if function is None or function.driver == "nvidia" or pci in driver.minors:
        return None
    if function.driver is not None:
        return f"it is bound to the driver {function.driver}, not to nvidia"
    return "no driver is bound to it" if driver.minors else None


def _doubt(problem: NvmlError | NvmlSilent) -> str:
    if isinstance(problem, NvmlSilent):
        return "silent"
    return "lost" if problem.code == _GPU_IS_LOST else "failing"


def _hint(problem: NvmlError) -> str:
    hints = {
        12: "give the folder of the driver's files with --driver-root, or the library with --nvml-library",
        18: "the driver's files are of another version than the loaded kernel module; reload it, or reboot the node",
    }
    return f"{problem}; {hints[problem.code]}" if problem.code in hints else str(problem)


def _count(gpus: Iterable[PciAddress]) -> str:
    number = len(list(gpus))
    return "1 NVIDIA GPU" if number == 1 else f"{number} NVIDIA GPUs"
