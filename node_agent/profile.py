"""A fleet profile: hardware as data. Read strictly from YAML, then turned into the readings of one node. Pure.

One profile serves any number of nodes: UUIDs are made from the node's name, so that no two nodes show the same card.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import PurePosixPath
from typing import Final

from gpu_dra.decode import Reader, shown
from gpu_dra.errors import InputError
from gpu_dra.pci import PciAddress
from node_agent.readings import DeviceNode, GpuReading, NicReading, NodeReading, pair

_NAMESPACE: Final = uuid.UUID("6f0c8a53-6f8e-5e0e-9a43-1f3a1c0c9a11")
_NOWHERE: Final = PciAddress(-1, 0, 0)

# Character device numbers: 195 is NVIDIA's, 231 InfiniBand's. The real rdma_cm has a number of the misc major that the
# kernel picks at boot; a simulated one takes one of 231 that no driver uses, lest it open some other real device.
_NVIDIA_MAJOR: Final = 195
_NVIDIACTL_MINOR: Final = 255
_INFINIBAND_MAJOR: Final = 231
_UVERBS_BASE: Final = 192
_SIMULATED_RDMA_CM_MINOR: Final = 255
_MAX_GPUS: Final = 254
_MAX_NICS: Final = 32


@dataclass(frozen=True, slots=True)
class GpuModel:
    """What all cards of one kind share; memory in MiB, as nvidia-smi prints it."""

    product_name: str
    brand: str | None
    architecture: str | None
    compute_capability: str | None
    memory_mib: int
    mig_capable: bool
    nvlink_version: int | None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card and its place."""

    model: GpuModel
    pci: PciAddress
    pcie_root: str | None
    pcie_path: tuple[str, ...]
    numa_node: int | None
    uuid: str | None
    minor: int | None


@dataclass(frozen=True, slots=True)
class Nic:
    """One network function and its place."""

    vendor: str | None
    model: str | None
    link_speed_gbps: int | None
    pci: PciAddress
    ifname: str | None
    rdma_device: str | None
    pcie_root: str | None
    pcie_path: tuple[str, ...]
    numa_node: int | None


@dataclass(frozen=True, slots=True)
class Profile:
    """A node's hardware. `nvlinks` counts the links of a pair of GPUs by their places in `gpus`."""

    driver_version: str
    cuda_driver_version: str
    numa_nodes: int
    gpus: tuple[Gpu, ...]
    nics: tuple[Nic, ...]
    nvlinks: Mapping[tuple[int, int], int]


def decode(data: object, where: str) -> Profile:
    """Read a profile; InputError names `where` and every field that is wrong."""
    root = Reader.root(data)
    # One reader a table: each knows which of its fields were asked for, and reports the others.
    gpu_table, nic_table = root.child("gpuModels"), root.child("nicModels")
    models = {name: _gpu_model(gpu_table.child(name)) for name in _keys(root.raw("gpuModels"))}
    nic_models = {name: _nic_model(nic_table.child(name)) for name in _keys(root.raw("nicModels"))}
    gpus = [_gpu(entry, models) for entry in root.items("gpus", required=False)]
    nics = [_nic(entry, nic_models) for entry in root.items("nics", required=False)]
    if len(gpus) > _MAX_GPUS:
        root.fail("gpus", f"has {len(gpus)} entries, and a node holds at most {_MAX_GPUS}")
    if len(nics) > _MAX_NICS:
        root.fail("nics", f"has {len(nics)} entries, and a node holds at most {_MAX_NICS}")
    numa_nodes = root.integer("numaNodes", 1, minimum=1, maximum=1024)
    profile = Profile(
        root.text("driverVersion"),
        root.text("cudaDriverVersion"),
        numa_nodes,
        tuple(gpu for gpu in gpus if gpu is not None),
        tuple(nic for nic in nics if nic is not None),
        _nvlinks(root, len(gpus)),
    )
    _check_places(root, gpus, nics, numa_nodes)
    root.finish(where)
    return profile


