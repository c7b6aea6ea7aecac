"""Profiles from names and files, the refusal beside a real driver, and device nodes with the right numbers."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpu_dra.errors import HostError, InputError
from node_agent.adapters import simulated
from node_agent.adapters.simulated import SimulatedNode
from node_agent.readings import DeviceNode, NodeReading
from tests.needs import need

MINIMAL = 'driverVersion: "580.0"\ncudaDriverVersion: "13.0"\n'


def nodes_of(reading: NodeReading) -> list[DeviceNode]:
    nodes = [*reading.gpu_common_nodes, *reading.nic_common_nodes]
    nodes += [node for gpu in reading.gpus for node in gpu.nodes]
    return nodes + [node for nic in reading.nics for node in nic.nodes]


def need_root() -> None:
    need(os.geteuid() == 0 and sys.platform == "linux", "making device nodes needs root on Linux")


@pytest.mark.parametrize(("name", "gpus"), [("dgx-h100", 8), ("l40s-4", 4), ("split-4x4", 8)])
def test_a_shipped_profile_by_its_name(name: str, gpus: int) -> None:
    assert len(simulated.load(name).gpus) == gpus


def test_a_profile_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(InputError, match=r"'dgx-9'.* choose one of dgx-h100, l40s-4, split-4x4, or give the path"):
        simulated.load("dgx-9")


@pytest.mark.parametrize("name", ["fleet.yaml", "fleet.yml", "fleet"])
def test_a_profile_from_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(MINIMAL)
    read = simulated.load(str(tmp_path / name))
    assert (read.driver_version, read.gpus, read.numa_nodes) == ("580.0", (), 1)


def test_a_file_with_the_name_of_a_shipped_profile_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "l40s-4").write_text(MINIMAL)
    monkeypatch.chdir(tmp_path)
    assert len(simulated.load("l40s-4").gpus) == 4
    assert simulated.load("./l40s-4").gpus == ()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "the profile cannot be read: "),
        (b"\xff\xfe\x00", "the profile cannot be read: "),
        (b"gpus: [", "this is no YAML that can be read: "),
        (b"a: b: c", "this is no YAML that can be read: "),
        (b"", "the document is empty"),
        (MINIMAL.encode() + b"colour: red", "colour is not a known field"),
    ],
    ids=["missing", "no text", "no end", "no YAML", "empty", "unknown field"],
)
def test_the_error_names_the_file_and_the_reason(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "fleet.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        simulated.load(str(path))
    assert caught.value.where == str(path)
    assert caught.value.problems[0].startswith(reason)


tags = st.sampled_from(["!!int ", "!!float ", "!!bool ", "!!timestamp ", "!!binary ", "!!set ", "!!omap ", "!x "])
marks = st.sampled_from(
    ["gpus", ": ", "- ", "[", "]", "{", "}", "\n", "  ", "&a ", "*a", "<<: ", "? ", "|", '"', "0x", "1:1"]
)


@given(st.lists(tags | marks | st.text(st.characters(exclude_categories=["Cs"]), max_size=4), max_size=12).map("".join))
@example("a: 1" + ":1" * 200 + ".")
@example('a: "\\UFFFFFFFF"')
@example("a: 2001-13-01")
@example("a: 2001-01-01T00:00:00+99:99")
@example("a: " + "9" * 5000)
@example("!!int ''")
@example("!!timestamp x")
@example("&a {<<: *a}")
@example("&a [*a]")
@example("gpus: &a [*a]")
@example("[" * 5000)
@settings(max_examples=200)
def test_no_text_raises_anything_but_the_documented_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(text)
    with pytest.raises(InputError):
        simulated.load(str(path))


@pytest.mark.parametrize(
    ("path", "nics", "driver"),
    [
        ("proc/driver/nvidia/version", False, "NVIDIA kernel driver"),
        ("sys/module/nvidia", True, "NVIDIA kernel driver"),
        ("sys/module/ib_uverbs", True, "InfiniBand verbs driver"),
    ],
)
def test_it_refuses_beside_a_real_driver(tmp_path: Path, path: str, nics: bool, driver: str) -> None:
    (tmp_path / path).mkdir(parents=True)
    with pytest.raises(HostError, match=rf"{driver} is loaded on this node \({tmp_path / path} exists\)"):
        simulated.refuse_beside_a_real_driver(tmp_path, nics=nics)


def test_it_starts_where_no_driver_is_loaded_that_it_would_stand_for(tmp_path: Path) -> None:
    (tmp_path / "sys/module/ib_core").mkdir(parents=True)
    simulated.refuse_beside_a_real_driver(tmp_path, nics=True)
    (tmp_path / "sys/module/ib_uverbs").mkdir()
    simulated.refuse_beside_a_real_driver(tmp_path, nics=False)


def test_without_a_root_nodes_are_only_described() -> None:
    nodes = nodes_of(SimulatedNode(simulated.load("l40s-4"), "n1", None).read())
    assert {node.path for node in nodes} >= {"/dev/nvidiactl", "/dev/nvidia3", "/dev/infiniband/uverbs1"}
    assert {node.host_path for node in nodes} == {None}


def test_a_folder_that_cannot_hold_nodes_is_told_with_the_node_and_what_it_takes(tmp_path: Path) -> None:
    (tmp_path / "dev").write_text("a file where the folder should be")
    node = SimulatedNode(simulated.load("l40s-4"), "n1", tmp_path / "dev")
    with pytest.raises(HostError, match=r"dev/nvidiactl \(195:255\): .*needs root with CAP_MKNOD"):
        node.read()


@pytest.mark.root
def test_nodes_are_there_with_their_numbers_and_open_to_every_user(tmp_path: Path) -> None:
    need_root()
    reading = SimulatedNode(simulated.load("l40s-4"), "n1", tmp_path).read()
    for node in nodes_of(reading):
        found = Path(str(node.host_path)).stat()
        assert stat.S_ISCHR(found.st_mode)
        assert (os.major(found.st_rdev), os.minor(found.st_rdev)) == (node.major, node.minor)
        assert stat.S_IMODE(found.st_mode) == 0o666


@pytest.mark.root
def test_what_is_right_stays_and_what_is_wrong_is_made_again(tmp_path: Path) -> None:
    need_root()
    node = SimulatedNode(simulated.load("l40s-4"), "n1", tmp_path)
    node.read()
    kept, wrong, plain, link = (tmp_path / f"nvidia{number}" for number in range(4))
    inode = kept.stat().st_ino
    link.rename(tmp_path / "elsewhere")
    for path in (wrong, plain):
        path.unlink()
    os.mknod(wrong, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    plain.write_text("")
    link.symlink_to("elsewhere")
    node.read()
    assert kept.stat().st_ino == inode
    for number, path in enumerate((kept, wrong, plain, link)):
        found = path.lstat()
        assert (stat.S_ISCHR(found.st_mode), found.st_rdev) == (True, os.makedev(195, number))
