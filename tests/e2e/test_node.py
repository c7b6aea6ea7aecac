"""A node that loses its power or its network, and comes back."""

from __future__ import annotations

import pytest

from tests.e2e import devices
from tests.e2e.cluster.target import NodeAccess, Target
from tests.e2e.kubectl import Kubectl, condition, container_ids
from tests.e2e.manifests import example

pytestmark = pytest.mark.e2e


def _gpus(kubectl: Kubectl) -> set[tuple[int, int]]:
    return devices.seen(kubectl, "one-gpu", "main", 195)


def test_a_pod_has_its_gpu_again_after_a_power_cut(kubectl: Kubectl, cluster: Target, last_node: NodeAccess) -> None:
    kubectl.apply(example("one-gpu", node=last_node.name))
    before = container_ids(kubectl.wait_pod("one-gpu"))
    gpus = _gpus(kubectl)
    last_node.power_cut()
    # /run is empty now, as after any boot, and with it the folder of CDI files.
    last_node.boot()

    def restarted() -> bool:
        pod = kubectl.get("pod", "one-gpu")
        return condition(pod, "Ready") == "True" and container_ids(pod) != before

    kubectl.wait("the pod to run again", restarted, within=180)
    assert _gpus(kubectl) == gpus == devices.expected_nodes(kubectl)
    kubectl.delete("pod", "one-gpu", now=True)
    kubectl.wait("nothing to be left", lambda: not any(devices.left(cluster).values()), within=60)


def test_a_node_without_network_keeps_its_pods_and_its_slices(kubectl: Kubectl, last_node: NodeAccess) -> None:
    kubectl.apply(example("one-gpu", node=last_node.name))
    before = container_ids(kubectl.wait_pod("one-gpu"))
    slices = devices.published(kubectl)
    last_node.cut_off()
    try:
        kubectl.wait(
            "the node to be missed",
            lambda: condition(kubectl.get("node", last_node.name), "Ready") == "Unknown",
            within=120,
        )
        assert devices.published(kubectl) == slices
    finally:
        last_node.reconnect()
    kubectl.wait(
        "the node to be back", lambda: condition(kubectl.get("node", last_node.name), "Ready") == "True", within=120
    )
    assert container_ids(kubectl.wait_pod("one-gpu")) == before
    kubectl.delete("pod", "one-gpu", now=True)
    kubectl.apply(example("one-gpu", renamed="after", node=last_node.name))
    kubectl.wait_pod("after")
