"""GpuNode: what one node has, for people and for our own programs; one object a node, under the node's name. Pure.

The agent writes it whole, the others only read it. The object has no spec, and `status` is no subresource: nobody asks
anything of a GpuNode, so one write says it all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpu_dra import names, quantity
from gpu_dra.pcie import Place

API_VERSION: Final = f"{names.API_GROUP}/v1alpha1"
KIND: Final = "GpuNode"
RESOURCE: Final = "gpunodes"

HEALTHY: Final = "ok"
SELF: Final = "X"
"""The link of a device with itself."""
_NOWHERE: Final = Place(None, None)


@dataclass(frozen=True, slots=True)
class MigEntry:
    """A MIG device. `device` is its name in the ResourceSlice; `claims` are `namespace/name`."""

    device: str
    uuid: str
    profile: str
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuEntry:
    """A GPU. `mesh` is None in MIG mode; `device` is None where the GPU itself is not offered; memory in bytes."""

    index: int
    uuid: str
    pci: str
    model: str
    device: str | None = None
    product_name: str | None = None
    memory_bytes: int | None = None
    mesh: str | None = None
    place: Place = _NOWHERE
    health: str = HEALTHY
    claims: tuple[str, ...] = ()
    migs: tuple[MigEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class NicEntry:
    """A network function. `device` is None where it is not offered. Link speed in Gbit/s."""

    pci: str
    device: str | None = None
    ifname: str | None = None
    rdma_device: str | None = None
    vendor: str | None = None
    model: str | None = None
    link_speed_gbps: int | None = None
    place: Place = _NOWHERE
    claims: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What people call it."""
        return self.rdma_device or self.ifname or self.pci


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A node. `links` has a row for each GPU and then each NIC, in their order, and as many words in each: X, NV18, PIX, ..."""

    name: str
    gpus: tuple[GpuEntry, ...] = ()
    nics: tuple[NicEntry, ...] = ()
    links: tuple[tuple[str, ...], ...] = ()
    driver_version: str | None = None
    cuda_driver_version: str | None = None
    numa_nodes: int | None = None
    reason: str | None = None
    problems: tuple[str, ...] = ()

    @property
    def meshes(self) -> Mapping[str, tuple[int, ...]]:
        """The numbers of the GPUs of each mesh."""
        found: dict[str, tuple[int, ...]] = {}
        for gpu in sorted(self.gpus, key=lambda gpu: gpu.index):
            if gpu.mesh is not None:
                found[gpu.mesh] = (*found.get(gpu.mesh, ()), gpu.index)
        return dict(sorted(found.items(), key=lambda item: (len(item[0]), item[0])))

    @property
    def held(self) -> int:
        """GPUs that claims hold, whole or in part."""
        return sum(bool(gpu.claims or any(mig.claims for mig in gpu.migs)) for gpu in self.gpus)

    @property
    def unhealthy(self) -> int:
        return sum(gpu.health != HEALTHY for gpu in self.gpus)

    @property
    def free(self) -> int:
        """Healthy GPUs that no claim holds."""
        taken = [gpu.claims or any(mig.claims for mig in gpu.migs) for gpu in self.gpus]
        return sum(not held and gpu.health == HEALTHY for held, gpu in zip(taken, self.gpus, strict=True))

    @property
    def models(self) -> str:
        """The model, or each with its number: `6x A, 2x B`."""
        counts = Counter(gpu.model for gpu in self.gpus)
        return ", ".join(counts if len(counts) == 1 else [f"{count}x {model}" for model, count in counts.items()])

    @property
    def mesh_sizes(self) -> str:
        """`8`, `4+4`, `4x1`: sizes that repeat more than twice are counted."""
        sizes = Counter(len(members) for members in self.meshes.values())
        parts = ["+".join([str(size)] * count) if count <= 2 else f"{count}x{size}" for size, count in sizes.items()]
        return "+".join(parts)


def encode(node: GpuNode, owner_uid: str | None) -> dict[str, Any]:
    """The object to write. With the uid of its Node as owner it goes when the Node goes."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": owner_uid}
    metadata: dict[str, Any] = {"name": node.name}
    if owner_uid is not None:
        metadata["ownerReferences"] = [owner]
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "status": status(node)}


