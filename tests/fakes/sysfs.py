"""A machine's /sys and /proc as files below a folder, made from a profile: what the readers see of a real one."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from node_agent import profile as profiles
from node_agent.adapters import nics, simulated
from node_agent.profile import Gpu, Nic, Profile
from node_agent.readings import DeviceNode, NodeReading

GPU_CLASS = "0x030200"
NIC_CLASS = "0x020000"
RDMA_CM = (10, 121)


class FakeHost:
    """The files of one machine. Change them as the kernel would: `remove` takes a function off the bus."""

    def __init__(self, root: Path, profile: Profile, *, driver: bool = True) -> None:
        self.root = root
        self.profile = profile
        for number in range(profile.numa_nodes):
            (root / f"sys/devices/system/node/node{number}").mkdir(parents=True)
        self.write("proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555")
        self.routes("eth0")
        for gpu in profile.gpus:
            self.add_gpu(gpu)
        reading = profiles.readings(profile, "n", None)
        for nic, read in zip(profile.nics, reading.nics, strict=True):
            self.add_nic(nic, read.nodes)
        if any(nic.rdma_device for nic in profile.nics):
            self.write("sys/class/misc/rdma_cm/dev", "{}:{}".format(*RDMA_CM))
        if driver:
            self.load_driver(reading)

    @classmethod
    def of(cls, root: Path, name: str, *, driver: bool = True) -> FakeHost:
        """By the name of a profile that comes with the agent."""
        return cls(root, simulated.load(name), driver=driver)

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text + "\n")

    def folder(self, pci: str) -> Path:
        """Where a function's files are."""
        return (self.root / "sys/bus/pci/devices" / pci).resolve()

    def add_gpu(self, gpu: Gpu) -> None:
        self._function(gpu, {"vendor": "0x10de", "device": "0x2330", "class": GPU_CLASS})

    def add_nic(self, nic: Nic, nodes: Iterable[DeviceNode]) -> None:
        # The readers' own table is looked up backwards: what it does not know has no number here either.
        vendor = next((number for number, name in nics.VENDORS.items() if name == nic.vendor), 0)
        device = next((key[1] for key, name in nics.MODELS.items() if (key[0], name) == (vendor, nic.model)), 0)
        folder = self._function(nic, {"vendor": f"{vendor:#06x}", "device": f"{device:#06x}", "class": NIC_CLASS})
        files: dict[str, str] = {}
        if nic.ifname:
            files[f"net/{nic.ifname}/speed"] = str((nic.link_speed_gbps or 0) * 1000 or -1)
            (self.root / "sys/class/net" / nic.ifname).mkdir(parents=True, exist_ok=True)
        if nic.rdma_device:
            port = f"infiniband/{nic.rdma_device}/ports/1"
            files |= {f"{port}/state": "4: ACTIVE", f"{port}/rate": f"{nic.link_speed_gbps} Gb/sec (4X NDR)"}
        for node in nodes:
            name = node.path.rpartition("/")[2]
            table = "infiniband_mad" if name.startswith("umad") else "infiniband_verbs"
            files |= {
                f"{table}/{name}/dev": f"{node.major}:{node.minor}",
                f"{table}/{name}/ibdev": nic.rdma_device or "",
            }
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text + "\n")

    def remove(self, pci: str) -> None:
        """As when a card falls off the bus."""
        shutil.rmtree(self.folder(pci))
        (self.root / "sys/bus/pci/devices" / pci).unlink()

    def load_driver(self, reading: NodeReading) -> None:
        """The NVIDIA kernel module comes."""
        version = f"NVIDIA UNIX Open Kernel Module for x86_64  {reading.driver_version}  Release Build  (builder)"
        self.write("proc/driver/nvidia/version", f"NVRM version: {version}\nGCC version:  gcc version 12.2.0")
        for gpu in reading.gpus:
            text = (
                f"Model: \t\t {gpu.product_name}\nIRQ:   \t\t 16\nGPU UUID: \t {gpu.uuid}\nDevice Minor: \t {gpu.minor}"
            )
            self.write(f"proc/driver/nvidia/gpus/{gpu.pci}/information", text)
        devices = "Character devices:\n  1 mem\n195 nvidia\n234 nvidia-caps\n511 nvidia-uvm\n\nBlock devices:\n  8 sd"
        self.write("proc/devices", devices)

    def unload_driver(self) -> None:
        shutil.rmtree(self.root / "proc/driver/nvidia")

    def routes(self, *interfaces: str) -> None:
        """The interfaces that have a default route."""
        head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT"
        default = [f"{name}\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0" for name in interfaces]
        local = "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0"
        self.write("proc/1/net/route", "\n".join([head, *default, local]))

    def _function(self, device: Gpu | Nic, files: dict[str, str]) -> Path:
        steps = [device.pcie_root or "pci0000:00", *device.pcie_path, str(device.pci)]
        folder = self.root.joinpath("sys/devices", *steps)
        folder.mkdir(parents=True)
        files = {**files, "numa_node": str(-1 if device.numa_node is None else device.numa_node)}
        for name, text in files.items():
            (folder / name).write_text(text + "\n")
        links = self.root / "sys/bus/pci/devices"
        links.mkdir(parents=True, exist_ok=True)
        (links / str(device.pci)).symlink_to(Path("../../../devices", *steps))
        return folder
