"""What the kernel says of PCI functions and NUMA nodes, below a root that holds its /sys.

Any file may be missing, unreadable or odd (virtual machines leave out most of them): what a file does not say is None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpu_dra.pci import PciAddress

NVIDIA: Final = 0x10DE
_DISPLAY: Final = (0x0300, 0x0302)
"""VGA and 3D controller; an NVIDIA card's audio, USB and NVSwitch functions have other classes."""

# One step of a device's path: the host bridge, as Kubernetes names it, and a bridge or function below it.
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclass(frozen=True, slots=True)
class Function:
    """One PCI function. `path` are the bridges above it, the root port first; `device_class` are its upper 16 bits."""

    pci: PciAddress
    folder: Path
    vendor: int | None
    device: int | None
    device_class: int | None
    driver: str | None
    root: str | None
    path: tuple[str, ...]
    numa_node: int | None
    iommu_group: int | None

    @property
    def is_gpu(self) -> bool:
        return self.vendor == NVIDIA and self.device_class in _DISPLAY


def functions(root: Path) -> tuple[Function, ...]:
    """All PCI functions, in order of address; none where there is no PCI bus."""
    return tuple(sorted(_functions(root / "sys/bus/pci/devices"), key=lambda function: function.pci))


def numa_nodes(root: Path) -> int:
    """How many NUMA nodes there are; a kernel without NUMA has one."""
    found = [name for name in names(root / "sys/devices/system/node") if re.fullmatch(r"node\d+", name)]
    return max(1, len(found))


def text(path: Path) -> str | None:
    """A file's text without the blanks around it; None where it cannot be read or says nothing."""
    try:
        # Whatever stands there, it must not cost the devices beside it.
        return path.read_bytes().decode(errors="replace").strip() or None
    except OSError:
        return None


def integer(path: Path) -> int | None:
    """A file's whole number (decimal, or hexadecimal with 0x)."""
    try:
        return int(text(path) or "", 0)
    except ValueError:
        return None


def names(folder: Path) -> list[str]:
    """What is in a folder, in order; nothing where it cannot be read."""
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []


def device_numbers(folder: Path) -> tuple[int, int] | None:
    """The major and minor number of a class device, from its file `dev`."""
    major, colon, minor = (text(folder / "dev") or "").partition(":")
    return (int(major), int(minor)) if colon and major.isdecimal() and minor.isdecimal() else None


def _functions(folder: Path) -> Iterator[Function]:
    for name in names(folder):
        try:
            pci = PciAddress.parse(name)
        except ValueError:
            continue
        here = folder / name
        host_bridge, path = _path(here, name)
        device_class = integer(here / "class")
        yield Function(
            pci,
            here,
            integer(here / "vendor"),
            integer(here / "device"),
            None if device_class is None else device_class >> 8,
            _target(here / "driver"),
            host_bridge,
            path,
            integer(here / "numa_node"),
            _number(_target(here / "iommu_group")),
        )


def _path(folder: Path, name: str) -> tuple[str | None, tuple[str, ...]]:
    """The host bridge and the bridges above a function, from where its link leads (Hyper-V puts more in front)."""
    try:
        steps = folder.readlink().parts
    except OSError:
        return None, ()
    roots = [place for place, step in enumerate(steps) if _ROOT.fullmatch(step)]
    if not roots:
        return None, ()
    below = tuple(step for step in steps[roots[-1] + 1 :] if _ADDRESS.fullmatch(step) and step != name)
    return steps[roots[-1]], below


def _target(link: Path) -> str | None:
    try:
        return link.readlink().name
    except OSError:
        return None


def _number(digits: str | None) -> int | None:
    return int(digits) if digits is not None and digits.isdecimal() else None