def readings(profile: Profile, node: str, root: PurePosixPath | None) -> NodeReading:
    """What the machine of this name shows. Device nodes lie below `root` (in the places of /dev), or nowhere if None."""
    gpus = tuple(_gpu_reading(gpu, number, node, root) for number, gpu in enumerate(profile.gpus))
    rdma = [nic for nic in profile.nics if nic.rdma_device is not None]
    numbers = {nic.pci: number for number, nic in enumerate(rdma)}
    nics = tuple(_nic_reading(nic, numbers.get(nic.pci), root) for nic in profile.nics)
    links = {pair(gpus[a].uuid, gpus[b].uuid): count for (a, b), count in profile.nvlinks.items() if count}
    return NodeReading(
        gpus=gpus,
        nics=nics,
        links=links,
        gpu_common_nodes=(_node("/dev/nvidiactl", _NVIDIA_MAJOR, _NVIDIACTL_MINOR, root),) if gpus else (),
        nic_common_nodes=(_node("/dev/infiniband/rdma_cm", _INFINIBAND_MAJOR, _SIMULATED_RDMA_CM_MINOR, root),)
        if rdma
        else (),
        driver_version=profile.driver_version,
        cuda_driver_version=profile.cuda_driver_version,
        numa_nodes=profile.numa_nodes,
    )


def _gpu_reading(gpu: Gpu, number: int, node: str, root: PurePosixPath | None) -> GpuReading:
    minor = number if gpu.minor is None else gpu.minor
    return GpuReading(
        uuid=gpu.uuid or f"GPU-{uuid.uuid5(_NAMESPACE, f'{node}/{gpu.pci}')}",
        index=number,
        minor=minor,
        product_name=gpu.model.product_name,
        pci=gpu.pci,
        nodes=(_node(f"/dev/nvidia{minor}", _NVIDIA_MAJOR, minor, root),),
        brand=gpu.model.brand,
        architecture=gpu.model.architecture,
        compute_capability=gpu.model.compute_capability,
        memory_bytes=gpu.model.memory_mib << 20,
        pcie_root=gpu.pcie_root,
        pcie_path=gpu.pcie_path,
        numa_node=gpu.numa_node,
        mig_capable=gpu.model.mig_capable,
        nvlink_version=gpu.model.nvlink_version,
    )


def _nic_reading(nic: Nic, number: int | None, root: PurePosixPath | None) -> NicReading:
    nodes: tuple[DeviceNode, ...] = ()
    if number is not None:
        nodes = (
            _node(f"/dev/infiniband/uverbs{number}", _INFINIBAND_MAJOR, _UVERBS_BASE + number, root),
            _node(f"/dev/infiniband/umad{number}", _INFINIBAND_MAJOR, number, root),
        )
    return NicReading(
        pci=nic.pci,
        ifname=nic.ifname,
        rdma_device=nic.rdma_device,
        nodes=nodes,
        link_speed_gbps=nic.link_speed_gbps,
        vendor=nic.vendor,
        model=nic.model,
        pcie_root=nic.pcie_root,
        pcie_path=nic.pcie_path,
        numa_node=nic.numa_node,
    )


def _node(path: str, major: int, minor: int, root: PurePosixPath | None) -> DeviceNode:
    return DeviceNode(path, major, minor, None if root is None else root / path.removeprefix("/dev/"))


def _gpu_model(entry: Reader) -> GpuModel:
    return GpuModel(
        entry.text("productName"),
        entry.text("brand", None),
        entry.text("architecture", None),
        entry.text("computeCapability", None),
        entry.integer("memoryMiB", minimum=1, maximum=1 << 24),
        entry.boolean("migCapable", False),  # noqa: FBT003
        entry.integer("nvlinkVersion", None, minimum=1, maximum=99),
    )


def _nic_model(entry: Reader) -> tuple[str | None, str | None, int | None]:
    return entry.text("vendor", None), entry.text("model", None), entry.integer("linkSpeedGbps", None, minimum=1)


def _gpu(entry: Reader, models: Mapping[str, GpuModel]) -> Gpu | None:
    model = models.get(_known(entry, models, "gpuModels"))
    gpu_uuid = entry.text("uuid", None)
    if gpu_uuid is not None and not gpu_uuid.startswith("GPU-"):
        entry.fail("uuid", f"is {gpu_uuid!r}, and a GPU's UUID starts with GPU-")
    pci = entry.parsed("pci", PciAddress.parse, _NOWHERE)
    root, path, numa = _place(entry)
    minor = entry.integer("minor", None, minimum=0, maximum=_MAX_GPUS)
    return None if model is None else Gpu(model, pci, root, path, numa, gpu_uuid, minor)


