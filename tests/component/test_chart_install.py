"""The real helm installs, upgrades and uninstalls the chart on a real API server, which checks every object."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

import pytest
import yaml

from gpu_dra.api import JsonObject, to_version
from gpu_dra.kube.client import KubeClient, path_of
from tests import chart
from tests.component import objects
from tests.component.apiserver import ApiServer

NAMESPACE = "installed"


@pytest.fixture
def flags(api_server: ApiServer) -> Iterator[tuple[str, ...]]:
    """Where helm works; a release that is left is removed."""
    where = ("--namespace", NAMESPACE, "--kubeconfig", str(api_server.kubeconfig))
    yield where
    chart.helm("uninstall", "gpu-dra", "--ignore-not-found", *where)


async def uids(admin: KubeClient, paths: list[str]) -> dict[str, str]:
    return {path: (await admin.get(path))["metadata"]["uid"] for path in paths}


async def test_install_upgrade_uninstall_touch_nobody_elses_objects(
    api_server: ApiServer, admin: KubeClient, flags: tuple[str, ...]
) -> None:
    version = api_server.resource_version
    await objects.make_namespace(admin, NAMESPACE)
    claim: JsonObject = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
    }
    piece: JsonObject = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "node-1-gpu"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "node-1",
            "pool": {"name": "node-1/gpu", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}],
        },
    }
    claims, slices = path_of(version, "resourceclaims", namespace="default"), path_of(version, "resourceslices")
    await admin.create(claims, to_version(claim, version))
    await admin.create(slices, to_version(piece, version))
    theirs = [f"{claims}/train", f"{slices}/node-1-gpu"]
    before = await uids(admin, theirs)

    chart.helm("install", "gpu-dra", str(chart.CHART), *flags)
    daemon_set = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/gpu-dra-node-agent"
    installed = await admin.get(daemon_set)
    strategy = installed["spec"]["updateStrategy"]["rollingUpdate"]
    assert strategy["maxSurge"] == (1 if api_server.minor >= 33 else 0)

    # From one replica to two and back: the Deployment's strategy changes its kind.
    chart.helm("upgrade", "gpu-dra", str(chart.CHART), *flags, "--set", "controller.replicas=2,logLevel=debug")
    upgraded = await admin.get(daemon_set)
    assert upgraded["metadata"]["uid"] == installed["metadata"]["uid"]
    chart.helm("upgrade", "gpu-dra", str(chart.CHART), *flags)

    chart.helm("uninstall", "gpu-dra", *flags)
    assert await uids(admin, theirs) == before
    for path in theirs:
        await admin.delete(path)


async def test_the_notes_example_is_taken_by_the_server(
    api_server: ApiServer, admin: KubeClient, flags: tuple[str, ...]
) -> None:
    await objects.make_namespace(admin, NAMESPACE)
    await objects.make_namespace(admin, "notes")
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "notes"}}
    await objects.apply(admin, [account])
    values = ("--set", "nodeAgent.simulate.profile=split-4x4")
    notes = chart.helm("install", "gpu-dra", str(chart.CHART), *flags, *values).partition("NOTES:\n")[2]
    assert "The GPUs are SIMULATED (profile split-4x4)" in notes
    # As a shell reads it: the end mark stands at the start of a line.
    found = re.search(r"<<'EOF'\n(.*?)^EOF$", notes, re.DOTALL | re.MULTILINE)
    assert found is not None, textwrap.indent(notes, "  ")
    template, pod = yaml.safe_load_all(found.group(1))
    assert template["apiVersion"] == f"resource.k8s.io/{api_server.resource_version}"
    base = path_of(api_server.resource_version, "resourceclaimtemplates", namespace="notes")
    stored = await admin.create(base, template)
    (request,) = stored["spec"]["spec"]["devices"]["requests"]
    assert request.get("exactly", request)["deviceClassName"] == "gpu.nvidia.com"
    stored = await admin.create("/api/v1/namespaces/notes/pods", pod)
    assert stored["spec"]["containers"][0]["resources"]["claims"] == [{"name": "gpu"}]
    assert stored["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] == template["metadata"]["name"]
