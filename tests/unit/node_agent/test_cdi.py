"""The CDI file of a claim against the specification of version 0.5.0, which is all that older runtimes know."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpu_dra.names import ClaimUid, DeviceName
from node_agent import cdi, inventory, profile
from node_agent.adapters import simulated
from node_agent.inventory import Inventory
from node_agent.readings import DeviceNode, NodeReading

GPUS, NICS = "gpu.nvidia.com", "nic.gpu-dra.io"
UID = ClaimUid("0f6e3c1a-7d0c-4f0e-9a53-9d1f6f1b2c3d")
PROFILES = ["dgx-h100", "l40s-4", "split-4x4"]
DEVICE = r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?"
NULL = DeviceNode("/dev/null", 1, 3)

# Fields of cdiVersion 0.5.0 (SPEC.md of the Container Device Interface), those only that a device file needs.
EDITS = {
    "type": "object",
    "additionalProperties": False,
    "minProperties": 1,
    "properties": {
        "env": {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": r"\A[A-Z_]+=.+\Z"}},
        "deviceNodes": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["path", "type", "major", "minor"],
                "properties": {
                    "path": {"type": "string", "pattern": r"\A/dev/."},
                    "hostPath": {"type": "string", "pattern": r"\A/."},
                    "type": {"const": "c"},
                    "major": {"type": "integer", "minimum": 1},
                    "minor": {"type": "integer", "minimum": 0},
                    "fileMode": {"const": 0o666},
                    "permissions": {"const": "rw"},
                },
            },
        },
    },
}
SPECIFICATION = {
    "type": "object",
    "additionalProperties": False,
    "required": ["cdiVersion", "kind", "devices"],
    "properties": {
        "cdiVersion": {"const": "0.5.0"},
        "kind": {
            "type": "string",
            "pattern": r"\A[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]/[A-Za-z][A-Za-z0-9_-]*[A-Za-z0-9]\Z",
        },
        "devices": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name", "containerEdits"],
                "properties": {
                    "name": {"type": "string", "pattern": rf"\A{DEVICE}\Z"},
                    "containerEdits": EDITS,
                },
            },
        },
        "containerEdits": EDITS,
    },
}


def reading_of(name: str, root: PurePosixPath | None) -> NodeReading:
    return profile.readings(simulated.load(name), "n1", root)


def spec_of(driver: str, found: Inventory, env: tuple[str, ...] = ()) -> dict[str, Any]:
    devices = [(name, item.nodes) for name, item in found.items.items()]
    return cdi.build(driver, UID, devices, found.common_nodes, env)


@pytest.mark.parametrize("root", [None, PurePosixPath("/var/lib/kubelet/plugins/gpu.nvidia.com/dev")])
@pytest.mark.parametrize("name", PROFILES)
def test_all_devices_of_a_profile_make_a_valid_file(name: str, root: PurePosixPath | None) -> None:
    reading = reading_of(name, root)
    for driver, found, env in (
        (GPUS, inventory.gpus(reading), cdi.GPU_ENV),
        (NICS, inventory.nics(reading), ()),
    ):
        spec = spec_of(driver, found, env)
        jsonschema.validate(json.loads(json.dumps(spec)), SPECIFICATION)
        assert len({entry["name"] for entry in spec["devices"]}) == len(found.items)
        assert [f"{spec['kind']}={entry['name']}" for entry in spec["devices"]] == [
            cdi.device_id(driver, UID, name) for name in found.items
        ]


def test_a_container_with_a_gpu_is_kept_from_the_legacy_hook_and_one_with_a_nic_is_left_alone() -> None:
    reading = reading_of("split-4x4", None)
    spec = spec_of(GPUS, inventory.gpus(reading), cdi.GPU_ENV)
    assert spec["containerEdits"]["env"] == ["NVIDIA_VISIBLE_DEVICES=void"]
    assert "env" not in spec_of(NICS, inventory.nics(reading))["containerEdits"]


def test_a_device_brings_its_own_node_and_the_claim_the_common_ones() -> None:
    root = PurePosixPath("/simulated")
    found = inventory.gpus(reading_of("l40s-4", root))
    spec = spec_of(GPUS, found)

    def node(name: str, minor: int) -> dict[str, object]:
        numbers = {"type": "c", "major": 195, "minor": minor}
        return {
            "path": f"/dev/{name}",
            **numbers,
            "hostPath": f"/simulated/{name}",
            "fileMode": 438,
            "permissions": "rw",
        }

    assert spec["containerEdits"] == {"deviceNodes": [node("nvidiactl", 255)]}
    assert [entry["containerEdits"] for entry in spec["devices"]] == [
        {"deviceNodes": [node(f"nvidia{number}", number)]} for number in range(4)
    ]


@pytest.mark.parametrize("host_path", [None, PurePosixPath("/dev/null")])
def test_a_host_path_is_written_only_where_it_differs(host_path: PurePosixPath | None) -> None:
    node = DeviceNode("/dev/null", 1, 3, host_path)
    spec = cdi.build(GPUS, UID, [(DeviceName("gpu-1"), [node])], [])
    assert "hostPath" not in spec["devices"][0]["containerEdits"]["deviceNodes"][0]


def test_nothing_common_leaves_the_edits_of_the_claim_out() -> None:
    assert "containerEdits" not in cdi.build(GPUS, UID, [(DeviceName("gpu-1"), [NULL])], [])


def test_names_of_two_claims_never_meet() -> None:
    other = ClaimUid("1" + UID[1:])
    gpu = DeviceName("gpu-1")
    assert cdi.device_id(GPUS, UID, gpu) == f"gpu.nvidia.com/claim={UID}-gpu-1" != cdi.device_id(GPUS, other, gpu)
    assert cdi.file_name(GPUS, UID) == f"gpu.nvidia.com-claim_{UID}.json" != cdi.file_name(GPUS, other)


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", fullmatch=True).filter(lambda uid: ".." not in uid))
@example(str(UID))
def test_the_claim_of_a_file_is_read_from_its_name(uid: str) -> None:
    assert cdi.is_safe_uid(uid)
    assert cdi.uid_of(GPUS, cdi.file_name(GPUS, ClaimUid(uid))) == uid
    assert cdi.uid_of(NICS, cdi.file_name(GPUS, ClaimUid(uid))) is None
    assert re.fullmatch(DEVICE, f"{uid}-gpu-1") is not None


@given(st.text())
@example("../../etc/passwd")
@example("a/b")
@example("a..b")
@example("a\n")
@example("é")
@example("x" * 129)
def test_a_uid_that_could_leave_the_folder_or_the_grammar_is_not_safe(uid: str) -> None:
    ascii_only = bool(uid) and all(char.isascii() and (char.isalnum() or char in "_.-") for char in uid)
    assert cdi.is_safe_uid(uid) == (ascii_only and uid[0].isalnum() and ".." not in uid and len(uid) <= 128)


@pytest.mark.parametrize(
    "name",
    [
        "vendor.json",
        "gpu.nvidia.com-gpu.json",
        "gpu.nvidia.com-claim_.json",
        "gpu.nvidia.com-claim_../x.json",
        "gpu.nvidia.com-claim_u1.yaml",
        "gpu.nvidia.com-claim_u1.json.tmp",
        "k8s.gpu.nvidia.com-claim_u1.json",
    ],
)
def test_files_of_others_are_nobodys_claim(name: str) -> None:
    assert cdi.uid_of(GPUS, name) is None


def test_a_device_without_nodes_still_has_an_edit() -> None:
    """The runtime refuses a file with an empty entry, and with it every container of the claim."""
    spec = cdi.build(NICS, ClaimUid("u"), [(DeviceName("nic-0000-08-00-0"), ())], ())
    assert spec["devices"] == [
        {"name": "u-nic-0000-08-00-0", "containerEdits": {"env": ["GPU_DRA_NIC_0000_08_00_0=true"]}}
    ]
