"""Installing the project's chart on a cluster of ours, and waiting until its devices can be claimed."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.cluster import features
from tests.e2e.cluster.archives import Archive
from tests.e2e.cluster.images import REPOSITORY, TARGETS
from tests.e2e.cluster.process import run, wait_until
from tests.e2e.cluster.programs import HELM, build
from tests.e2e.cluster.settings import Install
from tests.e2e.cluster.target import Target

CHART = REPOSITORY / "charts" / "gpu-dra"
NAMESPACE = "gpu-dra"
RELEASE = "gpu-dra"
SECTIONS = {"node-agent": "nodeAgent", "controller": "controller"}


def helm(kubeconfig: Path, *arguments: str, timeout: float = 400) -> str:
    """helm without the settings, plugins and caches of whoever runs it."""
    with tempfile.TemporaryDirectory(prefix="gpu-dra-helm-") as scratch:
        homes = {f"HELM_{kind}_HOME": f"{scratch}/{kind.lower()}" for kind in ("CACHE", "CONFIG", "DATA")}
        program = build(HELM) / "helm"
        return run([str(program), "--kubeconfig", str(kubeconfig), *arguments], env=homes, timeout=timeout)


def values(profiles: dict[str, str], archives: Sequence[Archive]) -> list[str]:
    """helm's arguments for images that are on the nodes, and for each node's simulated hardware."""
    chosen: dict[str, str] = {}
    built = {archive.image: archive for archive in archives}
    for target, image in TARGETS.items():
        repository, _, tag = image.rpartition(":")
        section = SECTIONS[target]
        chosen[f"{section}.image.repository"] = repository
        chosen[f"{section}.image.tag"] = tag
        chosen[f"{section}.image.pullPolicy"] = "Never"
        if image in built:
            # The tag stays the same: this is what makes an upgrade replace the pods when the image's content changed.
            chosen[f"{section}.podAnnotations.e2e/image"] = built[image].digest
    for node, profile in profiles.items():
        chosen[f"nodeAgent.simulate.nodes.{node}"] = profile
    return [part for key, value in chosen.items() for part in ("--set-string", f"{key}={value}")]


def install(target: Target, how: Install, archives: Sequence[Archive]) -> str:
    """Install or upgrade, and wait until all pods are Ready and each node's slices are there; returns what runs."""
    profiles = how.of_nodes(target.node_names)
    where = ["--namespace", NAMESPACE, "--create-namespace", "--wait", "--timeout", "5m"]
    helm(
        target.kubeconfig,
        "upgrade",
        "--install",
        RELEASE,
        str(CHART),
        *where,
        *values(profiles, archives),
        *how.helm_args,
    )
    kubectl = ["kubectl", "--kubeconfig", str(target.kubeconfig)]
    wait_until(
        lambda: not set(target.node_names) - published(target),
        f"ResourceSlices of {', '.join(target.node_names)}",
        within=120,
        every=0.3,
        hint=lambda: f"There are slices of: {', '.join(sorted(published(target))) or 'no node'}.",
    )
    pods = run([*kubectl, "--namespace", NAMESPACE, "get", "pods", "-o", "wide"])
    return pods + run([*kubectl, "get", "resourceslices"])


def published(target: Target) -> set[str]:
    """Nodes that have a ResourceSlice."""
    version = features.served_version(features.minor_of(target.version))
    resource = f"resourceslices.{version}.resource.k8s.io"
    text = run(["kubectl", "--kubeconfig", str(target.kubeconfig), "get", resource, "-o", "json"])
    return {item["spec"]["nodeName"] for item in json.loads(text)["items"] if item["spec"].get("nodeName")}
