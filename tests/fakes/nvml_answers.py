"""What the process that asks NVML would answer, made from a profile, with faults to order."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from node_agent import profile as profiles
from node_agent.adapters.nvml import NvmlError, NvmlSilent
from node_agent.profile import Profile
from node_agent.readings import GpuReading, MigReading, pair

_GPU_FIELDS = (
    "uuid", "product_name", "index", "minor", "brand", "architecture", "compute_capability", "memory_bytes", "mig_capable",
    "nvlink_version", "module_id", "fabric_clique_id",
)  # fmt: skip


class FakeAnswers:
    """Answers as NvmlClient. `faults` by PCI address ("" for opening): hang, lost, or the number of another error."""

    def __init__(self, profile: Profile, node: str = "n", *, switched: bool = True) -> None:
        self.reading = profiles.readings(profile, node, None)
        self.gpus: dict[str, GpuReading] = {str(gpu.pci): gpu for gpu in self.reading.gpus}
        self.migs: dict[str, list[MigReading]] = {}
        self.faults: dict[str, str | int] = {}
        self.asked: list[tuple[str, str]] = []
        self.opened = 0
        self.held = False
        self._switched = switched

    def open(self) -> dict[str, Any]:
        self.opened += 1
        self._fail("")
        self.held = True
        return {
            "driver_version": self.reading.driver_version,
            "cuda_driver_version": self.reading.cuda_driver_version,
            "count": len(self.gpus),
        }

    def ask(self, do: str, **request: Any) -> Any:
        pci = request["pci"]
        self.asked.append((do, pci))
        self._fail(pci)
        if pci not in self.gpus:
            raise NvmlError("NVML: Not Found", 6)
        gpu = self.gpus[pci]
        match do:
            case "gpu":
                said = {name: getattr(gpu, name) for name in _GPU_FIELDS if getattr(gpu, name) is not None}
                return {**said, "mig_enabled": pci in self.migs, "serial": "1650522003820"}
            case "migs":
                kept = [
                    {key: value for key, value in asdict(mig).items() if value is not None} for mig in self.migs[pci]
                ]
                return [{key: value for key, value in mig.items() if key != "nodes"} for mig in kept]
            case "links":
                if self._switched:
                    most = max((self._between(pci, other) for other in self.gpus if other != pci), default=0)
                    return [{"link": number, "peer": "switch", "version": 4} for number in range(most)]
                return [
                    {"link": number, "peer": "gpu", "pci": other, "version": 4}
                    for other in self.gpus
                    for number in range(self._between(pci, other))
                ]
            case "joined":
                return [other for other in request["others"] if self._between(pci, other)]
            case _:
                raise AssertionError(do)

    def release(self) -> None:
        self.held = False

    def close(self) -> None:
        self.held = False

    def _between(self, one: str, other: str) -> int:
        if one == other:
            return 0
        return self.reading.links.get(pair(self.gpus[one].uuid, self.gpus[other].uuid), 0)

    def _fail(self, pci: str) -> None:
        match self.faults.get(pci):
            case None:
                return
            case "hang":
                raise NvmlSilent("NVML did not answer 'gpu' within 10 s")
            case "lost":
                raise NvmlError("NVML: GPU is lost", 15)
            case code:
                raise NvmlError(f"NVML: error {code}", int(code))
