"""The process that talks to NVML so that the agent need not: `python -m node_agent.nvml_worker [LIBRARY]`.

One JSON request a line on stdin, one JSON answer a line on stdout, in order: `{"ok": ...}` or `{"error": sentence, "code":
NVML's number}`. A call that never comes back holds this process alone, and who asked ends it. It decides nothing: what a
board does not say is left out of the answer. The one door to pynvml.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TextIO

import pynvml

Json = dict[str, Any]

_ARCHITECTURES: Final = {
    2: "Kepler", 3: "Maxwell", 4: "Pascal", 5: "Volta", 6: "Turing", 7: "Ampere", 8: "Ada Lovelace", 9: "Hopper",
    10: "Blackwell", 13: "Rubin",
}  # fmt: skip
_BRANDS: Final = {
    1: "Quadro", 2: "Tesla", 3: "NVS", 4: "Grid", 5: "GeForce", 6: "Titan", 7: "NvidiaVApps", 8: "NvidiaVPC",
    9: "NvidiaVCS", 10: "NvidiaVWS", 11: "NvidiaCloudGaming", 12: "QuadroRTX", 13: "NvidiaRTX", 14: "Nvidia",
    15: "GeForceRTX", 16: "TitanRTX",
}  # fmt: skip
_PEERS: Final = {0: "gpu", 1: "npu", 2: "switch"}
_MAX_LINKS: Final = 36
_NVLINK: Final = 2
"""NVML_P2P_CAPS_INDEX_NVLINK."""
_FABRIC_COMPLETED: Final = 3
_PR_SET_PDEATHSIG: Final = 1


def main(arguments: list[str] | None = None) -> int:
    """Answer until stdin ends."""
    library, *_ = [*(sys.argv[1:] if arguments is None else arguments), ""]
    # Hung in a call it would not notice that stdin has ended.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The answers go to a descriptor of their own: whatever a library prints must not come between them.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(sys.stdin, answers, Nvml(library or None))
    return 0


def serve(requests: TextIO, answers: TextIO, nvml: Nvml) -> None:
    """Answer each request; an error of NVML is an answer, too."""
    for line in requests:
        try:
            request = json.loads(line)
            answer: Json = {"ok": nvml.answer(request.pop("do"), request)}
        except pynvml.NVMLError as problem:
            answer = {"error": str(problem), "code": _code(problem)}
        except UnicodeDecodeError as problem:
            answer = {"error": f"an answer is no text: {problem}", "code": pynvml.NVML_ERROR_UNKNOWN}
        except OSError as problem:
            answer = {"error": f"the library cannot be loaded: {problem}", "code": pynvml.NVML_ERROR_LIBRARY_NOT_FOUND}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


class Nvml:
    """NVML as plain values. Devices are named by PCI address: an index may be another card after a rescan."""

    def __init__(self, library: str | None) -> None:
        self._library = library

    def answer(self, do: str, request: Mapping[str, Any]) -> Any:
        questions: Mapping[str, Callable[..., Any]] = {
            "open": self.open,
            "find": self.find,
            "gpu": self.gpu,
            "links": self.links,
            "joined": self.joined,
            "migs": self.migs,
        }
        return questions[do](**request)

    def open(self) -> Json:
        """Load the library and attach to the driver: versions, and how many GPUs it counts."""
        if self._library is not None:
            pynvml.nvmlLib = ctypes.CDLL(self._library)
        pynvml.nvmlInit()
        cuda = _unless_unknown(pynvml.nvmlSystemGetCudaDriverVersion)
        return _known(
            driver_version=_unless_unknown(pynvml.nvmlSystemGetDriverVersion),
            cuda_driver_version=None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
            count=pynvml.nvmlDeviceGetCount(),
        )

    def find(self, index: int) -> str:
        """The PCI address of the GPU at a place in NVML's list."""
        return _address(pynvml.nvmlDeviceGetPciInfo(pynvml.nvmlDeviceGetHandleByIndex(index)))

    def gpu(self, pci: str) -> Json:
        """One GPU: identity, memory in bytes, modes. UUID, name, index and minor number are always there."""
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(pci)
        capability = _unless_unknown(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
        memory = _unless_unknown(pynvml.nvmlDeviceGetMemoryInfo, handle)
        mig = _unless_unknown(pynvml.nvmlDeviceGetMigMode, handle)
        return _known(
            uuid=pynvml.nvmlDeviceGetUUID(handle),
            # A name that is no text costs the name, not the card.
            product_name=_unless_unknown(pynvml.nvmlDeviceGetName, handle) or "NVIDIA GPU",
            index=pynvml.nvmlDeviceGetIndex(handle),
            minor=pynvml.nvmlDeviceGetMinorNumber(handle),
            brand=_BRANDS.get(_unless_unknown(pynvml.nvmlDeviceGetBrand, handle)),
            architecture=_ARCHITECTURES.get(_unless_unknown(pynvml.nvmlDeviceGetArchitecture, handle)),
            compute_capability=None if capability is None else "{}.{}".format(*capability),
            memory_bytes=None if memory is None else memory.total,
            # A board without MIG answers that it is not supported.
            mig_capable=mig is not None,
            mig_enabled=None if mig is None else mig[0] == 1,
            module_id=_unless_unknown(pynvml.nvmlDeviceGetModuleId, handle),
            serial=_unless_unknown(pynvml.nvmlDeviceGetSerial, handle),
            fabric_clique_id=_fabric(handle),
            nvlink_version=next((link["version"] for link in _links(handle) if "version" in link), None),
        )

    def links(self, pci: str) -> list[Json]:
        """The active NVLinks of a GPU: what is at the other end, and where."""
        return list(_links(pynvml.nvmlDeviceGetHandleByPciBusId(pci)))

    def joined(self, pci: str, others: list[str]) -> list[str]:
        """Which of the others this GPU reaches over NVLink, through a switch or directly."""
        own = pynvml.nvmlDeviceGetHandleByPciBusId(pci)
        return [other for other in others if _reaches(own, other)]

    def migs(self, pci: str) -> list[Json]:
        """The MIG devices of a GPU in MIG mode; their places have gaps where instances were destroyed."""
        gpu = pynvml.nvmlDeviceGetHandleByPciBusId(pci)
        places = range(_unless_unknown(pynvml.nvmlDeviceGetMaxMigDeviceCount, gpu) or 0)
        handles = [(place, _unless_unknown(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, place)) for place in places]
        return [_mig(place, handle) for place, handle in handles if handle is not None]


def _mig(place: int, handle: object) -> Json:
    attributes = pynvml.nvmlDeviceGetAttributes(handle)
    # NVML ends the name with the profile, which no other call tells: "... MIG 1c.3g.40gb".
    _, _, profile = (_unless_unknown(pynvml.nvmlDeviceGetName, handle) or "").rpartition(" MIG ")
    size = f"{attributes.gpuInstanceSliceCount}g.{round(attributes.memorySizeMB / 1024)}gb"
    return _known(
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        index=place,
        profile=profile or size,
        gpu_instance=pynvml.nvmlDeviceGetGpuInstanceId(handle),
        compute_instance=pynvml.nvmlDeviceGetComputeInstanceId(handle),
        memory_bytes=attributes.memorySizeMB << 20,
        multiprocessors=attributes.multiprocessorCount,
        copy_engines=attributes.sharedCopyEngineCount,
        decoders=attributes.sharedDecoderCount,
        encoders=attributes.sharedEncoderCount,
        jpeg_engines=attributes.sharedJpegCount,
        ofa_engines=attributes.sharedOfaCount,
    )


def _reaches(own: object, other: str) -> bool:
    peer = _unless_unknown(pynvml.nvmlDeviceGetHandleByPciBusId, other)
    return peer is not None and _unless_unknown(pynvml.nvmlDeviceGetP2PStatus, own, peer, _NVLINK) == 0


def _links(handle: object) -> Iterator[Json]:
    for number in range(_MAX_LINKS):
        try:
            if pynvml.nvmlDeviceGetNvLinkState(handle, number) != 1:
                continue
        except pynvml.NVMLError as problem:
            if _code(problem) == pynvml.NVML_ERROR_GPU_IS_LOST:
                raise
            # Beyond the board's last link the argument is invalid; a board without any says not supported.
            return
        kind = _PEERS.get(_unless_unknown(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, number), "unknown")
        remote = _unless_unknown(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, number) if kind == "gpu" else None
        yield _known(
            link=number,
            peer=kind,
            pci=None if remote is None else _address(remote),
            version=_unless_unknown(pynvml.nvmlDeviceGetNvLinkVersion, handle, number),
        )


def _fabric(handle: object) -> str | None:
    """`<cluster UUID>.<clique>` of multi-node NVLink; None on one node, where the UUID is all zeros."""
    info = pynvml.c_nvmlGpuFabricInfo_v3_t()
    info.version = pynvml.nvmlGpuFabricInfo_v3
    try:
        pynvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    except pynvml.NVMLError:
        return None
    # The field's own type would stop at the first zero byte.
    raw = ctypes.string_at(ctypes.addressof(info) + type(info).clusterUuid.offset, 16)
    if info.state != _FABRIC_COMPLETED or not any(raw):
        return None
    text = raw.hex()
    uuid = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
    return f"{uuid}.{info.cliqueId}"


def _address(info: Any) -> str:
    bus = info.busId
    return (bus.decode() if isinstance(bus, bytes) else str(bus)).lower()


def _unless_unknown(ask: Callable[..., Any], *arguments: object) -> Any:
    """The answer, or None where this board or driver has none. A lost GPU is an error in any case."""
    try:
        return ask(*arguments)
    except UnicodeDecodeError:
        return None
    except pynvml.NVMLError as problem:
        if _code(problem) == pynvml.NVML_ERROR_GPU_IS_LOST:
            raise
        return None


def _code(problem: Any) -> int:
    # pynvml sets it in __new__, where no type checker sees it.
    return int(problem.value)


def _known(**values: object) -> Json:
    return {key: value for key, value in values.items() if value is not None}


if __name__ == "__main__":
    sys.exit(main())
