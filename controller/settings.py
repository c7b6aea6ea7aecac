"""What the controller is told at its start, checked all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from controller import class_list
from controller.class_list import WantedClass
from controller.device_classes import Release
from gpu_dra import logs
from gpu_dra.errors import InputError
from gpu_dra.settings import Address, Flags, dns_name, one_of

PROGRAM = "gpu-dra-controller"


@dataclass(frozen=True, slots=True)
class Settings:
    """Read once in main and passed on as a value."""

    release: Release
    """Whose classes are ours."""
    identity: str
    """Who we are among the replicas, and in events."""
    owner_cluster_role: str | None
    """The ClusterRole with which the classes go; None leaves them when the release is uninstalled."""
    classes: tuple[WantedClass, ...]
    leader_elect: bool
    lease_name: str
    http_address: Address
    log_level: str
    log_format: str
    kubeconfig: Path | None
    """Outside a cluster only."""


def parse(arguments: Sequence[str], environ: Mapping[str, str]) -> Settings:
    """The settings; InputError with everything that is wrong, the classes' file included."""
    flags = Flags(PROGRAM, "Makes the DeviceClasses that the chart's values name, and keeps them so.")
    flags.add("namespace", "NAME", "namespace of this release, its Lease and its pods")
    flags.add("identity", "NAME", "name of this replica, as a rule its pod's name")
    flags.add("release", "NAME", "Helm release whose DeviceClasses these are")
    flags.add("owner-cluster-role", "NAME", "ClusterRole with which the DeviceClasses are deleted (default: none)")
    flags.add("device-classes", "FILE", "YAML list of {name, type, driver, extendedResourceName}")
    flags.switch("leader-elect", "work only while holding the Lease, for several replicas (default: no)")
    flags.add("lease-name", "NAME", f"the Lease (default: {PROGRAM})")
    flags.add("http-address", "HOST:PORT", "where /healthz, /readyz and /metrics are served (default: :8080)")
    flags.add("log-level", "LEVEL", f"{', '.join(logs.LEVELS)} (default: info)")
    flags.add("log-format", "FORMAT", f"{' or '.join(logs.FORMS)} (default: text)")
    flags.add("kubeconfig", "FILE", "how to reach the API server (default: as a pod of the cluster)")
    given = flags.parse(arguments, environ)

    namespace = given.value("namespace", dns_name)
    release = given.value("release", dns_name)
    classes: tuple[WantedClass, ...] = ()
    try:
        classes = given.value("device-classes", _read_classes)
    except InputError as problem:
        for sentence in problem.problems:
            given.fail(f"{problem.where}: {sentence}")
    settings = Settings(
        release=Release(namespace, release),
        identity=given.value("identity", _word),
        owner_cluster_role=given.value("owner-cluster-role", _word, optional=True),
        classes=classes,
        leader_elect=given.flag("leader-elect", default=False),
        lease_name=given.value("lease-name", dns_name, PROGRAM),
        http_address=given.value("http-address", Address.parse, Address("", 8080)),
        log_level=given.value("log-level", one_of({level: level for level in logs.LEVELS}), "info"),
        log_format=given.value("log-format", one_of({form: form for form in logs.FORMS}), "text"),
        kubeconfig=given.value("kubeconfig", Path, optional=True),
    )
    given.finish()
    return settings


def _read_classes(text: str) -> tuple[WantedClass, ...]:
    try:
        content = Path(text).read_text()
    except (OSError, UnicodeDecodeError) as problem:
        raise ValueError(f"this file cannot be read: {getattr(problem, 'strerror', None) or problem}") from problem
    return class_list.parse(content, text)


def _word(text: str) -> str:
    if not text.strip() or "/" in text:
        raise ValueError("this must be a name without slashes")
    return text
