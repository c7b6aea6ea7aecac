"""The readers of /sys and /proc, on the files of machines made from profiles and on what real machines do wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpu_dra.pci import PciAddress
from node_agent import profile as profiles
from node_agent.adapters import nics, nvidia_proc, simulated, sysfs
from node_agent.readings import DeviceNode
from tests.fakes.sysfs import RDMA_CM, FakeHost

PROFILES = ["split-4x4", "dgx-h100", "l40s-4"]


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return FakeHost.of(tmp_path, "split-4x4")


@pytest.mark.parametrize("name", PROFILES)
def test_the_files_say_what_the_profile_says(tmp_path: Path, name: str) -> None:
    wanted = profiles.readings(simulated.load(name), "n", None)
    FakeHost.of(tmp_path, name)
    functions = sysfs.functions(tmp_path)
    assert nics.nics(tmp_path, functions) == (tuple(sorted(wanted.nics, key=lambda nic: nic.pci)), ())
    assert nics.common_nodes(tmp_path) == (DeviceNode("/dev/infiniband/rdma_cm", *RDMA_CM),)
    assert sysfs.numa_nodes(tmp_path) == wanted.numa_nodes
    gpus = [function for function in functions if function.is_gpu]
    places = [(gpu.pci, gpu.root, gpu.path, gpu.numa_node) for gpu in gpus]
    assert places == [(gpu.pci, gpu.pcie_root, gpu.pcie_path, gpu.numa_node) for gpu in wanted.gpus]
    driver = nvidia_proc.driver(tmp_path)
    assert driver is not None
    assert driver.version == wanted.driver_version
    assert driver.minors == {gpu.pci: gpu.minor for gpu in wanted.gpus}
    assert driver.common_nodes() == (
        DeviceNode("/dev/nvidiactl", 195, 255),
        DeviceNode("/dev/nvidia-uvm", 511, 0),
        DeviceNode("/dev/nvidia-uvm-tools", 511, 1),
    )


def test_a_machine_without_anything(tmp_path: Path) -> None:
    assert sysfs.functions(tmp_path) == ()
    assert sysfs.numa_nodes(tmp_path) == 1
    assert nvidia_proc.driver(tmp_path) is None
    assert nics.nics(tmp_path, ()) == ((), ())
    assert nics.common_nodes(tmp_path) == ()


def test_the_older_modules_version(host: FakeHost) -> None:
    host.write(
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Tue Jul 13 16:14:05 UTC 2021",
    )
    driver = nvidia_proc.driver(host.root)
    assert driver is not None
    assert driver.version == "470.57.02"


def test_mig_devices_have_the_nodes_of_both_instances(host: FakeHost) -> None:
    host.write(
        "proc/driver/nvidia-caps/mig-minors", "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\nodd\n"
    )
    driver = nvidia_proc.driver(host.root)
    assert driver is not None
    assert driver.mig_nodes(0, 1, 0) == (
        DeviceNode("/dev/nvidia-caps/nvidia-cap12", 234, 12), DeviceNode("/dev/nvidia-caps/nvidia-cap13", 234, 13),
    )  # fmt: skip
    assert driver.mig_nodes(0, 2, 0) == ()


def test_hyper_v_puts_more_before_the_host_bridge(tmp_path: Path) -> None:
    links = tmp_path / "sys/bus/pci/devices"
    links.mkdir(parents=True)
    target = "../../../devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-0001/pci0001:00/0001:00:00.0"
    (links / "0001:00:00.0").symlink_to(target)
    (function,) = sysfs.functions(tmp_path)
    assert (function.pci, function.root, function.path) == (PciAddress(1, 0, 0), "pci0001:00", ())
    assert (function.vendor, function.numa_node, function.is_gpu) == (None, None, False)


@pytest.mark.parametrize("text", ["", "-1x", "ten", "0xzz", "\xff"])
def test_an_odd_file_costs_its_value_only(host: FakeHost, text: str) -> None:
    (host.folder("0000:18:00.0") / "numa_node").write_bytes(text.encode("latin-1"))
    functions = {str(function.pci): function for function in sysfs.functions(host.root)}
    assert functions["0000:18:00.0"].numa_node is None
    assert functions["0000:18:00.0"].is_gpu
    assert functions["0000:2a:00.0"].numa_node == 0


def test_a_file_that_is_no_file_costs_its_value_only(host: FakeHost) -> None:
    folder = host.folder("0000:18:00.0")
    (folder / "numa_node").unlink()
    (folder / "numa_node").mkdir()
    assert sysfs.functions(host.root)[0].numa_node is None


def offered(host: FakeHost) -> list[str | None]:
    return [nic.ifname for nic in nics.nics(host.root, sysfs.functions(host.root))[0]]


def test_the_uplink_is_never_offered(host: FakeHost) -> None:
    assert "ens1np0" in offered(host)
    host.routes("ens1np0")
    assert offered(host) == ["ens2np0", "ens3np0", "ens4np0"]


def test_what_carries_the_uplink_is_never_offered(host: FakeHost) -> None:
    """A VLAN on a bond of two ports."""
    (host.root / "sys/class/net/bond0.7/lower_bond0").mkdir(parents=True)
    for port in ("ens1np0", "ens2np0"):
        (host.root / "sys/class/net/bond0" / f"lower_{port}").mkdir(parents=True)
    host.routes("bond0.7")
    assert offered(host) == ["ens3np0", "ens4np0"]


def test_an_uplink_over_ipv6_is_one_too(host: FakeHost) -> None:
    zero = "0" * 32
    gateway = "fe800000000000000000000000000001"
    host.write(
        "proc/1/net/ipv6_route",
        f"{zero} 00 {zero} 00 {gateway} 00000400 00000001 00000000 00000003  ens3np0\n"
        f"{zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200       lo",
    )
    assert offered(host) == ["ens1np0", "ens2np0", "ens4np0"]


def test_without_the_routes_no_nic_is_offered(host: FakeHost) -> None:
    (host.root / "proc/1/net/route").unlink()
    found, problems = nics.nics(host.root, sysfs.functions(host.root))
    assert found == ()
    assert len(problems) == 4
    assert problems[0].startswith("NIC 0000:19:00.0 is left out")
    assert "carries the node's own traffic" in problems[0]


def test_the_speed_of_an_infiniband_port_that_is_up(host: FakeHost) -> None:
    first = replace(host.profile.nics[0], ifname=None, rdma_device="mlx5_9", pci=PciAddress(0, 0x1D, 0))
    host.add_nic(first, ())
    port = host.folder("0000:1d:00.0") / "infiniband/mlx5_9/ports/1"

    def speed() -> int | None:
        found, _ = nics.nics(host.root, sysfs.functions(host.root))
        return next(nic.link_speed_gbps for nic in found if nic.rdma_device == "mlx5_9")

    assert speed() == 400
    (port / "state").write_text("1: DOWN\n")
    (port / "rate").write_text("2.5 Gb/sec (1X SDR)\n")
    assert speed() is None


def test_an_ethernet_function_without_rdma_has_no_nodes(host: FakeHost) -> None:
    host.add_nic(replace(host.profile.nics[0], rdma_device=None, ifname="ens9", pci=PciAddress(0, 0x1D, 0)), ())
    found, _ = nics.nics(host.root, sysfs.functions(host.root))
    plain = next(nic for nic in found if nic.ifname == "ens9")
    assert (plain.rdma_device, plain.nodes, plain.link_speed_gbps) == (None, (), 400)
