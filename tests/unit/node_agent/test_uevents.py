"""Which of the kernel's messages are about our hardware."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node_agent.adapters.uevents import Uevents, matters
from tests.needs import need


def message(action: str, path: str, subsystem: str) -> bytes:
    fields = [f"{action}@{path}", f"ACTION={action}", f"DEVPATH={path}", f"SUBSYSTEM={subsystem}", "SEQNUM=4711", ""]
    return "\0".join(fields).encode()


@pytest.mark.parametrize(
    ("action", "path", "subsystem", "ours"),
    [
        ("remove", "/devices/pci0000:15/0000:15:01.0/0000:18:00.0", "pci", True),
        ("add", "/devices/pci0000:15/0000:15:01.0/0000:18:00.0/drm/card0", "drm", True),
        ("add", "/module/nvidia", "module", True),
        ("remove", "/module/mlx5_ib", "module", True),
        ("add", "/module/xfs", "module", False),
        ("add", "/devices/pci0000:15/0000:15:01.0/0000:19:00.0/net/ens1np0", "net", True),
        ("add", "/devices/virtual/net/veth12345678", "net", False),
        ("add", "/devices/pci0000:15/0000:19:00.0/infiniband/mlx5_0", "infiniband", True),
        ("change", "/devices/virtual/block/loop0", "block", False),
    ],
)
def test_what_matters(action: str, path: str, subsystem: str, ours: bool) -> None:
    assert matters(message(action, path, subsystem)) is ours


@given(st.binary(max_size=200))
def test_any_bytes_are_taken(text: bytes) -> None:
    assert matters(text) in {True, False}


def test_the_kernel_gives_the_socket() -> None:
    uevents = Uevents()
    try:
        with uevents:
            pass
    except Exception as problem:  # noqa: BLE001
        need(False, f"netlink uevents are not to be had here: {problem}")
