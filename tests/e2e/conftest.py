"""The cluster under test: $E2E_KUBECONFIG, or one of our own that starts and ends with the run (E2E_KEEP=1 keeps it)."""

from __future__ import annotations

import os
import uuid
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.e2e.cluster import chart, features, packages, programs, target
from tests.e2e.cluster.cluster import Cluster
from tests.e2e.cluster.settings import install_from, settings_from
from tests.e2e.cluster.target import NodeAccess, Target
from tests.e2e.kubectl import Kubectl, KubectlError
from tests.needs import need


@pytest.fixture(scope="session")
def cluster() -> Generator[Target]:
    if existing := os.environ.get("E2E_KUBECONFIG"):
        yield target.existing(Path(existing))
        return
    obstacle = packages.obstacle()
    need(obstacle is None, f"{obstacle}; set E2E_KUBECONFIG to test on a cluster that exists")
    own = Cluster(settings_from({"CLUSTER": "e2e", **os.environ}, programs.versions()))
    archives = own.prepare()
    if own.running() is not None and not os.environ.get("E2E_KEEP"):
        own.stop()
    own.start_or_reuse(archives)
    try:
        how = install_from({"PROFILE": "split-4x4", **os.environ}, len(own.node_names))
        chart.install(own, how, archives)
        yield own
    finally:
        if not os.environ.get("E2E_KEEP"):
            own.stop()


@pytest.fixture(scope="session")
def admin(cluster: Target) -> Kubectl:
    return Kubectl(cluster.kubeconfig, features.served_version(features.minor_of(cluster.version)))


@pytest.fixture
def kubectl(admin: Kubectl, request: pytest.FixtureRequest) -> Generator[Kubectl]:
    """kubectl in a namespace of the test's own, which is gone afterwards with all its pods and claims."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    admin.run("create", "namespace", name)
    mine = admin.within(name)
    mine.wait("the service account", lambda: mine.find("serviceaccount", "default"))
    failed = request.session.testsfailed
    yield mine
    if request.session.testsfailed > failed:
        for what in (("get", "pods,resourceclaims", "-o", "wide"), ("get", "events"), ("get", "resourceslices")):
            print(_attempt(mine, *what))
        print(_attempt(admin.within(chart.NAMESPACE), "logs", "-l", "app.kubernetes.io/instance=gpu-dra", "--tail=60"))
    admin.run("delete", "namespace", name, timeout=180)


@pytest.fixture
def node(cluster: Target) -> NodeAccess:
    """The first node's inside."""
    return _inside(cluster, 0)


@pytest.fixture
def last_node(cluster: Target) -> NodeAccess:
    """The inside of a node that the cluster can do without: where pods of the chart's controller need not be."""
    return _inside(cluster, -1)


def _inside(cluster: Target, index: int) -> NodeAccess:
    if not cluster.nodes:
        pytest.skip("this test needs a way onto a node, which an existing cluster does not give")
    return cluster.nodes[cluster.node_names[index]]


def _attempt(kubectl: Kubectl, *arguments: str) -> str:
    try:
        return kubectl.run(*arguments)
    except KubectlError as problem:
        return str(problem)
