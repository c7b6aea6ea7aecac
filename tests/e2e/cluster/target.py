"""What the tests need of a cluster, whoever made it, and an existing one that meets it through its kubeconfig."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.e2e.cluster.process import run


class NodeAccess(Protocol):
    """A way onto a node that does not depend on the cluster working."""

    @property
    def name(self) -> str: ...

    def run(self, argv: Sequence[str], *, text_in: str | None = None, timeout: float = 120) -> str:
        """Run a program in the node's mount, PID and network namespace; its stdout, or an error with what it wrote."""
        ...

    def path(self, inside: str) -> Path: ...

    def read_file(self, inside: str) -> str: ...

    def log(self, program: str) -> Path: ...

    def boot(self) -> None: ...

    def power_cut(self) -> None: ...

    def cut_off(self) -> None: ...

    def reconnect(self) -> None: ...

    def start_kubelet(self) -> None: ...

    def stop_kubelet(self, how: signal.Signals = signal.SIGTERM) -> None: ...

    def restart_kubelet(self, how: signal.Signals = signal.SIGTERM) -> None: ...

    def kill(self, pattern: str, how: signal.Signals = signal.SIGKILL) -> None: ...


class Target(Protocol):
    """A cluster under test. Tests that need a node's inside are skipped where `nodes` is empty."""

    @property
    def kubeconfig(self) -> Path: ...

    @property
    def version(self) -> str:
        """Of Kubernetes, for example 1.37.2."""
        ...

    @property
    def node_names(self) -> Sequence[str]: ...

    @property
    def nodes(self) -> Mapping[str, NodeAccess]:
        """The way onto each node; empty where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class ExistingCluster:
    """A cluster that somebody else made. Its images are there already, or can be pulled; its nodes are not ours."""

    kubeconfig: Path
    version: str
    node_names: tuple[str, ...]

    @property
    def nodes(self) -> Mapping[str, NodeAccess]:
        return {}


def existing(kubeconfig: Path) -> ExistingCluster:
    """Ask an existing cluster what it is; ClusterError where it does not answer."""
    kubectl = ["kubectl", "--kubeconfig", str(kubeconfig)]
    version = json.loads(run([*kubectl, "get", "--raw", "/version"], timeout=30))["gitVersion"].removeprefix("v")
    nodes = json.loads(run([*kubectl, "get", "nodes", "-o", "json"], timeout=30))["items"]
    # Control planes of kind and kubeadm take no pods; the tests are about the others.
    names = [node["metadata"]["name"] for node in nodes if not _reserved(node)]
    return ExistingCluster(kubeconfig, version, tuple(sorted(names)))


def _reserved(node: Mapping[str, Mapping[str, object]]) -> bool:
    taints = node["spec"].get("taints") or []
    assert isinstance(taints, list)
    return any(taint["effect"] in {"NoSchedule", "NoExecute"} for taint in taints)
