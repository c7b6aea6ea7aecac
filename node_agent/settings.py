"""The agent's settings: flags with environment twins, checked all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from gpu_dra import logs, names
from gpu_dra.kube.connection import SERVICE_ACCOUNT
from gpu_dra.settings import Address, Flags, absolute_path, dns_name, one_of

PROGRAM: Final = "gpu-dra-node-agent"
_EVERYWHERE: Final = Address("", 8080)


@dataclass(frozen=True, slots=True)
class Settings:
    """What one agent was told. `simulate` is the profile of this very node, or None."""

    node_name: str
    pod_uid: str
    kubelet_root: Path = Path("/var/lib/kubelet")
    cdi_root: Path = Path("/var/run/cdi")
    host_root: Path = Path("/")
    driver_root: Path = Path("/")
    nvml_library: Path | None = None
    simulate: str | None = None
    gpu_driver_name: str = names.GPU_DRIVER
    nics: bool = True
    nics_without_rdma: bool = False
    http_address: Address = _EVERYWHERE
    log_level: str = "info"
    log_format: str = "text"
    kubeconfig: Path | None = None
    service_account: Path = SERVICE_ACCOUNT


def read(arguments: Sequence[str], environ: Mapping[str, str]) -> Settings:
    """InputError names every mistake of the flags and their twins."""
    given = _flags().parse(arguments, environ)
    defaults = Settings("", "")
    node_name = given.value("node-name", dns_name)
    everywhere = given.value("simulate", _profile, optional=True)
    by_node = dict(given.values("simulate-node", _node_profile))
    settings = Settings(
        node_name=node_name,
        pod_uid=given.value("pod-uid", _uid),
        kubelet_root=given.value("kubelet-root", absolute_path, defaults.kubelet_root),
        cdi_root=given.value("cdi-root", absolute_path, defaults.cdi_root),
        host_root=given.value("host-root", absolute_path, defaults.host_root),
        driver_root=given.value("driver-root", absolute_path, defaults.driver_root),
        nvml_library=given.value("nvml-library", absolute_path, optional=True),
        simulate=by_node.get(node_name, everywhere),
        gpu_driver_name=given.value("gpu-driver-name", _driver_name, defaults.gpu_driver_name),
        nics=given.flag("nics", default=True),
        nics_without_rdma=given.flag("nics-without-rdma", default=False),
        http_address=given.value("http-address", Address.parse, defaults.http_address),
        log_level=given.value("log-level", one_of({name: name for name in logs.LEVELS}), defaults.log_level),
        log_format=given.value("log-format", one_of({name: name for name in logs.FORMS}), defaults.log_format),
        kubeconfig=given.value("kubeconfig", Path, optional=True),
        service_account=given.value("service-account-dir", absolute_path, SERVICE_ACCOUNT),
    )
    given.finish()
    return settings


def shown(settings: Settings) -> Mapping[str, str]:
    """For the log line at start; nothing here is secret."""
    told = ("node_name", "kubelet_root", "cdi_root", "simulate")
    return MappingProxyType({name: str(getattr(settings, name)) for name in told})


def _flags() -> Flags:
    flags = Flags(PROGRAM, "Publishes a node's GPUs and RDMA NICs and prepares the claims that the kubelet asks for.")
    flags.add("node-name", "NAME", "the node that this is (required)")
    flags.add("pod-uid", "UID", "uid of the agent's pod; its sockets carry it (required)")
    flags.add("kubelet-root", "DIR", "the kubelet's --root-dir (default /var/lib/kubelet)")
    flags.add("cdi-root", "DIR", "where the container runtime reads CDI files (default /var/run/cdi)")
    flags.add("host-root", "DIR", "where the host's /proc and /sys are seen (default /)")
    flags.add("driver-root", "DIR", "where the NVIDIA driver's files are seen (default /)")
    flags.add("nvml-library", "FILE", "the NVML library (default: libnvidia-ml.so.1 below --driver-root)")
    flags.add("simulate", "PROFILE", "made-up hardware: a profile's name, or a YAML file")
    flags.add("simulate-node", "NODE=PROFILE", "the profile of one node, before --simulate", repeated=True)
    flags.add("gpu-driver-name", "NAME", f"the name under which GPUs are published (default {names.GPU_DRIVER})")
    flags.switch("nics", f"publish RDMA NICs too, as {names.NIC_DRIVER} (default yes)")
    flags.switch("nics-without-rdma", "publish NICs without RDMA, too, though nothing of them is injected (default no)")
    flags.add("http-address", "HOST:PORT", "/healthz, /readyz and /metrics (default :8080)")
    flags.add("log-level", "LEVEL", f"{', '.join(logs.LEVELS)} (default info)")
    flags.add("log-format", "FORMAT", f"{' or '.join(logs.FORMS)} (default text)")
    flags.add("kubeconfig", "FILE", "how to reach the API server (default: as a pod does)")
    flags.add("service-account-dir", "DIR", f"the pod's credentials (default {SERVICE_ACCOUNT})")
    return flags


def _profile(text: str) -> str:
    if not text.strip():
        raise ValueError("this must be a profile's name or a file")
    return text


def _node_profile(text: str) -> tuple[str, str]:
    node, equals, profile = text.partition("=")
    if not equals or not profile:
        raise ValueError("this must be NODE=PROFILE")
    return dns_name(node), profile


def _driver_name(text: str) -> str:
    if len(dns_name(text)) > 63:
        raise ValueError("a driver's name has at most 63 characters")
    if not text[0].isalpha():
        raise ValueError("this must start with a letter: it is the vendor of CDI devices, too")
    if text == names.NIC_DRIVER:
        raise ValueError("this is the driver of the NICs; GPUs need a name of their own")
    return text


def _uid(text: str) -> str:
    if len(text) > 128 or not (text.isascii() and text.replace("-", "").isalnum()):
        raise ValueError("this must be a uid: letters, digits and -")
    return text
