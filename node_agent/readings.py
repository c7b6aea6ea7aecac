"""What a backend reads from a machine: frozen values, no judgement. `None` means the machine does not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from types import MappingProxyType

from gpu_dra.pci import PciAddress


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A character device: where containers expect it, its numbers, and where it lies on the host."""

    path: str
    major: int
    minor: int
    host_path: PurePosixPath | None = None
    """None where it lies at `path` on the host, too."""


@dataclass(frozen=True, slots=True)
class MigReading:
    """One MIG device: a compute instance of a GPU instance. Memory in bytes; engines are counts."""

    uuid: str
    index: int
    """Among the MIG devices of its GPU."""
    profile: str
    """As nvidia-smi names it: 1g.10gb, 1c.3g.40gb, 1g.10gb+me."""
    gpu_instance: int
    compute_instance: int
    nodes: tuple[DeviceNode, ...] = ()
    memory_bytes: int | None = None
    multiprocessors: int | None = None
    copy_engines: int | None = None
    decoders: int | None = None
    encoders: int | None = None
    jpeg_engines: int | None = None
    ofa_engines: int | None = None


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU as the driver and sysfs show it. Memory in bytes; `numa_node` is -1 where sysfs says so."""

    uuid: str
    index: int
    minor: int
    product_name: str
    pci: PciAddress
    nodes: tuple[DeviceNode, ...]
    brand: str | None = None
    architecture: str | None = None
    compute_capability: str | None = None
    memory_bytes: int | None = None
    pcie_root: str | None = None
    numa_node: int | None = None
    mig_capable: bool | None = None
    nvlink_version: int | None = None
    pcie_path: tuple[str, ...] = ()
    """Addresses of the PCIe bridges above it, the root port first."""
    module_id: int | None = None
    fabric_clique_id: str | None = None
    mig_enabled: bool | None = None
    doubt: str | None = None
    """In a word why it may not work though it counts as there: missing (for a moment), silent (NVML does not answer), lost
    (off the bus), failing (NVML answers with an error)."""
    migs: tuple[MigReading, ...] = ()


@dataclass(frozen=True, slots=True)
class NicReading:
    """One network function. Link speed in Gbit/s; `nodes` is what an RDMA program needs of it."""

    pci: PciAddress
    ifname: str | None = None
    rdma_device: str | None = None
    nodes: tuple[DeviceNode, ...] = ()
    link_speed_gbps: int | None = None
    vendor: str | None = None
    model: str | None = None
    pcie_root: str | None = None
    numa_node: int | None = None
    pcie_path: tuple[str, ...] = ()


LinkCounts = Mapping[tuple[str, str], int]
"""Active NVLinks between two GPUs by their UUIDs, each pair once, the lower UUID first."""


@dataclass(frozen=True, slots=True)
class NodeReading:
    """Everything a backend knows of one machine. `reason` says why there is nothing where there is nothing."""

    gpus: tuple[GpuReading, ...] = ()
    nics: tuple[NicReading, ...] = ()
    links: LinkCounts = field(default_factory=lambda: MappingProxyType({}))
    gpu_common_nodes: tuple[DeviceNode, ...] = ()
    """Device nodes that go with any GPU (nvidiactl)."""
    nic_common_nodes: tuple[DeviceNode, ...] = ()
    """Device nodes that go with any RDMA function (rdma_cm)."""
    driver_version: str | None = None
    cuda_driver_version: str | None = None
    numa_nodes: int = 1
    reason: str | None = None
    problems: tuple[str, ...] = ()
    nic_problems: tuple[str, ...] = ()
    """GPUs and NICs that are there and left out, each in a sentence that names it and says why."""


def pair(first: str, second: str) -> tuple[str, str]:
    """The key of two GPUs in LinkCounts."""
    return (first, second) if first < second else (second, first)
