"""What the NVIDIA kernel driver says without NVML: its version, its device numbers, and its GPUs, below /proc."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gpu_dra.pci import PciAddress
from node_agent.adapters import sysfs
from node_agent.readings import DeviceNode

_CONTROL_MINOR: Final = 255
_MODESET_MINOR: Final = 254
_GPU_MAJOR: Final = 195
"""The frontend's, fixed by the kernel's list of devices; used where /proc/devices cannot be read."""


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver as loaded. `minors` are the minor numbers of its GPUs."""

    version: str
    majors: dict[str, int]
    minors: dict[PciAddress, int] = field(default_factory=dict)
    capabilities: dict[str, int] = field(default_factory=dict)
    """Minor numbers of nvidia-caps devices by the path of what they allow: `gpu0/gi1/access`."""
    instances: tuple[str, ...] = ()
    """The MIG instances that exist: `gpu0/mig/gi1/ci0`."""

    def gpu_node(self, minor: int) -> DeviceNode:
        return DeviceNode(f"/dev/nvidia{minor}", self._gpu_major, minor)

    def common_nodes(self) -> tuple[DeviceNode, ...]:
        """The nodes that go with any GPU; those of a module that is not loaded are not there."""
        nodes = [DeviceNode("/dev/nvidiactl", self._gpu_major, _CONTROL_MINOR)]
        if "nvidia-modeset" in self.majors:
            nodes.append(DeviceNode("/dev/nvidia-modeset", self.majors["nvidia-modeset"], _MODESET_MINOR))
        if "nvidia-uvm" in self.majors:
            uvm = self.majors["nvidia-uvm"]
            nodes += [DeviceNode("/dev/nvidia-uvm", uvm, 0), DeviceNode("/dev/nvidia-uvm-tools", uvm, 1)]
        return tuple(nodes)

    def mig_nodes(self, minor: int, gpu_instance: int, compute_instance: int) -> tuple[DeviceNode, ...]:
        """What opening a MIG device takes beyond its GPU's node: the access to both instances."""
        major = self.majors.get("nvidia-caps")
        instance = f"gpu{minor}/gi{gpu_instance}"
        wanted = (f"{instance}/access", f"{instance}/ci{compute_instance}/access")
        if major is None or any(path not in self.capabilities for path in wanted):
            return ()
        numbers = [self.capabilities[path] for path in wanted]
        return tuple(DeviceNode(f"/dev/nvidia-caps/nvidia-cap{number}", major, number) for number in numbers)

    @property
    def _gpu_major(self) -> int:
        for name in ("nvidia", "nvidia-frontend"):
            if name in self.majors:
                return self.majors[name]
        return _GPU_MAJOR


def driver(root: Path) -> Driver | None:
    """The driver below a root's /proc; None where it is not loaded."""
    folder = root / "proc/driver/nvidia"
    said = sysfs.text(folder / "version")
    if said is None:
        return None
    # The open module's line says for which machine it is before it says its version.
    version = re.search(r"Kernel Module.*?\s(\d+(?:\.\d+)+)", said)
    minors: dict[PciAddress, int] = {}
    for name in sysfs.names(folder / "gpus"):
        minor = re.search(
            r"^Device Minor:\s*(\d+)", sysfs.text(folder / "gpus" / name / "information") or "", re.MULTILINE
        )
        if minor is not None:
            try:
                minors[PciAddress.parse(name)] = int(minor[1])
            except ValueError:
                continue
    return Driver(
        version[1] if version else "", _majors(root), minors, _capabilities(root), _instances(folder / "capabilities")
    )


def _majors(root: Path) -> dict[str, int]:
    """The character devices of /proc/devices by name."""
    characters, _, _ = (sysfs.text(root / "proc/devices") or "").partition("Block devices:")
    return {name: int(major) for major, name in re.findall(r"^\s*(\d+) (\S+)$", characters, re.MULTILINE)}


def _capabilities(root: Path) -> dict[str, int]:
    lines = (sysfs.text(root / "proc/driver/nvidia-caps/mig-minors") or "").splitlines()
    pairs = (line.split() for line in lines)
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _instances(folder: Path) -> tuple[str, ...]:
    return tuple(
        f"{gpu}/mig/{instance}/{compute}"
        for gpu in sysfs.names(folder)
        for instance in sysfs.names(folder / gpu / "mig")
        for compute in ("", *sysfs.names(folder / gpu / "mig" / instance))
        if instance.startswith("gi")
    )
