"""The cluster tool itself: it clears up after a crash of its own, leaves nothing, and touches no other cluster."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.e2e.cluster import cgroups, images, packages
from tests.e2e.cluster.cluster import Cluster
from tests.e2e.cluster.errors import ClusterError
from tests.e2e.cluster.process import wait_until
from tests.e2e.cluster.settings import Settings
from tests.e2e.cluster.target import Target
from tests.e2e.kubectl import Kubectl, condition
from tests.needs import need

pytestmark = pytest.mark.e2e

NAME = "e2e-own"


@pytest.fixture
def other() -> Generator[Cluster]:
    """A small cluster beside the one under test."""
    obstacle = packages.obstacle()
    need(obstacle is None, f"{obstacle}")
    mine = Cluster(Settings(NAME, os.environ.get("K8S") or Settings().version, nodes=1))
    mine.prepare()
    mine.stop()
    yield mine
    mine.stop()


def _traces(cluster: Cluster) -> list[str]:
    """Processes, mounts, cgroups and files that carry the cluster's name."""
    found = [str(path) for path in cgroups.folders(cluster.settings.name)]
    place = str(cluster.folder)
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            mounts = (process / "mountinfo").read_text()
        except OSError:
            continue
        if place in command:
            found.append(command)
        elif place in mounts:
            found.append(f"mounts of {command}")
    return [*found, place] if cluster.folder.exists() else found


def test_a_start_after_a_crash_clears_up_first_and_down_leaves_nothing(other: Cluster, cluster: Target) -> None:
    archives = images.small()
    other.start(archives)
    with pytest.raises(ClusterError, match="runs already"):
        other.start(archives)
    # As when somebody's session ends: nothing gets the chance to clear up.
    pid = other.control.pid()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not other.control.alive(), "the end of the cluster's processes", within=20)
    assert other.running() is None
    assert _traces(other), "a crash that leaves no trace tests nothing"
    other.start(archives)
    kubectl = Kubectl(other.kubeconfig)
    assert [condition(node, "Ready") for node in kubectl.list("nodes")] == ["True"]
    assert other.stop()
    wait_until(lambda: not _traces(other), "every trace to be gone", within=20, hint=lambda: str(_traces(other)))
    assert not other.stop()
    ours = Kubectl(cluster.kubeconfig)
    assert {condition(ours.get("node", name), "Ready") for name in cluster.node_names} == {"True"}
