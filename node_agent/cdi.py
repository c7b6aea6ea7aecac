"""Prepared devices -> the CDI file of one claim. Pure.

One file and one device name a claim and device, never shared between claims: a runtime's cache then never holds a stale
answer, and two claims in one container only repeat the same edits. Source: CNCF Container Device Interface, SPEC.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from gpu_dra.names import ClaimUid, DeviceName
from node_agent.readings import DeviceNode

VERSION: Final = "0.5.0"
"""hostPath and names that start with a digit need 0.5.0; nothing here needs more, and older runtimes refuse more."""

CLASS: Final = "claim"

GPU_ENV: Final = ("NVIDIA_VISIBLE_DEVICES=void",)
"""Of every container with a GPU: keeps a legacy hook of the vendor's container toolkit from adding all GPUs of the node."""

_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


def file_name(driver: str, uid: ClaimUid) -> str:
    """`<vendor>-<class>_<id>.json`, as the specification has it for files that come and go."""
    return f"{file_prefix(driver)}{uid}.json"


def file_prefix(driver: str) -> str:
    """How the names of all our files start, and nobody else's."""
    return f"{driver}-{CLASS}_"


def uid_of(driver: str, name: str) -> ClaimUid | None:
    """The claim of a file name of ours; None for anybody else's."""
    prefix = file_prefix(driver)
    if name.startswith(prefix) and name.endswith(".json"):
        uid = name.removeprefix(prefix).removesuffix(".json")
        return ClaimUid(uid) if is_safe_uid(uid) else None
    return None


def is_safe_uid(uid: str) -> bool:
    """Whether a claim's uid can be part of file and device names (every uid of an API server can)."""
    return _UID.fullmatch(uid) is not None and ".." not in uid


def device_id(driver: str, uid: ClaimUid, device: DeviceName) -> str:
    """The qualified name by which kubelet hands the device to the runtime: vendor/class=name."""
    return f"{driver}/{CLASS}={_device_name(uid, device)}"


def build(
    driver: str,
    uid: ClaimUid,
    devices: Iterable[tuple[DeviceName, Sequence[DeviceNode]]],
    common: Sequence[DeviceNode],
    env: Sequence[str] = (),
) -> dict[str, Any]:
    """The specification of one claim: an entry for each device, and the edits that go with any of them."""
    edits: dict[str, Any] = {}
    if env:
        edits["env"] = list(env)
    if common:
        edits["deviceNodes"] = [_node(node) for node in common]
    return {
        "cdiVersion": VERSION,
        "kind": f"{driver}/{CLASS}",
        "devices": [
            {"name": _device_name(uid, name), "containerEdits": _device_edits(name, nodes)} for name, nodes in devices
        ],
        **({"containerEdits": edits} if edits else {}),
    }


def _device_edits(name: DeviceName, nodes: Sequence[DeviceNode]) -> dict[str, Any]:
    if nodes:
        return {"deviceNodes": [_node(node) for node in nodes]}
    # An entry without any edit is invalid; a device without nodes (a NIC without RDMA) is at least told of.
    return {"env": [f"GPU_DRA_{name.upper().replace('-', '_')}=true"]}


def _device_name(uid: ClaimUid, device: DeviceName) -> str:
    return f"{uid}-{device}"


def _node(node: DeviceNode) -> dict[str, Any]:
    # Type and numbers stand in the file, so that a container never gets another device that has moved to that path.
    entry: dict[str, Any] = {"path": node.path, "type": "c", "major": node.major, "minor": node.minor}
    if node.host_path is not None and str(node.host_path) != node.path:
        entry["hostPath"] = str(node.host_path)
    return {**entry, "fileMode": 0o666, "permissions": "rw"}
