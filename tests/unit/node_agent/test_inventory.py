"""What is published of a device: every attribute of every profile that comes with the agent, and nothing unknown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_dra.device import Attribute, Device, Version
from gpu_dra.pci import PciAddress
from node_agent import inventory
from node_agent.adapters import simulated
from node_agent.readings import GpuReading, NicReading, NodeReading, pair

PROFILES = ["dgx-h100", "l40s-4", "split-4x4"]
ANY_GPU = frozenset(
    {
        *("type", "uuid", "model", "productName", "brand", "architecture", "cudaComputeCapability", "driverVersion"),
        *("cudaDriverVersion", "index", "minor", "numa_node", "nvlink_mesh_id", "nvlink_mesh_size", "nvlink_links"),
        *("pci_bus_id", "mig_capable", "resource.kubernetes.io/pciBusID", "resource.kubernetes.io/pcieRoot"),
        *("resource.kubernetes.io/numaNode", "dra.net/numaNode"),
    }
)
ANY_NIC = frozenset(
    {
        *("type", "ifname", "rdma", "rdma_device", "link_speed_gbps", "vendor", "model", "numa_node"),
        *("resource.kubernetes.io/pciBusID", "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"),
        "dra.net/numaNode",
    }
)
BARE_GPU = GpuReading("GPU-1", 0, 0, "NVIDIA L40S", PciAddress(0, 6, 0), ())


def reading_of(profile: str) -> NodeReading:
    return simulated.SimulatedNode(simulated.load(profile), "n1", None).read()


def one_gpu(gpu: GpuReading, numa_nodes: int = 1) -> Device:
    (device,) = inventory.gpus(NodeReading(gpus=(gpu,), numa_nodes=numa_nodes)).devices
    return device


def holds_nothing_unknown(devices: Iterable[Device]) -> bool:
    """The rules of the API and ours: bounds kept, never -1, never an empty text."""
    for device in devices:
        texts = [str(value) for value in device.attributes.values() if isinstance(value, str | Version)]
        assert len(device.attributes) + len(device.capacity) <= 32
        assert all(0 < len(text.encode()) <= 64 for text in texts)
        assert None not in device.attributes.values()
        assert -1 not in device.attributes.values()
        assert -1 not in device.capacity.values()
    return True


@pytest.mark.parametrize(("profile", "nvlink"), [("dgx-h100", True), ("l40s-4", False), ("split-4x4", True)])
def test_every_gpu_of_a_profile_has_every_attribute(profile: str, nvlink: bool) -> None:
    devices = inventory.gpus(reading_of(profile)).devices
    assert devices
    assert holds_nothing_unknown(devices)
    for device in devices:
        assert set(device.attributes) == ANY_GPU | ({"nvlink_version"} if nvlink else set())
        assert set(device.capacity) == {"memory"}


@pytest.mark.parametrize("profile", PROFILES)
def test_every_nic_of_a_profile_has_every_attribute(profile: str) -> None:
    devices = inventory.nics(reading_of(profile)).devices
    assert devices
    assert holds_nothing_unknown(devices)
    assert all(set(device.attributes) == ANY_NIC and not device.capacity for device in devices)


def test_the_values_of_one_gpu() -> None:
    reading = reading_of("split-4x4")
    fifth = reading.gpus[4]
    device = inventory.gpus(reading).items[inventory.gpu_name(fifth.uuid)].device
    wanted: dict[str, Attribute] = {
        "type": "gpu",
        "uuid": fifth.uuid,
        "model": "H100-SXM5-80GB",
        "productName": "NVIDIA H100 80GB HBM3",
        "brand": "Nvidia",
        "architecture": "Hopper",
        "cudaComputeCapability": Version("9.0.0"),
        "driverVersion": Version("580.105.8"),
        "cudaDriverVersion": Version("13.0.0"),
        "index": 4,
        "minor": 4,
        "pci_bus_id": "0000:9a:00.0",
        "mig_capable": True,
        "numa_node": 1,
        "resource.kubernetes.io/pciBusID": "0000:9a:00.0",
        "resource.kubernetes.io/pcieRoot": "pci0000:97",
        "resource.kubernetes.io/numaNode": 1,
        "dra.net/numaNode": 1,
        "nvlink_mesh_id": "mesh-1",
        "nvlink_mesh_size": 4,
        "nvlink_links": 18,
        "nvlink_version": 4,
    }
    assert dict(device.attributes) == wanted
    assert dict(device.capacity) == {"memory": 81559 * 1024 * 1024}


def test_the_values_of_one_nic() -> None:
    device = inventory.nics(reading_of("l40s-4")).devices[1]
    wanted: dict[str, Attribute] = {
        "type": "nic",
        "ifname": "ens5f1np1",
        "rdma": True,
        "rdma_device": "mlx5_1",
        "link_speed_gbps": 100,
        "vendor": "Mellanox",
        "model": "ConnectX-6 Dx",
        "numa_node": 1,
        "resource.kubernetes.io/pciBusID": "0000:a1:00.1",
        "resource.kubernetes.io/pcieRoot": "pci0000:a0",
        "resource.kubernetes.io/numaNode": 1,
        "dra.net/numaNode": 1,
    }
    assert (device.name, dict(device.attributes)) == ("nic-0000-a1-00-1", wanted)


def test_without_nvlink_every_gpu_is_a_mesh_of_one_and_has_no_version_of_it() -> None:
    attributes = [device.attributes for device in inventory.gpus(reading_of("l40s-4")).devices]
    assert [(item["nvlink_mesh_id"], item["nvlink_mesh_size"], item["nvlink_links"]) for item in attributes] == [
        (f"mesh-{number}", 1, 0) for number in range(4)
    ]
    capable = replace(BARE_GPU, nvlink_version=4)
    assert "nvlink_version" not in one_gpu(capable).attributes


def test_what_a_machine_does_not_say_is_left_out() -> None:
    device = one_gpu(BARE_GPU, numa_nodes=2)
    assert set(device.attributes) == ANY_GPU - {
        *("brand", "architecture", "cudaComputeCapability", "driverVersion", "cudaDriverVersion", "mig_capable"),
        *("numa_node", "resource.kubernetes.io/numaNode", "dra.net/numaNode", "resource.kubernetes.io/pcieRoot"),
    }
    assert not device.capacity


@pytest.mark.parametrize("said", [-1, None, 0])
def test_one_numa_node_is_node_0_whatever_sysfs_says(said: int | None) -> None:
    nic = NicReading(PciAddress(0, 7, 0), rdma_device="mlx5_0", numa_node=said)
    reading = NodeReading(gpus=(replace(BARE_GPU, numa_node=said),), nics=(nic,), numa_nodes=1)
    for device in (*inventory.gpus(reading).devices, *inventory.nics(reading).devices):
        for name in ("numa_node", "resource.kubernetes.io/numaNode", "dra.net/numaNode"):
            assert device.attributes[name] == 0


words = st.none() | st.text(max_size=80)
numa = st.none() | st.integers(-1, 3)
some_gpus = st.builds(
    GpuReading,
    uuid=st.integers(0, 3).map("GPU-{}".format),
    index=st.integers(0, 9),
    minor=st.integers(0, 9),
    product_name=st.text(max_size=80),
    pci=st.builds(PciAddress, st.just(0), st.integers(0, 255), st.just(0)),
    nodes=st.just(()),
    brand=words,
    architecture=words,
    compute_capability=words,
    memory_bytes=st.none() | st.integers(1),
    pcie_root=words,
    numa_node=numa,
    mig_capable=st.none() | st.booleans(),
)
some_nics = st.builds(
    NicReading,
    pci=st.builds(PciAddress, st.just(0), st.integers(0, 255), st.just(0)),
    ifname=words,
    rdma_device=st.just("mlx5_0"),
    vendor=words,
    model=words,
    pcie_root=words,
    numa_node=numa,
)


@given(st.lists(some_gpus, max_size=4), st.lists(some_nics, max_size=4), words, st.integers(1, 4))
def test_whatever_is_read_nothing_unknown_is_published(
    gpus: list[GpuReading], nics: list[NicReading], version: str | None, numa_nodes: int
) -> None:
    links = {pair("GPU-0", "GPU-1"): 2}
    reading = NodeReading(tuple(gpus), tuple(nics), links, driver_version=version, numa_nodes=numa_nodes)
    for found, count in ((inventory.gpus(reading), len(gpus)), (inventory.nics(reading), len(nics))):
        assert holds_nothing_unknown(found.devices)
        assert len(found.devices) + len(found.problems) == count


@pytest.mark.parametrize("profile", PROFILES)
def test_device_names_do_not_depend_on_the_enumeration(profile: str) -> None:
    reading = reading_of(profile)
    last = len(reading.gpus) - 1
    turned = tuple(replace(gpu, index=last - gpu.index, minor=last - gpu.minor) for gpu in reversed(reading.gpus))
    renamed = tuple(replace(nic, ifname="eth0", rdma_device="mlx5_9") for nic in reversed(reading.nics))
    after = replace(reading, gpus=turned, nics=renamed)

    def by_name(found: inventory.Inventory) -> dict[str, Attribute]:
        return {name: item.device.attributes["pci_bus_id"] for name, item in found.items.items()}

    assert by_name(inventory.gpus(after)) == by_name(inventory.gpus(reading))
    assert list(inventory.nics(after).items) == list(inventory.nics(reading).items)
