"""The machine's hardware read from made-up files and answers: what is published when parts of it are sick."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpu_dra.pci import PciAddress
from node_agent import profile as profiles
from node_agent.adapters import simulated
from node_agent.adapters.hardware import BACK_OFF, FULL, Hardware
from node_agent.readings import MigReading, NodeReading
from tests.fakes.nvml_answers import FakeAnswers
from tests.fakes.sysfs import RDMA_CM, FakeHost

FIRST, SECOND, FIFTH = "0000:18:00.0", "0000:2a:00.0", "0000:9a:00.0"


class Rig:
    """A split node, its NVML, and a clock."""

    def __init__(self, root: Path, name: str = "split-4x4", *, switched: bool = True) -> None:
        self.now = 1000.0
        self.host = FakeHost.of(root, name)
        self.nvml = FakeAnswers(self.host.profile, switched=switched)
        self.hardware = Hardware(root, self.nvml, with_nics=True, clock=lambda: self.now)

    def read(self, *, later: float = 0.0, closely: bool = False) -> NodeReading:
        self.now += later
        if closely:
            self.hardware.look_closely()
        return self.hardware.read()

    def doubts(self, reading: NodeReading) -> dict[str, str]:
        return {str(gpu.pci): gpu.doubt for gpu in reading.gpus if gpu.doubt is not None}


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def comparable(reading: NodeReading) -> NodeReading:
    """Without what a simulated node has otherwise: more control nodes are on a real one, and rdma_cm has another number."""
    return replace(
        reading,
        gpus=tuple(replace(gpu, mig_enabled=None) for gpu in reading.gpus),
        nics=tuple(sorted(reading.nics, key=lambda nic: nic.pci)),
        links=dict(reading.links),
        gpu_common_nodes=reading.gpu_common_nodes[:1],
        nic_common_nodes=(),
    )


@pytest.mark.parametrize("name", ["split-4x4", "dgx-h100", "l40s-4"])
@pytest.mark.parametrize("switched", [True, False])
def test_a_healthy_node_reads_as_its_profile(tmp_path: Path, name: str, switched: bool) -> None:
    rig = Rig(tmp_path, name, switched=switched)
    reading = rig.read()
    assert comparable(reading) == comparable(profiles.readings(simulated.load(name), "n", None))
    assert [(node.major, node.minor) for node in reading.nic_common_nodes] == [RDMA_CM]


def test_nvml_is_let_go_and_asked_again_only_for_a_reason(rig: Rig) -> None:
    first = rig.read()
    assert not rig.nvml.held
    for _ in range(9):
        assert rig.read(later=60) == first
    assert rig.nvml.opened == 1
    rig.read(later=FULL)
    assert rig.nvml.opened == 2
    rig.read(closely=True)
    assert rig.nvml.opened == 3


def test_a_gpu_that_hangs_from_the_start_costs_itself(rig: Rig) -> None:
    rig.nvml.faults[FIRST] = "hang"
    reading = rig.read()
    assert len(reading.gpus) == 7
    assert reading.problems == ("GPU 0000:18:00.0 is left out: NVML did not answer 'gpu' within 10 s",)
    assert len(reading.links) == 3 + 6
    # It says the same until it is asked again, and is asked again ever later.
    for _ in range(20):
        assert rig.read(later=5, closely=True) == reading
    asked = rig.nvml.asked.count(("gpu", FIRST))
    assert 2 <= asked <= 3
    for _ in range(10):
        rig.read(later=60)
    assert rig.nvml.asked.count(("gpu", FIRST)) <= asked + 4
    del rig.nvml.faults[FIRST]
    assert len(rig.read(later=BACK_OFF[1]).gpus) == 8


@pytest.mark.parametrize(("fault", "doubt"), [("hang", "silent"), ("lost", "lost"), (999, "failing")])
def test_a_gpu_that_fails_later_stays_in_doubt_with_its_mesh(rig: Rig, fault: str | int, doubt: str) -> None:
    before = rig.read()
    rig.nvml.faults[SECOND] = fault
    reading = rig.read(closely=True)
    assert rig.doubts(reading) == {SECOND: doubt}
    assert reading.links == before.links
    assert not reading.problems
    assert {gpu.uuid for gpu in reading.gpus} == {gpu.uuid for gpu in before.gpus}
    rig.nvml.faults.clear()
    assert rig.read(later=BACK_OFF[1], closely=True) == before


def test_nvml_that_hangs_altogether(rig: Rig) -> None:
    rig.nvml.faults[""] = "hang"
    reading = rig.read()
    assert reading.gpus == ()
    assert "NVML cannot be asked: NVML did not answer" in (reading.reason or "")
    assert len(reading.nics) == 4
    opened = rig.nvml.opened
    for _ in range(10):
        rig.read(later=1, closely=True)
    assert rig.nvml.opened == opened
    del rig.nvml.faults[""]
    before = rig.read(later=BACK_OFF[0])
    assert len(before.gpus) == 8
    rig.nvml.faults[""] = "hang"
    reading = rig.read(closely=True)
    assert set(rig.doubts(reading).values()) == {"silent"}
    assert reading.links == before.links


def test_without_a_driver_there_is_a_reason_and_it_recovers(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.host.unload_driver()
    reading = rig.read()
    assert reading.gpus == ()
    assert reading.reason == (
        f"the NVIDIA kernel driver is not loaded ({tmp_path}/proc/driver/nvidia/version is not there), and the node has"
        " 8 NVIDIA GPUs"
    )
    assert rig.nvml.opened == 0
    rig.host.load_driver(rig.nvml.reading)
    assert len(rig.read(later=1).gpus) == 8


def test_a_new_driver_is_noticed(rig: Rig) -> None:
    rig.read()
    rig.nvml.reading = replace(rig.nvml.reading, driver_version="590.1.1")
    rig.host.load_driver(rig.nvml.reading)
    assert rig.read(later=1).driver_version == "590.1.1"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (9, "NVML: error 9"),
        (18, "of another version than the loaded kernel module"),
        (12, "--driver-root"),
    ],
)
def test_nvml_that_cannot_be_opened_is_a_reason(rig: Rig, code: int, words: str) -> None:
    rig.nvml.faults[""] = code
    reading = rig.read()
    assert reading.gpus == ()
    assert words in (reading.reason or "")
    assert reading.driver_version == "580.105.08"


def test_a_node_without_gpus_does_not_open_nvml(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, replace(simulated.load("split-4x4"), gpus=(), nvlinks={}), driver=False)
    nvml = FakeAnswers(host.profile)
    reading = Hardware(tmp_path, nvml, with_nics=True).read()
    assert (reading.gpus, reading.reason, nvml.opened) == ((), "this node has no NVIDIA GPU", 0)
    assert len(reading.nics) == 4
    assert Hardware(tmp_path, nvml, with_nics=False).read().nics == ()


def test_a_card_that_leaves_the_bus_is_gone_and_another_in_its_place_is_another(rig: Rig) -> None:
    old = rig.read().gpus[0]
    rig.host.remove(FIRST)
    (rig.host.root / "proc/driver/nvidia/gpus" / FIRST / "information").unlink()
    (rig.host.root / "proc/driver/nvidia/gpus" / FIRST).rmdir()
    assert len(rig.read(later=1).gpus) == 7
    rig.host.add_gpu(rig.host.profile.gpus[0])
    rig.host.load_driver(rig.nvml.reading)
    rig.nvml.gpus[FIRST] = replace(old, uuid="GPU-other")
    rig.nvml.faults[FIRST] = "lost"
    reading = rig.read(later=1)
    assert str(reading.gpus[0].pci) == SECOND
    assert reading.problems == (f"GPU {FIRST} is left out: NVML: GPU is lost",)
    rig.nvml.faults.clear()
    assert rig.read(closely=True).gpus[0].uuid == "GPU-other"


def test_a_card_that_is_passed_through_is_left_out(rig: Rig) -> None:
    shutil_information = rig.host.root / "proc/driver/nvidia/gpus" / FIRST / "information"
    shutil_information.unlink()
    (rig.host.folder(FIRST) / "driver").symlink_to("../../../../bus/pci/drivers/vfio-pci")
    reading = rig.read()
    assert len(reading.gpus) == 7
    assert reading.problems == (f"GPU {FIRST} is left out: it is bound to the driver vfio-pci, not to nvidia",)
    assert ("gpu", FIRST) not in rig.nvml.asked


def test_mig_devices_are_read_and_noticed(rig: Rig) -> None:
    rig.host.write("proc/driver/nvidia-caps/mig-minors", "gpu0/gi1/access 12\ngpu0/gi1/ci0/access 13")
    assert rig.read().gpus[0].migs == ()
    mig = MigReading("MIG-1", 0, "1g.10gb", 1, 0, memory_bytes=10 << 30)
    rig.nvml.migs[FIRST] = [mig]
    rig.host.write("proc/driver/nvidia/capabilities/gpu0/mig/gi1/ci0/access", "DeviceFileMinor: 13")
    (gpu, *others) = rig.read(later=1).gpus
    assert gpu.mig_enabled
    assert [replace(found, nodes=()) for found in gpu.migs] == [mig]
    assert [node.path for node in gpu.migs[0].nodes] == [
        "/dev/nvidia-caps/nvidia-cap12",
        "/dev/nvidia-caps/nvidia-cap13",
    ]
    assert not any(other.migs for other in others)


def test_a_gpu_that_sysfs_does_not_show_is_published_without_its_place(rig: Rig) -> None:
    rig.host.remove(FIRST)
    gpu = rig.read().gpus[0]
    assert (gpu.pci, gpu.pcie_root, gpu.numa_node) == (PciAddress.parse(FIRST), None, None)


def test_a_switch_link_that_is_down_lowers_its_pairs(rig: Rig) -> None:
    """The fewer links of two GPUs are those between them."""
    whole = rig.read()
    rig.nvml.reading = replace(
        rig.nvml.reading,
        links={names: 17 if rig.nvml.gpus[FIRST].uuid in names else count for names, count in whole.links.items()},
    )
    reading = rig.read(closely=True)
    assert sorted(reading.links.values()) == [17] * 3 + [18] * 9
