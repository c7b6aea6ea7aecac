"""Readings -> the devices of this node, each with its stable name, its attributes and the device nodes it takes to use it.

Pure. What a machine does not say is left out: never -1, never an empty text. A device that cannot be published is
reported in `problems` and costs nobody else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Final

from gpu_dra import names, topology
from gpu_dra.device import Attribute, Device, Taint, Version
from gpu_dra.names import DeviceName
from node_agent.readings import DeviceNode, GpuReading, MigReading, NicReading, NodeReading, pair

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

# What people call the boards (and write in selectors), by the name that NVML prints.
_MODELS: Final = {
    "NVIDIA H100 80GB HBM3": "H100-SXM5-80GB",
    "NVIDIA H100 PCIe": "H100-PCIe-80GB",
    "NVIDIA H200": "H200-SXM5-141GB",
    "NVIDIA H800": "H800-SXM5-80GB",
    "NVIDIA A100 80GB PCIe": "A100-PCIe-80GB",
    "NVIDIA B200": "B200-SXM6-180GB",
    "NVIDIA L40S": "L40S",
    "Tesla T4": "T4",
}


@dataclass(frozen=True, slots=True)
class Item:
    """A device as published, and what a container needs to use it."""

    device: Device
    nodes: tuple[DeviceNode, ...]


@dataclass(frozen=True, slots=True)
class Inventory:
    """All devices of one driver on this node, in the order in which they are published.

    `common_nodes` go with any of them; `reason` says why there is none where there is none.
    """

    items: Mapping[DeviceName, Item]
    common_nodes: tuple[DeviceNode, ...] = ()
    problems: tuple[str, ...] = ()
    reason: str | None = None

    @property
    def devices(self) -> tuple[Device, ...]:
        return tuple(item.device for item in self.items.values())


def gpus(reading: NodeReading) -> Inventory:
    """The GPUs, mesh by mesh in order of PCI address, then the MIG devices. A GPU in MIG mode is offered as those only."""
    items: dict[DeviceName, Item] = {}
    problems = list(reading.problems)
    by_uuid: dict[str, GpuReading] = {}
    for gpu in sorted(reading.gpus, key=lambda gpu: gpu.pci):
        first = by_uuid.setdefault(gpu.uuid, gpu)
        if first is not gpu:
            problems.append(f"GPU {gpu.pci} is left out: GPU {first.pci} has its UUID {gpu.uuid!r} already")
    whole = [uuid for uuid, gpu in by_uuid.items() if not gpu.mig_enabled]
    groups = topology.meshes(whole, reading.links)
    for number, group in enumerate(groups):
        for uuid in group:
            gpu = by_uuid[uuid]
            mesh: dict[str, Attribute] = {"nvlink_mesh_id": f"mesh-{number}", "nvlink_mesh_size": len(group)}
            attributes = {
                "type": "gpu",
                "uuid": gpu.uuid,
                **mesh,
                **_board_attributes(gpu, reading),
                **_own_attributes(gpu, reading),
            }
            capacity = {} if gpu.memory_bytes is None else {"memory": gpu.memory_bytes}
            _add(items, problems, gpu_name(gpu.uuid), f"GPU {gpu.pci}", attributes, capacity, gpu.nodes, _taints(gpu))
    for gpu in by_uuid.values():
        for mig in gpu.migs if gpu.mig_enabled else ():
            attributes = {**_mig_attributes(mig, gpu), **_board_attributes(gpu, reading)}
            where = f"MIG device {mig.index} of GPU {gpu.pci}"
            nodes = (*gpu.nodes, *mig.nodes)
            _add(items, problems, gpu_name(mig.uuid), where, attributes, _mig_capacity(mig), nodes, _taints(gpu))
    return Inventory(MappingProxyType(items), reading.gpu_common_nodes, tuple(problems), reading.reason)


def nics(reading: NodeReading, *, without_rdma: bool = False) -> Inventory:
    """The RDMA functions in order of PCI address; those without RDMA only where told, since nothing of them is injected."""
    items: dict[DeviceName, Item] = {}
    problems = list(reading.nic_problems)
    for nic in sorted(reading.nics, key=lambda nic: nic.pci):
        if nic.rdma_device is not None or without_rdma:
            attributes = _nic_attributes(nic, reading)
            _add(items, problems, nic_name(nic), f"NIC {nic.pci}", attributes, {}, nic.nodes)
    return Inventory(MappingProxyType(items), reading.nic_common_nodes, tuple(problems), reading.reason)


def gpu_name(uuid: str) -> DeviceName:
    """The UUID that NVML prints, in lower case: it moves with the card, so no other card ever has this name."""
    return DeviceName(uuid.lower())


def nic_name(nic: NicReading) -> DeviceName:
    """By PCI address: interface names change with udev rules and MAC addresses with software."""
    return DeviceName(f"nic-{nic.pci.label}")


def model_of(product_name: str) -> str:
    """The short model name; of a board that is not in the table the product name without the maker, dashes for blanks."""
    short = re.sub(r"^(NVIDIA|Tesla)\s+", "", product_name.strip())
    return _MODELS.get(product_name.strip(), re.sub(r"[^A-Za-z0-9._-]+", "-", short).strip("-"))


def _add(
    items: dict[DeviceName, Item],
    problems: list[str],
    name: DeviceName,
    where: str,
    attributes: Mapping[str, Attribute | None],
    capacity: Mapping[str, int],
    nodes: Sequence[DeviceNode],
    taints: tuple[Taint, ...] = (),
) -> None:
    if _LABEL.fullmatch(name) is None:
        problems.append(f"{where} is left out: {name!r} cannot be a device name (a DNS label of at most 63 characters)")
        return
    if name in items:
        problems.append(f"{where} is left out: another device has its name {name!r} already")
        return
    kept = {key: clean for key, value in attributes.items() if (clean := _clean(value)) is not None}
    # The API server refuses a slice for one device with too many; the first ones are the most telling.
    kept = dict(islice(kept.items(), names.MAX_ATTRIBUTES - len(capacity)))
    device = Device(name, MappingProxyType(kept), MappingProxyType(dict(capacity)), taints)
    items[name] = Item(device, tuple(nodes))


def _taints(gpu: GpuReading) -> tuple[Taint, ...]:
    return () if gpu.doubt is None else (Taint(names.DOUBT_TAINT, gpu.doubt),)


def _board_attributes(gpu: GpuReading, reading: NodeReading) -> dict[str, Attribute | None]:
    """What a GPU and its MIG devices have in common, the most telling first."""
    return {
        **_place(gpu, reading),
        "model": model_of(gpu.product_name),
        "productName": gpu.product_name,
        "brand": gpu.brand,
        "architecture": gpu.architecture,
        "cudaComputeCapability": _version(gpu.compute_capability),
        "driverVersion": _version(reading.driver_version),
        "cudaDriverVersion": _version(reading.cuda_driver_version),
        "pci_bus_id": str(gpu.pci),
    }


def _own_attributes(gpu: GpuReading, reading: NodeReading) -> dict[str, Attribute | None]:
    """What only a whole GPU has."""
    joined = [reading.links.get(pair(gpu.uuid, other.uuid), 0) for other in reading.gpus if other.uuid != gpu.uuid]
    # Through a switch every link reaches every peer, so the links of a GPU are those of its best pair, not their sum.
    return {
        "nvlink_links": max(joined, default=0),
        "nvlink_version": gpu.nvlink_version if any(joined) else None,
        "fabric_clique_id": gpu.fabric_clique_id,
        "index": gpu.index,
        "minor": gpu.minor,
        "mig_capable": gpu.mig_capable,
    }


def _mig_attributes(mig: MigReading, gpu: GpuReading) -> dict[str, Attribute | None]:
    return {"type": "mig", "uuid": mig.uuid, "parentUUID": gpu.uuid, "profile": mig.profile, "index": mig.index}


def _mig_capacity(mig: MigReading) -> dict[str, int]:
    amounts = {
        "memory": mig.memory_bytes,
        "multiprocessors": mig.multiprocessors,
        "copyEngines": mig.copy_engines,
        "decoders": mig.decoders,
        "encoders": mig.encoders,
        "jpegEngines": mig.jpeg_engines,
        "ofaEngines": mig.ofa_engines,
    }
    return {name: amount for name, amount in amounts.items() if amount is not None}


def _nic_attributes(nic: NicReading, reading: NodeReading) -> dict[str, Attribute | None]:
    return {
        "type": "nic",
        "ifname": nic.ifname,
        "rdma": nic.rdma_device is not None,
        "rdma_device": nic.rdma_device,
        "link_speed_gbps": nic.link_speed_gbps,
        "vendor": nic.vendor,
        "model": nic.model,
        **_place(nic, reading),
    }


def _place(device: GpuReading | NicReading, reading: NodeReading) -> dict[str, Attribute | None]:
    numa = device.numa_node
    if numa is None or numa < 0:
        # On a machine with one NUMA node sysfs often says -1; leaving it out would make every NUMA constraint fail.
        numa = 0 if reading.numa_nodes == 1 else None
    return {
        "numa_node": numa,
        names.PCI_BUS_ID: str(device.pci),
        names.PCIE_ROOT: device.pcie_root,
        names.NUMA_NODE: numa,
        names.DRANET_NUMA_NODE: numa,
    }


def _version(text: str | None) -> Version | None:
    return None if text is None else Version.normalise(text)


def _clean(value: Attribute | None) -> Attribute | None:
    if isinstance(value, str):
        # The limit is in bytes; cut where a character ends.
        return value.encode()[: names.MAX_STRING].decode(errors="ignore") or None
    if isinstance(value, Version) and len(value.text) > names.MAX_STRING:
        # Half a version would be another version.
        return None
    return value
