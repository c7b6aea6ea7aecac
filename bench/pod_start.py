"""What a claim adds to a pod's way from bound to Running, on a cluster with the chart: `python -m bench.pod_start KUBECONFIG`.

Pods with a claim (made from a template) and without take turns on one node; times are those at which a watch saw the
pod's node and its phase, so both kinds carry the same delay of the watch.
"""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from pathlib import Path
from statistics import median
from typing import Any

from gpu_dra.api import JsonObject, to_version
from gpu_dra.kube import connection
from gpu_dra.kube.client import KubeClient, path_of

ROUNDS = 20
IMAGE = "localhost/busybox:e2e"


def pod(name: str, *, claim: bool) -> JsonObject:
    container: JsonObject = {"name": "main", "image": IMAGE, "command": ["sleep", "3600"]}
    spec: JsonObject = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    if claim:
        container["resources"] = {"claims": [{"name": "gpu"}]}
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def bound_to_running(kube: KubeClient, pods: str, body: JsonObject) -> float:
    """Seconds between two sights of a watch: the pod has a node, the pod is Running. The pod is gone afterwards."""
    name = body["metadata"]["name"]
    made = await kube.create(pods, body)
    bound = float("nan")
    async for event in kube.watch(pods, made["metadata"]["resourceVersion"], field_selector=f"metadata.name={name}"):
        if bound != bound and event.object["spec"].get("nodeName"):  # noqa: PLR0124 - nan: not bound yet
            bound = time.perf_counter()
        if event.object.get("status", {}).get("phase") == "Running":
            break
    took = time.perf_counter() - bound
    await kube.delete(f"{pods}/{name}")
    async for event in kube.watch(pods, made["metadata"]["resourceVersion"], field_selector=f"metadata.name={name}"):
        if event.type == "DELETED":
            break
    return took


async def main(arguments: list[str]) -> int:
    async with KubeClient(connection.from_kubeconfig(Path(arguments[0]) if arguments else None)) as kube:
        version = await kube.resource_version()
        namespace = f"bench-{uuid.uuid4().hex[:6]}"
        meta: JsonObject = {"metadata": {"name": namespace}}
        await kube.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", **meta})
        try:
            await account(kube, namespace)
            await kube.create(path_of(version, "resourceclaimtemplates", namespace=namespace), template(version))
            pods = f"/api/v1/namespaces/{namespace}/pods"
            seconds: dict[bool, list[float]] = {False: [], True: []}
            for number in range(ROUNDS + 1):
                for claim in (False, True):
                    took = await bound_to_running(kube, pods, pod(f"p{number}-{claim}".lower(), claim=claim))
                    if number:  # the first of each kind warms up
                        seconds[claim].append(took)
        finally:
            await kube.delete(f"/api/v1/namespaces/{namespace}")
    without, with_claim = (median(seconds[kind]) * 1e3 for kind in (False, True))
    print(f"bound to Running, median of {ROUNDS}: {without:.0f} ms without a claim, {with_claim:.0f} ms with one")
    print(f"a claim adds {with_claim - without:.0f} ms, a factor of {with_claim / without:.2f}")
    return 0


def template(version: str) -> JsonObject:
    request: dict[str, Any] = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    body: JsonObject = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpu"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    return to_version(body, version)


async def account(kube: KubeClient, namespace: str) -> None:
    """Pods are refused before the namespace's service account is there."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    while not (await kube.get(path)).get("items"):  # noqa: ASYNC110 - the server tells nobody
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