def _nic(entry: Reader, models: Mapping[str, tuple[str | None, str | None, int | None]]) -> Nic | None:
    model = models.get(_known(entry, models, "nicModels"))
    pci = entry.parsed("pci", PciAddress.parse, _NOWHERE)
    ifname, rdma = entry.text("ifname", None), entry.text("rdmaDevice", None)
    root, path, numa = _place(entry)
    return None if model is None else Nic(*model, pci, ifname, rdma, root, path, numa)


def _place(entry: Reader) -> tuple[str | None, tuple[str, ...], int | None]:
    bridges = entry.raw("pciePath") or []
    path: list[str] = []
    try:
        path = [str(PciAddress.parse(bridge)) for bridge in bridges]
    except (TypeError, AttributeError, ValueError):
        entry.fail("pciePath", 'must be a list of the bridges above it, such as ["0000:15:01.0", "0000:16:00.0"]')
    return entry.text("pcieRoot", None), tuple(path), entry.integer("numaNode", None, minimum=-1)


def _known(entry: Reader, models: Mapping[str, object], table: str) -> str:
    name = entry.text("model")
    if name and name not in models:
        entry.fail("model", f"is {name!r}, which {table} does not define; it defines {', '.join(models) or 'none'}")
    return name


def _nvlinks(root: Reader, gpus: int) -> dict[tuple[int, int], int]:
    """Each entry joins every pair of its GPUs by so many links."""
    links: dict[tuple[int, int], int] = {}
    for entry in root.items("nvlinks", required=False):
        members = entry.raw("gpus")
        count = entry.integer("links", minimum=0, maximum=64)
        if not isinstance(members, list) or len(members) < 2 or not all(type(number) is int for number in members):
            entry.fail("gpus", "must be a list of at least two places in the list of GPUs, such as [0, 1]")
            continue
        beyond = [number for number in members if not 0 <= number < gpus]
        if beyond:
            entry.fail("gpus", f"names {shown(beyond[0])}, and the places in the list of GPUs are {_places(gpus)}")
            continue
        if len(set(members)) < len(members):
            entry.fail("gpus", f"is {members}: a GPU is named twice")
            continue
        links.update(dict.fromkeys(combinations(sorted(members), 2), count))
    return links


def _places(gpus: int) -> str:
    return f"0 to {gpus - 1}" if gpus else "none, it is empty"


def _check_places(root: Reader, gpus: list[Gpu | None], nics: list[Nic | None], numa_nodes: int) -> None:
    taken: dict[PciAddress, str] = {}
    named: dict[str, str] = {}
    for table, devices in (("gpus", gpus), ("nics", nics)):
        for number, device in enumerate(devices):
            if device is None or device.pci == _NOWHERE:
                continue
            here = f"{table}[{number}]"
            if device.pci in taken:
                root.fail(f"{here}.pci", f"is {device.pci}, where {taken[device.pci]} sits already")
            taken[device.pci] = here
            if device.numa_node is not None and device.numa_node >= numa_nodes:
                root.fail(f"{here}.numaNode", f"is {shown(device.numa_node)}, and numaNodes says {shown(numa_nodes)}")
            name = device.uuid if isinstance(device, Gpu) else device.rdma_device
            if name is not None:
                if name in named:
                    root.fail(here, f"has the name {name!r} of {named[name]}")
                named[name] = here
    minors = [number if gpu.minor is None else gpu.minor for number, gpu in enumerate(gpus) if gpu is not None]
    if len(set(minors)) < len(minors):
        root.fail("gpus", "has two GPUs with one minor number; give each its own, or leave them all out")


def _keys(table: object) -> list[str]:
    return [name for name in table if isinstance(name, str)] if isinstance(table, dict) else []


def unknown(name: str, known: list[str]) -> InputError:
    """The error for a profile that is not there."""
    return InputError(
        f"the profile {name!r}",
        [f"there is no such profile; choose one of {', '.join(sorted(known))}, or give the path of a YAML file"],
    )
