"""Meshes that hold, and an agent, a kubelet and a slice that go away and come back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e import devices
from tests.e2e.cluster import chart
from tests.e2e.cluster.target import NodeAccess, Target
from tests.e2e.kubectl import Kubectl, container_ids
from tests.e2e.manifests import example

pytestmark = pytest.mark.e2e


def test_two_mesh_claims_get_one_mesh_each_and_a_third_waits(kubectl: Kubectl, cluster: Target) -> None:
    first = cluster.node_names[0]
    for name in ("a", "b"):
        kubectl.apply(example("one-mesh", renamed=f"one-mesh-{name}", node=first))
        kubectl.wait_pod(f"one-mesh-{name}")
    known = devices.published(kubectl)

    def meshes_of(claim: dict[str, Any]) -> set[object]:
        given = devices.results(claim)
        return {known[one["driver"], one["pool"], one["device"]].attributes["nvlink_mesh_id"] for one in given}

    meshes = [meshes_of(claim) for claim in kubectl.list("resourceclaims")]
    assert sorted(meshes, key=str) == [{"mesh-0"}, {"mesh-1"}]
    kubectl.apply(example("one-mesh", renamed="one-mesh-c", node=first))

    def refused() -> bool:
        return any("cannot allocate all claims" in event.get("message", "") for event in kubectl.list("events"))

    kubectl.wait("the scheduler to say why the third pod waits", refused)
    kubectl.delete("pod", "one-mesh-a", now=True)
    kubectl.wait_pod("one-mesh-c")


def test_an_agent_killed_with_9_comes_back_and_unprepares(kubectl: Kubectl, cluster: Target, node: NodeAccess) -> None:
    kubectl.apply(example("one-gpu", node=node.name))
    before = container_ids(kubectl.wait_pod("one-gpu"))
    node.kill("gpu-dra-node-agent")
    kubectl.delete("pod", "one-gpu", now=True, wait=False)
    kubectl.wait_gone("pod", "one-gpu", within=120)
    kubectl.wait("nothing to be left", lambda: not any(devices.left(cluster).values()), within=60)
    assert before
    kubectl.apply(example("one-gpu", node=node.name))
    kubectl.wait_pod("one-gpu", within=120)


def test_a_restarted_kubelet_has_its_slices_within_10_s_and_pods_stay(kubectl: Kubectl, node: NodeAccess) -> None:
    kubectl.apply(example("one-gpu", node=node.name))
    before = container_ids(kubectl.wait_pod("one-gpu"))
    wanted = {key for key in devices.published(kubectl) if key[1].startswith(f"{node.name}/")}
    node.restart_kubelet()
    kubectl.wait("the slices", lambda: wanted <= set(devices.published(kubectl)), within=10)
    assert container_ids(kubectl.wait_pod("one-gpu")) == before
    kubectl.apply(example("one-gpu", renamed="one-gpu-again", node=node.name))
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
    kubectl.apply(example("one-gpu", node=node.name))
    kubectl.wait_pod("one-gpu", within=120)
    logs = kubectl.within(chart.NAMESPACE).run("logs", "-l", "app.kubernetes.io/component=node-agent", "--tail=-1")
    assert "a state file cannot be read" in logs
    node.run(["sh", "-c", f"rm {folder}/set-aside/*beef*"])
