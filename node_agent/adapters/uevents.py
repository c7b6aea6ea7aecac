"""What the kernel says of devices that come and go: the uevent netlink socket, as udev hears it.

The kernel sends these to every network namespace of the initial user namespace, so a pod needs no host network for it.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final, Self

from gpu_dra.errors import HostError

_NETLINK_KOBJECT_UEVENT: Final = 15
_KERNEL_GROUP: Final = 1
_SUBSYSTEMS: Final = (b"pci", b"nvidia", b"nvidia_uvm", b"drm", b"infiniband", b"infiniband_verbs", b"net", b"module")
_MAX_MESSAGE: Final = 1 << 16


def matters(message: bytes) -> bool:
    """Whether a message (`action@path`, then NUL-separated KEY=value) is about GPUs, NICs or a driver's module."""
    head, *fields = message.split(b"\0")
    if b"@" not in head:
        return False
    subsystem = next((entry[10:] for entry in fields if entry.startswith(b"SUBSYSTEM=")), b"")
    if subsystem == b"module":
        return b"/nvidia" in head or b"/mlx" in head or b"/ib_" in head
    if subsystem == b"net":
        # Each pod's veth comes and goes here, too; only a card's interface lies below a PCI device.
        return b"/pci" in head
    return subsystem in _SUBSYSTEMS


class Uevents:
    """Use as `with Uevents() as uevents`; `wait` returns when one that matters has come."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        """HostError where the kernel gives no such socket."""
        try:
            kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
            self._socket = socket.socket(socket.AF_NETLINK, kind, _NETLINK_KOBJECT_UEVENT)
            self._socket.bind((0, _KERNEL_GROUP))
        except OSError as problem:
            raise HostError(f"the kernel's uevents cannot be heard: {problem.strerror}") from problem
        return self

    def __exit__(self, *_details: object) -> None:
        if self._socket is not None:
            self._socket.close()

    async def wait(self) -> None:
        assert self._socket is not None
        loop = asyncio.get_running_loop()
        while True:
            try:
                message = await loop.sock_recv(self._socket, _MAX_MESSAGE)
            except OSError:
                # ENOBUFS: more came than the socket holds, so nobody knows what was said.
                return
            if matters(message):
                return