def status(node: GpuNode) -> dict[str, Any]:
    """The status as plain data; what is unknown is left out."""
    return _known(
        summary=_known(
            gpus=len(node.gpus),
            free=node.free,
            held=node.held,
            unhealthy=node.unhealthy,
            model=node.models or None,
            meshes=node.mesh_sizes or None,
            nics=len(node.nics),
        ),
        reason=node.reason,
        problems=list(node.problems) or None,
        driverVersion=node.driver_version,
        cudaDriverVersion=node.cuda_driver_version,
        numaNodes=node.numa_nodes,
        gpus=[_gpu(gpu) for gpu in node.gpus],
        nics=[_nic(nic) for nic in node.nics],
        meshes=[{"id": name, "gpus": list(members)} for name, members in node.meshes.items()],
        # A row a text: a matrix of lists would be a screen of brackets in YAML.
        links=[" ".join(row) for row in node.links] or None,
    )


def decode(obj: Mapping[str, Any]) -> GpuNode:
    """Read an object as an agent of this or another version wrote it; what is not there is unknown."""
    data = obj.get("status") or {}
    return GpuNode(
        name=obj["metadata"]["name"],
        gpus=tuple(_read_gpu(entry) for entry in data.get("gpus") or ()),
        nics=tuple(_read_nic(entry) for entry in data.get("nics") or ()),
        links=tuple(tuple(row.split()) for row in data.get("links") or ()),
        driver_version=data.get("driverVersion"),
        cuda_driver_version=data.get("cudaDriverVersion"),
        numa_nodes=data.get("numaNodes"),
        reason=data.get("reason"),
        problems=tuple(data.get("problems") or ()),
    )


def _gpu(gpu: GpuEntry) -> dict[str, Any]:
    return _known(
        index=gpu.index,
        uuid=gpu.uuid,
        device=gpu.device,
        model=gpu.model,
        productName=gpu.product_name,
        memory=None if gpu.memory_bytes is None else quantity.format_bytes(gpu.memory_bytes),
        mesh=gpu.mesh,
        health=gpu.health,
        claims=list(gpu.claims) or None,
        migDevices=[
            _known(device=mig.device, uuid=mig.uuid, profile=mig.profile, claims=list(mig.claims) or None)
            for mig in gpu.migs
        ]
        or None,
        **_place(gpu.pci, gpu.place),
    )


def _nic(nic: NicEntry) -> dict[str, Any]:
    return _known(
        device=nic.device,
        ifname=nic.ifname,
        rdmaDevice=nic.rdma_device,
        vendor=nic.vendor,
        model=nic.model,
        linkSpeedGbps=nic.link_speed_gbps,
        claims=list(nic.claims) or None,
        **_place(nic.pci, nic.place),
    )


def _place(pci: str, place: Place) -> dict[str, Any]:
    return {"pciBusID": pci, "pcieRoot": place.root, "pciePath": list(place.path) or None, "numaNode": place.numa_node}


def _read_gpu(entry: Mapping[str, Any]) -> GpuEntry:
    memory = entry.get("memory")
    return GpuEntry(
        index=entry["index"],
        uuid=entry["uuid"],
        pci=entry["pciBusID"],
        model=entry.get("model", ""),
        device=entry.get("device"),
        product_name=entry.get("productName"),
        memory_bytes=None if memory is None else int(quantity.parse(memory)),
        mesh=entry.get("mesh"),
        place=_read_place(entry),
        health=entry.get("health", HEALTHY),
        claims=_texts(entry.get("claims")),
        migs=tuple(
            MigEntry(mig["device"], mig["uuid"], mig["profile"], _texts(mig.get("claims")))
            for mig in entry.get("migDevices") or ()
        ),
    )


def _read_nic(entry: Mapping[str, Any]) -> NicEntry:
    return NicEntry(
        pci=entry["pciBusID"],
        device=entry.get("device"),
        ifname=entry.get("ifname"),
        rdma_device=entry.get("rdmaDevice"),
        vendor=entry.get("vendor"),
        model=entry.get("model"),
        link_speed_gbps=entry.get("linkSpeedGbps"),
        place=_read_place(entry),
        claims=_texts(entry.get("claims")),
    )


def _read_place(entry: Mapping[str, Any]) -> Place:
    return Place(entry.get("pcieRoot"), entry.get("numaNode"), _texts(entry.get("pciePath")))


def _texts(values: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(values or ())


def _known(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
