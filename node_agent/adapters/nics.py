"""The network functions of a machine, from /sys and the host's routes: which can do RDMA, and by which device nodes.

The interfaces that carry the node's own traffic are never among them: a pod that got the uplink could cut the node off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from node_agent.adapters import sysfs
from node_agent.adapters.sysfs import Function
from node_agent.readings import DeviceNode, NicReading

_NETWORK: Final = 0x02
"""The upper byte of a network controller's class."""
VENDORS: Final = {0x15B3: "Mellanox", 0x8086: "Intel", 0x14E4: "Broadcom", 0x1D0F: "Amazon", 0x1DD8: "AMD Pensando"}
MODELS: Final = {
    (0x15B3, 0x1013): "ConnectX-4", (0x15B3, 0x1014): "ConnectX-4", (0x15B3, 0x1015): "ConnectX-4 Lx",
    (0x15B3, 0x1016): "ConnectX-4 Lx", (0x15B3, 0x1017): "ConnectX-5", (0x15B3, 0x1018): "ConnectX-5",
    (0x15B3, 0x1019): "ConnectX-5 Ex", (0x15B3, 0x101A): "ConnectX-5 Ex", (0x15B3, 0x101B): "ConnectX-6",
    (0x15B3, 0x101C): "ConnectX-6", (0x15B3, 0x101D): "ConnectX-6 Dx", (0x15B3, 0x101F): "ConnectX-6 Lx",
    (0x15B3, 0x1021): "ConnectX-7", (0x15B3, 0x1023): "ConnectX-8", (0x15B3, 0xA2D6): "BlueField-2",
    (0x15B3, 0xA2DC): "BlueField-3", (0x1D0F, 0xEFA0): "EFA", (0x1D0F, 0xEFA1): "EFA", (0x1D0F, 0xEFA2): "EFA",
    (0x1D0F, 0xEFA3): "EFA", (0x8086, 0x1592): "E810-C", (0x8086, 0x159B): "E810-XXV",
}  # fmt: skip


def nics(root: Path, functions: Iterable[Function]) -> tuple[tuple[NicReading, ...], tuple[str, ...]]:
    """The network functions without the node's uplinks, and a sentence for each that had to be left out."""
    found = [function for function in functions if (function.device_class or 0) >> 8 == _NETWORK]
    routes = _default_routes(root)
    if routes is None:
        return (), tuple(
            f"NIC {function.pci} is left out: {root / 'proc/1/net/route'} cannot be read, so nobody knows whether it"
            " carries the node's own traffic"
            for function in found
            if sysfs.names(function.folder / "infiniband")
        )
    uplinks = _with_those_below(root, routes)
    return tuple(_reading(function) for function in found if uplinks.isdisjoint(_interfaces(function))), ()


def common_nodes(root: Path) -> tuple[DeviceNode, ...]:
    """The connection manager's node, which goes with any RDMA function; its number is the kernel's choice at boot."""
    numbers = sysfs.device_numbers(root / "sys/class/misc/rdma_cm")
    return () if numbers is None else (DeviceNode("/dev/infiniband/rdma_cm", *numbers),)


def _reading(function: Function) -> NicReading:
    interfaces = _interfaces(function)
    rdma = next(iter(sysfs.names(function.folder / "infiniband")), None)
    return NicReading(
        pci=function.pci,
        ifname=interfaces[0] if interfaces else None,
        rdma_device=rdma,
        nodes=() if rdma is None else tuple(_nodes(function.folder, rdma)),
        link_speed_gbps=_speed(function.folder, interfaces, rdma),
        vendor=VENDORS.get(function.vendor or 0),
        model=MODELS.get((function.vendor or 0, function.device or 0)),
        pcie_root=function.root,
        numa_node=function.numa_node,
        pcie_path=function.path,
    )


def _interfaces(function: Function) -> list[str]:
    return sysfs.names(function.folder / "net")


def _nodes(folder: Path, rdma: str) -> Iterable[DeviceNode]:
    """The verbs node and one management node a port of an RDMA device."""
    for table in ("infiniband_verbs", "infiniband_mad"):
        for name in sysfs.names(folder / table):
            if not name.startswith(("uverbs", "umad")) or sysfs.text(folder / table / name / "ibdev") not in (
                rdma,
                None,
            ):
                continue
            numbers = sysfs.device_numbers(folder / table / name)
            if numbers is not None:
                yield DeviceNode(f"/dev/infiniband/{name}", *numbers)


def _speed(folder: Path, interfaces: list[str], rdma: str | None) -> int | None:
    """Of the interface in Mbit/s, else of the first RDMA port that is up: one that is down reports its slowest rate."""
    for name in interfaces:
        speed = sysfs.integer(folder / "net" / name / "speed")
        if speed is not None and speed >= 1000:
            return speed // 1000
    ports = folder / "infiniband" / (rdma or "") / "ports"
    for port in sysfs.names(ports) if rdma else ():
        if "ACTIVE" in (sysfs.text(ports / port / "state") or ""):
            rate = re.match(r"(\d+)", sysfs.text(ports / port / "rate") or "")
            if rate is not None:
                return int(rate[1])
    return None


def _with_those_below(root: Path, interfaces: Iterable[str]) -> frozenset[str]:
    """Interfaces, and those that carry them: the members of a bond or a bridge, the parent of a VLAN."""
    found: set[str] = set()
    todo = list(interfaces)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            below = sysfs.names(root / "sys/class/net" / name)
            todo += [entry.removeprefix("lower_") for entry in below if entry.startswith("lower_")]
    return frozenset(found)


def _default_routes(root: Path) -> set[str] | None:
    """The interfaces of the host's default routes; None where nobody can tell."""
    # Of the first process: our own are those of the pod.
    folder = root / "proc/1/net"
    table = sysfs.text(folder / "route")
    if table is None:
        return None
    found: set[str] = set()
    for line in table.splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[1] == fields[7] == "00000000":
            found.add(fields[0])
    # Not there where IPv6 is off.
    for line in (sysfs.text(folder / "ipv6_route") or "").splitlines():
        fields = line.split()
        if len(fields) == 10 and fields[0] == "0" * 32 and fields[1] == "00":
            found.add(fields[9])
    return found - {"lo"}
