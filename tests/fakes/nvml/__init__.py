"""A libnvidia-ml.so.1 of our own, compiled when tests want it, and the file that tells it which GPUs there are."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from node_agent import profile as profiles
from node_agent.profile import Profile
from node_agent.readings import GpuReading, MigReading

SOURCE: Final = Path(__file__).with_name("nvml.c")
ARCHITECTURES: Final = {"Turing": 6, "Ampere": 7, "Ada Lovelace": 8, "Hopper": 9, "Blackwell": 10}
BRANDS: Final = {"Tesla": 2, "GeForce": 5, "Nvidia": 14}


def compiler() -> str | None:
    """The machine's C compiler; None where there is none."""
    return shutil.which("cc") or shutil.which("gcc")


def compiled(folder: Path) -> Path:
    """Build the library; warnings are errors."""
    library = folder / "libnvidia-ml.so.1"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler() or "cc", *flags, "-o", library, SOURCE], check=True)
    return library


@dataclass
class FakeNvml:
    """What the library answers: change the fields and `write`. `faults` are (GPU's place or None, function or *, what)."""

    path: Path
    gpus: list[GpuReading]
    links: dict[tuple[int, int], int]
    driver: str
    cuda: int
    switched: bool = True
    faults: list[tuple[int | None, str, str | int]] = field(default_factory=list)
    migs: dict[int, list[MigReading]] = field(default_factory=dict)
    fabric: dict[int, tuple[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, profile: Profile, *, node: str = "n", switched: bool = True) -> FakeNvml:
        """The GPUs of a profile, as the simulated backend would show them."""
        reading = profiles.readings(profile, node, None)
        major, _, minor = profile.cuda_driver_version.partition(".")
        cuda = 1000 * int(major) + 10 * int(minor)
        fake = cls(path, list(reading.gpus), dict(profile.nvlinks), profile.driver_version, cuda, switched=switched)
        fake.write()
        return fake

    def write(self) -> None:
        """Tell the library, at once and whole."""
        lines = [f"driver {self.driver} {self.cuda}"]
        lines += [self._gpu(number, gpu) for number, gpu in enumerate(self.gpus)]
        lines += [f"pair {one} {two} {count}" for (one, two), count in self.links.items()]
        lines += [f"fabric {number} {uuid} {clique}" for number, (uuid, clique) in self.fabric.items()]
        lines += [
            f"mig {number} {mig.uuid} {mig.gpu_instance} {mig.compute_instance} {(mig.memory_bytes or 0) >> 20}"
            f" {mig.multiprocessors or 0} NVIDIA H100 80GB HBM3 MIG {mig.profile}"
            for number, migs in self.migs.items()
            for mig in migs
        ]
        lines += [f"fault {'*' if gpu is None else gpu} {function} {what}" for gpu, function, what in self.faults]
        new = self.path.with_suffix(".new")
        new.write_bytes("\n".join([*lines, ""]).encode("latin-1"))
        new.replace(self.path)

    def _gpu(self, number: int, gpu: GpuReading) -> str:
        major, _, minor = (gpu.compute_capability or "0.0").partition(".")
        mig = -1 if not gpu.mig_capable else int(number in self.migs)
        pci = f"{gpu.pci.domain:08X}:{gpu.pci.bus:02X}:{gpu.pci.device:02X}.{gpu.pci.function}"
        module = -1 if gpu.module_id is None else gpu.module_id
        architecture, brand = ARCHITECTURES.get(gpu.architecture or "", 99), BRANDS.get(gpu.brand or "", 0)
        return (
            f"gpu {pci} {gpu.uuid or '-'} {gpu.minor} {module} {major} {minor} {architecture} {brand}"
            f" {gpu.memory_bytes or 0} {mig} {int(self.switched)} {gpu.product_name}"
        )
