"""Every file of examples/resourceclaims is applied as it is and does what its head comment says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from gpu_dra import names
from gpu_dra.device import Device
from tests.e2e import devices
from tests.e2e.cluster import features
from tests.e2e.cluster.target import Target
from tests.e2e.kubectl import Kubectl
from tests.e2e.manifests import EXAMPLES, example

pytestmark = pytest.mark.e2e


def _count(wanted: int) -> Callable[[Sequence[Device]], bool]:
    return lambda found: len(found) == wanted


def _same(attribute: str, wanted: int) -> Callable[[Sequence[Device]], bool]:
    return lambda found: len(found) == wanted and len({device.attributes[attribute] for device in found}) == 1


EXPECTED: dict[str, Callable[[Sequence[Device]], bool]] = {
    "all-gpus": _count(8),
    "cel-selector": lambda found: [device.attributes["model"] for device in found] == ["H100-SXM5-80GB"],
    "extended-resource": _count(1),
    "gpu-and-nic": _same(names.NUMA_NODE, 2),
    "one-gpu": _count(1),
    "one-mesh": _same("nvlink_mesh_id", 4),
    "shared-by-containers": _count(1),
    "shared-by-pods": _count(1),
}


def test_every_example_has_an_expectation() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_example(name: str, kubectl: Kubectl, cluster: Target) -> None:
    if name == "extended-resource" and features.minor_of(cluster.version) < 34:
        pytest.skip("extended resources of a DeviceClass came with Kubernetes 1.34")
    kubectl.apply(example(name))
    pods = [pod["metadata"]["name"] for pod in kubectl.list("pods")]
    assert pods
    for pod in pods:
        kubectl.wait_pod(pod)
    given = devices.allocated(kubectl)
    assert EXPECTED[name](given), given
    expected = devices.expected_nodes(kubectl)
    for pod in pods:
        for container in kubectl.get("pod", pod)["spec"]["containers"]:
            gpus = devices.seen(kubectl, pod, container["name"], 195)
            assert gpus == {number for number in expected if number[0] == 195}
            assert (
                "NVIDIA_VISIBLE_DEVICES=void" in kubectl.run("exec", pod, "-c", container["name"], "--", "env").split()
            )
            if (231, 255) in expected:
                assert (231, 255) in devices.seen(kubectl, pod, container["name"], 231)
    kubectl.delete("pods", "--all", now=True)
    kubectl.delete("resourceclaims", "--all")
    kubectl.wait("the claims to be gone", lambda: not kubectl.list("resourceclaims"))
    if cluster.nodes:
        kubectl.wait(
            "no CDI file, state file or reservation to be left",
            lambda: not any(devices.left(cluster).values()),
            within=30,
        )
