"""The real pynvml, in its process of its own, on a NVML library of ours: the same GPUs as the simulated backend shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_dra import topology
from gpu_dra.pci import PciAddress
from node_agent import inventory
from node_agent import profile as profiles
from node_agent.adapters import simulated
from node_agent.adapters.hardware import Hardware
from node_agent.adapters.nvml import NvmlClient, NvmlError, NvmlSilent
from node_agent.readings import MigReading, NodeReading
from tests.fakes import nvml
from tests.fakes.nvml import FakeNvml
from tests.fakes.sysfs import FakeHost
from tests.needs import need


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need(nvml.compiler() is not None, "there is no C compiler (cc); install gcc")
    return nvml.compiled(tmp_path_factory.mktemp("nvml"))


class Rig:
    """A machine of made-up files whose NVML is the library."""

    def __init__(self, root: Path, library: Path, name: str, *, switched: bool = True) -> None:
        self.host = FakeHost.of(root / "host", name)
        self.fake = FakeNvml.of(root / "nvml.txt", self.host.profile, switched=switched)
        self.client = NvmlClient(str(library), deadline=1.0, open_deadline=20.0)
        self.hardware = Hardware(self.host.root, self.client, with_nics=True)

    def read(self) -> NodeReading:
        self.hardware.look_closely()
        return self.hardware.read()


@pytest.fixture
def rig(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setenv("GPU_DRA_FAKE_NVML", str(tmp_path / "nvml.txt"))
    made = Rig(tmp_path, library, "split-4x4")
    yield made
    made.client.close()


@pytest.mark.parametrize("switched", [True, False])
@pytest.mark.parametrize("name", ["split-4x4", "dgx-h100", "l40s-4"])
def test_real_nvml_calls_show_what_the_simulated_backend_shows(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch, name: str, switched: bool
) -> None:
    monkeypatch.setenv("GPU_DRA_FAKE_NVML", str(tmp_path / "nvml.txt"))
    rig = Rig(tmp_path, library, name, switched=switched)
    wanted = profiles.readings(simulated.load(name), "n", None)
    if not switched:
        # No board has the links for 18 to each of several peers without a switch.
        rig.fake.links = dict.fromkeys(rig.fake.links, 2)
        rig.fake.write()
        wanted = replace(wanted, links=dict.fromkeys(wanted.links, 2))
    try:
        found = rig.read()
    finally:
        rig.client.close()
    assert [replace(gpu, mig_enabled=None) for gpu in found.gpus] == list(wanted.gpus)
    assert dict(found.links) == dict(wanted.links)
    assert (found.driver_version, found.cuda_driver_version, found.reason, found.problems) == (
        wanted.driver_version,
        wanted.cuda_driver_version,
        None,
        (),
    )
    assert inventory.gpus(found).devices == inventory.gpus(wanted).devices


def test_the_split_node_has_two_meshes(rig: Rig) -> None:
    found = rig.read()
    groups = topology.meshes([gpu.uuid for gpu in found.gpus], found.links)
    assert [len(group) for group in groups] == [4, 4]


@pytest.mark.parametrize("function", ["*", "nvmlDeviceGetUUID", "nvmlDeviceGetNvLinkState", "nvmlDeviceGetP2PStatus"])
def test_a_gpu_that_hangs_in_a_call_costs_itself(rig: Rig, function: str) -> None:
    rig.fake.faults = [(3, function, "hang")]
    rig.fake.write()
    found = rig.read()
    healthy = [gpu for gpu in found.gpus if gpu.doubt is None]
    assert len(healthy) == 7
    assert len(found.problems) + sum(gpu.doubt == "silent" for gpu in found.gpus) == 1
    assert rig.client.abandoned == 0


def test_a_gpu_that_hangs_later_is_in_doubt(rig: Rig) -> None:
    before = rig.read()
    rig.fake.faults = [(3, "*", "hang")]
    rig.fake.write()
    found = rig.read()
    assert [gpu.doubt for gpu in found.gpus] == [None] * 3 + ["silent"] + [None] * 4
    assert found.links == before.links


def test_a_gpu_that_is_lost_or_crashes_the_library_costs_itself(rig: Rig) -> None:
    rig.read()
    rig.fake.faults = [(0, "*", 15), (7, "nvmlDeviceGetName", "crash")]
    rig.fake.write()
    assert [gpu.doubt for gpu in rig.read().gpus] == ["lost", *[None] * 6, "silent"]


def test_nvml_that_hangs_on_opening(rig: Rig, library: Path) -> None:
    rig.fake.faults = [(None, "nvmlInitWithFlags", "hang")]
    rig.fake.write()
    client = NvmlClient(str(library), deadline=1.0, open_deadline=2.0)
    with pytest.raises(NvmlSilent, match="did not answer 'open' within 2 s"):
        client.open()
    client.close()


def test_the_driver_is_not_loaded_and_then_comes(rig: Rig) -> None:
    rig.fake.faults = [(None, "nvmlInitWithFlags", 9)]
    rig.fake.write()
    assert "NVML: " in (rig.read().reason or "")
    rig.fake.faults = []
    rig.fake.write()
    assert len(rig.read().gpus) == 8


def test_a_library_that_is_not_there(tmp_path: Path) -> None:
    with NvmlClient(str(tmp_path / "none.so")) as client, pytest.raises(NvmlError, match="cannot be loaded"):
        client.open()


def test_mig_devices(rig: Rig) -> None:
    first = MigReading("MIG-1", 0, "1g.10gb", 9, 0, memory_bytes=9856 << 20, multiprocessors=16)
    second = MigReading("MIG-2", 2, "1c.3g.40gb", 2, 1, memory_bytes=40320 << 20, multiprocessors=16)
    rig.fake.migs = {2: [first, second]}
    rig.fake.write()
    gpu = rig.read().gpus[2]
    assert gpu.mig_enabled
    told = [
        (mig.uuid, mig.index, mig.profile, mig.gpu_instance, mig.compute_instance, mig.memory_bytes) for mig in gpu.migs
    ]
    assert told == [("MIG-1", 0, "1g.10gb", 9, 0, 9856 << 20), ("MIG-2", 2, "1c.3g.40gb", 2, 1, 40320 << 20)]


def test_a_fabric_of_one_node_is_none_and_one_of_many_is_named(rig: Rig) -> None:
    rig.fake.fabric = {0: ("0" * 32, 0), 1: ("0123456789abcdef0123456789abcdef", 2)}
    rig.fake.write()
    assert [gpu.fabric_clique_id for gpu in rig.read().gpus[:3]] == [
        None,
        "01234567-89ab-cdef-0123-456789abcdef.2",
        None,
    ]


def test_odd_answers_keep_the_good_devices(rig: Rig) -> None:
    gpus = rig.fake.gpus
    gpus[0] = replace(gpus[0], product_name="NVIDIA \xff\xfe")
    gpus[1] = replace(gpus[1], uuid="")
    gpus[2] = replace(gpus[2], uuid=gpus[3].uuid)
    gpus[4] = replace(gpus[4], architecture="Next", brand="Next")
    rig.fake.driver = "580.105.08.01"
    rig.fake.write()
    offered = inventory.gpus(rig.read())
    assert {str(device.attributes["pci_bus_id"]) for device in offered.devices} == {
        str(gpu.pci) for number, gpu in enumerate(gpus) if number not in {1, 3}
    }
    assert len(offered.problems) == 2


def test_a_hundred_gpus(rig: Rig) -> None:
    rig.fake.gpus = [
        replace(
            rig.fake.gpus[0], uuid=f"GPU-{number}", minor=number, pci=PciAddress(number // 32 + 1, number % 32 + 1, 0)
        )
        for number in range(100)
    ]
    rig.fake.links = {(one, one + 1): 4 for one in range(0, 100, 2)}
    rig.fake.write()
    for old in rig.host.profile.gpus:
        rig.host.remove(str(old.pci))
    for new in rig.fake.gpus:
        rig.host.add_gpu(replace(rig.host.profile.gpus[0], pci=new.pci))
    rig.host.unload_driver()
    rig.host.load_driver(replace(profiles.readings(rig.host.profile, "n", None), gpus=tuple(rig.fake.gpus)))
    found = rig.read()
    assert len(found.gpus) == 100
    assert len(found.links) == 50
    assert len(inventory.gpus(found).devices) == 100
