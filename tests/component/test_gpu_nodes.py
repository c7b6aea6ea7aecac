"""GpuNodes on a real API server: what is written comes back whole, an unchanged one costs no write, strangers write none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import yaml

from gpu_dra import gpu_node
from gpu_dra.errors import Unavailable
from gpu_dra.gpu_node import GpuNode
from gpu_dra.kube.client import ApiError, KubeClient
from node_agent.adapters.kube import KubeGpuNodes
from tests import chart
from tests.component import objects
from tests.component.apiserver import ApiServer
from tests.component.controllers import eventually
from tests.unit.gpu_dra.test_gpu_node import NODE

NAMESPACE = "gpunodes"
KINDS = (
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)
FOLDER = f"/apis/{gpu_node.API_VERSION}/{gpu_node.RESOURCE}"


def node(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


@pytest.fixture
async def agent(api_server: ApiServer, admin: KubeClient) -> AsyncIterator[KubeClient]:
    """The agent of node n1, with the chart's rights and its policy in force; the CRD is not there yet."""
    rendered = [
        obj for obj in chart.render(namespace=NAMESPACE, kube_version=api_server.version) if obj["kind"] in KINDS
    ]
    account = chart.one(rendered, "ServiceAccount", "-node-agent")["metadata"]["name"]
    await objects.make_namespace(admin, NAMESPACE)
    await objects.apply(admin, [*rendered, node("n1"), node("n2")])
    token = await api_server.token_for(account, namespace=NAMESPACE, node="n1")
    async with KubeClient(api_server.as_bearer(token)) as kube:
        yield kube
    await objects.remove(admin, [*rendered, node("n1"), node("n2"), crd()])


def crd() -> dict[str, object]:
    obj: dict[str, object] = yaml.safe_load((chart.CHART / "files/crds/gpunodes.yaml").read_text())
    return obj


async def test_the_node_agent_writes_its_own_gpu_node(agent: KubeClient, admin: KubeClient) -> None:
    store = KubeGpuNodes(agent)

    async def told_of_the_missing_kind() -> bool:
        try:
            await store.write(NODE)
        except Unavailable as problem:
            return "the CRD gpunodes.gpu-dra.io is not installed" in str(problem)
        except ApiError:
            # It is still being removed.
            return False
        return False

    # A chart that another test installed has left it there.
    await objects.remove(admin, [crd()])
    await eventually(told_of_the_missing_kind, "the kind is not served")
    await objects.apply(admin, [crd()])

    async def written() -> bool:
        try:
            return await store.write(NODE)
        except (Unavailable, ApiError):
            return False

    await eventually(written, "the CRD is served")
    path = f"{FOLDER}/n1"
    stored = await admin.get(path)
    assert gpu_node.decode(stored) == NODE
    assert stored["metadata"]["ownerReferences"][0]["kind"] == "Node"

    assert not await store.write(NODE)
    assert (await admin.get(path))["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    sick = replace(NODE, gpus=(replace(NODE.gpus[0], health="lost"), *NODE.gpus[1:]))
    assert await store.write(sick)
    assert gpu_node.decode(await admin.get(path)) == sick

    # Somebody else's, and one that somebody else deleted.
    async def refused() -> bool:
        try:
            await KubeGpuNodes(agent).write(GpuNode("n2"))
        except ApiError as problem:
            return (
                problem.status == 403
                and "may write only the GpuNodes of that node, but this one is for node n2" in str(problem)
            )
        await admin.delete(f"{FOLDER}/n2")
        return False

    await eventually(refused, "the policy is in force")
    await admin.delete(path)
    assert await store.write(NODE)
