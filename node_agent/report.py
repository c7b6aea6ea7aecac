"""Readings, what is offered and who holds it -> the node's GpuNode. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpu_dra import pcie
from gpu_dra.gpu_node import HEALTHY, SELF, GpuEntry, GpuNode, MigEntry, NicEntry
from gpu_dra.pcie import Place
from node_agent import inventory
from node_agent.checkpoint import PreparedClaim
from node_agent.inventory import Inventory
from node_agent.readings import GpuReading, NicReading, NodeReading, pair


def gpu_node(
    name: str, reading: NodeReading, gpus: Inventory, nics: Inventory, claims: Iterable[PreparedClaim]
) -> GpuNode:
    """The node of this name; GPUs by their numbers, NICs by address. `nics` is empty where they are not our business."""
    holders = _holders(claims)
    cards = sorted(reading.gpus, key=lambda gpu: (gpu.index, gpu.pci))
    functions = sorted(reading.nics, key=lambda nic: nic.pci)
    return GpuNode(
        name,
        gpus=tuple(_gpu(gpu, gpus, holders) for gpu in cards),
        nics=tuple(_nic(nic, nics, holders) for nic in functions),
        links=_links(cards, functions, reading),
        driver_version=reading.driver_version,
        cuda_driver_version=reading.cuda_driver_version,
        numa_nodes=reading.numa_nodes,
        reason=reading.reason,
        problems=(*gpus.problems, *nics.problems),
    )


def _gpu(gpu: GpuReading, offered: Inventory, holders: Mapping[str, tuple[str, ...]]) -> GpuEntry:
    device = inventory.gpu_name(gpu.uuid)
    item = offered.items.get(device)
    mesh = item.device.attributes.get("nvlink_mesh_id") if item else None
    migs = [(inventory.gpu_name(mig.uuid), mig) for mig in gpu.migs]
    return GpuEntry(
        gpu.index,
        gpu.uuid,
        str(gpu.pci),
        inventory.model_of(gpu.product_name),
        device if item else None,
        gpu.product_name,
        gpu.memory_bytes,
        None if mesh is None else str(mesh),
        _place(gpu),
        gpu.doubt or HEALTHY,
        holders.get(device, ()),
        tuple(
            MigEntry(name, mig.uuid, mig.profile, holders.get(name, ())) for name, mig in migs if name in offered.items
        ),
    )


def _nic(nic: NicReading, offered: Inventory, holders: Mapping[str, tuple[str, ...]]) -> NicEntry:
    device = inventory.nic_name(nic)
    return NicEntry(
        str(nic.pci),
        device if device in offered.items else None,
        nic.ifname,
        nic.rdma_device,
        nic.vendor,
        nic.model,
        nic.link_speed_gbps,
        _place(nic),
        holders.get(device, ()),
    )


def _holders(claims: Iterable[PreparedClaim]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for claim in claims:
        for device in claim.reserved:
            found[device] = (*found.get(device, ()), claim.reference)
    return found


def _links(gpus: Sequence[GpuReading], nics: Sequence[NicReading], reading: NodeReading) -> tuple[tuple[str, ...], ...]:
    devices: list[GpuReading | NicReading] = [*gpus, *nics]
    return tuple(tuple(_link(one, other, reading) for other in devices) for one in devices)


def _link(one: GpuReading | NicReading, other: GpuReading | NicReading, reading: NodeReading) -> str:
    if one is other:
        return SELF
    if isinstance(one, GpuReading) and isinstance(other, GpuReading):
        count = reading.links.get(pair(one.uuid, other.uuid), 0)
        if count:
            return f"NV{count}"
    return pcie.connection(_place(one), _place(other))


def _place(device: GpuReading | NicReading) -> Place:
    numa = device.numa_node
    return Place(device.pcie_root, None if numa is None or numa < 0 else numa, device.pcie_path)
