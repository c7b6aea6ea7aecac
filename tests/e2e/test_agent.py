"""Meshes that hold, and an agent, a kubelet and a slice that go away and come back."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.e2e import devices
from tests.e2e.cluster import chart
from tests.e2e.cluster.target import NodeAccess, Target
from tests.e2e.kubectl import Kubectl
from tests.e2e.test_examples import EXAMPLES

pytestmark = pytest.mark.e2e

MESH = (EXAMPLES / "one-mesh.yaml").read_text()
ONE = (EXAMPLES / "one-gpu.yaml").read_text()


def _apply(kubectl: Kubectl, text: str, old: str, new: str, node: str) -> None:
    grace = "  terminationGracePeriodSeconds: 5"
    pinned = text.replace(grace, f"{grace}\n  nodeSelector: {{kubernetes.io/hostname: {node}}}")
    kubectl.apply(
        re.sub(r"image: busybox\b.*", "image: localhost/busybox:e2e", pinned.replace(f"name: {old}", f"name: {new}"))
    )


def _container_ids(pod: dict[str, Any]) -> list[str]:
    return [status["containerID"] for status in pod["status"]["containerStatuses"]]


@pytest.fixture
def node(cluster: Target) -> NodeAccess:
    if not cluster.nodes:
        pytest.skip("this test needs a way onto a node, which an existing cluster does not give")
    return cluster.nodes[cluster.node_names[0]]


def test_two_mesh_claims_get_one_mesh_each_and_a_third_waits(kubectl: Kubectl, cluster: Target) -> None:
    first = cluster.node_names[0]
    for name in ("a", "b"):
        _apply(kubectl, MESH, "one-mesh", f"one-mesh-{name}", first)
        kubectl.wait_pod(f"one-mesh-{name}")
    known = devices.published(kubectl)

    def meshes_of(claim: dict[str, Any]) -> set[object]:
        given = devices.results(claim)
        return {known[one["driver"], one["pool"], one["device"]].attributes["nvlink_mesh_id"] for one in given}

    meshes = [meshes_of(claim) for claim in kubectl.list("resourceclaims")]
    assert sorted(meshes, key=str) == [{"mesh-0"}, {"mesh-1"}]
    _apply(kubectl, MESH, "one-mesh", "one-mesh-c", first)

    def refused() -> bool:
        return any("cannot allocate all claims" in event.get("message", "") for event in kubectl.list("events"))

    kubectl.wait("the scheduler to say why the third pod waits", refused)
    kubectl.delete("pod", "one-mesh-a", now=True)
    kubectl.wait_pod("one-mesh-c")


def test_an_agent_killed_with_9_comes_back_and_unprepares(kubectl: Kubectl, cluster: Target, node: NodeAccess) -> None:
    _apply(kubectl, ONE, "one-gpu", "one-gpu", node.name)
    before = _container_ids(kubectl.wait_pod("one-gpu"))
    node.kill("gpu-dra-node-agent")
    kubectl.delete("pod", "one-gpu", now=True, wait=False)
    kubectl.wait_gone("pod", "one-gpu", within=120)
    kubectl.wait("nothing to be left", lambda: not any(devices.left(cluster).values()), within=60)
    assert before
    _apply(kubectl, ONE, "one-gpu", "one-gpu", node.name)
    kubectl.wait_pod("one-gpu", within=120)


def test_a_restarted_kubelet_has_its_slices_within_10_s_and_pods_stay(kubectl: Kubectl, node: NodeAccess) -> None:
    _apply(kubectl, ONE, "one-gpu", "one-gpu", node.name)
    before = _container_ids(kubectl.wait_pod("one-gpu"))
    wanted = {key for key in devices.published(kubectl) if key[1].startswith(f"{node.name}/")}
    node.restart_kubelet()
    kubectl.wait("the slices", lambda: wanted <= set(devices.published(kubectl)), within=10)
    assert _container_ids(kubectl.wait_pod("one-gpu")) == before
    _apply(kubectl, ONE, "one-gpu", "one-gpu-again", node.name)
    kubectl.wait_pod("one-gpu-again")


def test_deleted_slices_come_back(kubectl: Kubectl) -> None:
    wanted = set(devices.published(kubectl))
    kubectl.run("delete", "resourceslices", "--all")
    kubectl.wait("the slices", lambda: set(devices.published(kubectl)) == wanted, within=30)


def test_a_malformed_state_file_is_set_aside_and_the_agent_serves(kubectl: Kubectl, node: NodeAccess) -> None:
    folder = f"/var/lib/kubelet/plugins/{devices.GPU}"
    node.run(["sh", "-c", f"echo '{{' > {folder}/claims/00000000-0000-0000-0000-00000000beef.json"])
    node.kill("gpu-dra-node-agent")

    def aside() -> bool:
        return "beef" in node.run(["sh", "-c", f"ls {folder}/set-aside"])

    kubectl.wait("the file to be set aside", aside, within=120)
    _apply(kubectl, ONE, "one-gpu", "one-gpu", node.name)
    kubectl.wait_pod("one-gpu", within=120)
    logs = kubectl.within(chart.NAMESPACE).run("logs", "-l", "app.kubernetes.io/component=node-agent", "--tail=-1")
    assert "a state file cannot be read" in logs
    node.run(["sh", "-c", f"rm {folder}/set-aside/*beef*"])


def test_an_upgrade_leaves_a_running_pod_running(kubectl: Kubectl, cluster: Target) -> None:
    _apply(kubectl, ONE, "one-gpu", "one-gpu", cluster.node_names[0])
    before = _container_ids(kubectl.wait_pod("one-gpu"))
    how = [str(chart.CHART), "--namespace", chart.NAMESPACE, "--wait", "--timeout", "5m", "--reuse-values"]
    for level in ("debug", "info"):
        chart.helm(cluster.kubeconfig, "upgrade", chart.RELEASE, *how, "--set", f"logLevel={level}")
    assert _container_ids(kubectl.wait_pod("one-gpu")) == before
    _apply(kubectl, ONE, "one-gpu", "after-upgrade", cluster.node_names[0])
    kubectl.wait_pod("after-upgrade")
