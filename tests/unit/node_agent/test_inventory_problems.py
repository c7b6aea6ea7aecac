"""What cannot be published as it was read: cut, left out or told, and nobody else's loss."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_dra.device import Taint
from gpu_dra.names import DeviceName
from gpu_dra.pci import PciAddress
from node_agent import inventory
from node_agent.readings import DeviceNode, GpuReading, MigReading, NicReading, NodeReading

GPU = GpuReading("GPU-1", 0, 0, "NVIDIA L40S", PciAddress(0, 6, 0), (DeviceNode("/dev/nvidia0", 195, 0),))
OTHER = replace(GPU, uuid="GPU-2", pci=PciAddress(0, 7, 0))


def test_a_long_text_is_cut_where_a_character_ends() -> None:
    (device,) = inventory.gpus(NodeReading(gpus=(replace(GPU, brand="é" * 40, architecture="xé" * 40),))).devices
    assert device.attributes["brand"] == "é" * 32
    assert device.attributes["architecture"] == "xé" * 21 + "x"


@pytest.mark.parametrize("text", ["", "unknown", "1.2.3.4", "-1", "1.0.0-" + "x" * 64])
def test_a_version_that_is_none_is_left_out(text: str) -> None:
    (device,) = inventory.gpus(NodeReading(gpus=(GPU,), driver_version=text)).devices
    assert "driverVersion" not in device.attributes


@pytest.mark.parametrize("uuid", ["GPU-" + "a" * 60, "GPU_1", "-GPU", "GPU-é"])
def test_a_gpu_whose_uuid_is_no_name_is_told_and_costs_no_other(uuid: str) -> None:
    found = inventory.gpus(NodeReading(gpus=(replace(GPU, uuid=uuid), OTHER)))
    assert list(found.items) == ["gpu-2"]
    (problem,) = found.problems
    assert problem.startswith("GPU 0000:06:00.0 is left out")
    assert "cannot be a device name" in problem


@pytest.mark.parametrize("uuid", ["GPU-1", "gpu-1"])
def test_of_two_gpus_with_one_name_the_first_on_the_bus_has_it(uuid: str) -> None:
    found = inventory.gpus(NodeReading(gpus=(replace(OTHER, uuid=uuid), GPU)))
    assert [device.attributes["pci_bus_id"] for device in found.devices] == ["0000:06:00.0"]
    (problem,) = found.problems
    assert problem.startswith("GPU 0000:07:00.0 is left out")


def test_a_nic_without_rdma_is_not_published() -> None:
    plain = NicReading(PciAddress(0, 8, 0), ifname="eth0")
    rdma = NicReading(PciAddress(0, 9, 0), rdma_device="mlx5_0")
    found = inventory.nics(NodeReading(nics=(plain, rdma)))
    assert list(found.items) == ["nic-0000-09-00-0"]
    assert found.problems == ()
    both = inventory.nics(NodeReading(nics=(plain, rdma)), without_rdma=True)
    assert [device.attributes["rdma"] for device in both.devices] == [False, True]


def test_an_empty_node_says_why() -> None:
    reading = NodeReading(reason="no driver is loaded")
    for found in (inventory.gpus(reading), inventory.nics(reading)):
        assert (found.devices, found.reason) == ((), "no driver is loaded")


def test_an_item_carries_the_device_nodes_of_its_card_and_those_that_go_with_any() -> None:
    control = DeviceNode("/dev/nvidiactl", 195, 255)
    found = inventory.gpus(NodeReading(gpus=(GPU,), gpu_common_nodes=(control,)))
    assert [item.nodes for item in found.items.values()] == [GPU.nodes]
    assert found.common_nodes == (control,)


@pytest.mark.parametrize(
    ("printed", "model"),
    [
        ("NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100-PCIe-80GB"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "GeForce-RTX-4090"),
        ("  NVIDIA A100-SXM4-40GB ", "A100-SXM4-40GB"),
    ],
)
def test_models_as_people_write_them(printed: str, model: str) -> None:
    assert inventory.model_of(printed) == model


@pytest.mark.parametrize("doubt", ["missing", "silent", "lost"])
def test_a_gpu_in_doubt_stays_with_a_taint(doubt: str) -> None:
    found = inventory.gpus(NodeReading(gpus=(replace(GPU, doubt=doubt), OTHER)))
    assert [device.taints for device in found.devices] == [(Taint("gpu-dra.io/doubt", doubt, "NoSchedule"),), ()]


def test_what_the_backend_left_out_is_told() -> None:
    assert inventory.gpus(NodeReading(problems=("GPU 0000:06:00.0 is left out: it is lost",))).problems == (
        "GPU 0000:06:00.0 is left out: it is lost",
    )


MIG = MigReading("MIG-1", 0, "1g.10gb", 7, 0, (DeviceNode("/dev/nvidia-caps/nvidia-cap66", 236, 66),), 10 << 30, 16)


def test_a_gpu_in_mig_mode_is_offered_as_its_mig_devices_only() -> None:
    found = inventory.gpus(NodeReading(gpus=(replace(GPU, mig_enabled=True, numa_node=1, migs=(MIG,)), OTHER)))
    assert list(found.items) == ["gpu-2", "mig-1"]
    mig = found.items[DeviceName("mig-1")]
    assert mig.device.attributes["parentUUID"] == "GPU-1"
    assert mig.device.attributes["profile"] == "1g.10gb"
    assert mig.device.attributes["numa_node"] == 1
    assert not {name for name in mig.device.attributes if "nvlink" in name}
    assert mig.device.capacity == {"memory": 10 << 30, "multiprocessors": 16}
    assert [node.path for node in mig.nodes] == ["/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap66"]


def test_a_gpu_in_mig_mode_is_in_nobodys_mesh() -> None:
    links = {("GPU-1", "GPU-2"): 18}
    both = inventory.gpus(NodeReading(gpus=(GPU, OTHER), links=links)).devices
    assert [device.attributes["nvlink_mesh_size"] for device in both] == [2, 2]
    (alone,) = inventory.gpus(NodeReading(gpus=(replace(GPU, mig_enabled=True), OTHER), links=links)).devices
    assert alone.attributes["nvlink_mesh_size"] == 1
