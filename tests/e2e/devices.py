"""What a claim was given, what a container sees, and what is left on the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_dra.api import to_version
from gpu_dra.device import Device
from gpu_dra.resource_slice import decode
from tests.e2e.cluster.target import Target
from tests.e2e.kubectl import JsonObject, Kubectl

GPU = "gpu.nvidia.com"
NIC = "nic.gpu-dra.io"
DRIVERS = (GPU, NIC)
COMMON = {GPU: {(195, 255)}, NIC: {(231, 255)}}


def published(kubectl: Kubectl) -> dict[tuple[str, str, str], Device]:
    """Every published device by driver, pool and name."""
    slices = [decode(item) for item in kubectl.list("resourceslices")]
    return {(item.driver, item.pool.name, device.name): device for item in slices for device in item.devices}


def results(claim: JsonObject) -> list[dict[str, Any]]:
    """The devices in a claim's allocation."""
    found: list[dict[str, Any]] = to_version(claim, "v1")["status"]["allocation"]["devices"]["results"]
    return found


def allocated(kubectl: Kubectl) -> list[Device]:
    """The devices of all claims in the namespace."""
    known = published(kubectl)
    claims = kubectl.list("resourceclaims")
    return [known[result["driver"], result["pool"], result["device"]] for claim in claims for result in results(claim)]


def expected_nodes(kubectl: Kubectl) -> set[tuple[int, int]]:
    """Numbers of the device nodes that the namespace's claims stand for; of a NIC only the common one and its uverbs."""
    numbers: set[tuple[int, int]] = set()
    for claim in kubectl.list("resourceclaims"):
        known = published(kubectl)
        for result in results(claim):
            numbers |= COMMON[result["driver"]]
            if result["driver"] == GPU:
                numbers.add((195, int(str(known[GPU, result["pool"], result["device"]].attributes["minor"]))))
    return numbers


def seen(kubectl: Kubectl, pod: str, container: str, major: int) -> set[tuple[int, int]]:
    """Numbers of the character devices of one major number below a container's /dev."""
    script = "find /dev -type c -exec stat -c '%t %T' {} +"
    lines = kubectl.run("exec", pod, "-c", container, "--", "sh", "-c", script).splitlines()
    numbers = {(int(a, 16), int(b, 16)) for a, b in (line.split() for line in lines if line.strip())}
    return {number for number in numbers if number[0] == major}


def left(cluster: Target, folder: str = "/var/lib/kubelet") -> Mapping[str, list[str]]:
    """CDI files, state files and reservations by node; empty lists where nothing is left."""
    script = (
        f"ls /var/run/cdi; for d in {' '.join(DRIVERS)};"
        f" do ls -A {folder}/plugins/$d/claims {folder}/plugins/$d/held | grep -v : ; done; true"
    )
    return {name: node.run(["sh", "-c", script]).split() for name, node in cluster.nodes.items()}
