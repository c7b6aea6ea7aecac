"""The chart's ValidatingAdmissionPolicy on a real API server: a node's agent writes the slices of its own node only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from gpu_dra.api import JsonObject, to_version
from gpu_dra.kube.client import ApiError, KubeClient, NotFound, path_of
from tests import chart
from tests.component import objects
from tests.component.apiserver import ApiServer
from tests.component.controllers import eventually

NAMESPACE = "policy"
KINDS = (
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)


@dataclass(frozen=True, slots=True)
class Slices:
    """ResourceSlices as one user writes them."""

    kube: KubeClient
    version: str

    async def create(self, name: str, node: str | None) -> JsonObject:
        where: JsonObject = {"allNodes": True} if node is None else {"nodeName": node}
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        obj: JsonObject = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": name},
            "spec": {"driver": "gpu.nvidia.com", "pool": pool, **where, "devices": []},
        }
        return await self.kube.create(path_of(self.version, "resourceslices"), to_version(obj, self.version))

    async def update(self, name: str) -> None:
        path = path_of(self.version, "resourceslices", name=name)
        obj = await self.kube.get(path)
        obj["spec"]["pool"]["generation"] += 1
        await self.kube.replace(path, obj)

    async def delete(self, name: str) -> None:
        await self.kube.delete(path_of(self.version, "resourceslices", name=name))


@pytest.fixture
async def installed(api_server: ApiServer, admin: KubeClient) -> AsyncIterator[str]:
    """The policy and the agent's rights, both in force; gives the agent's service account."""
    # Reading one slice is not the agent's business, but this test's.
    rendered = [
        obj for obj in chart.render(namespace=NAMESPACE, kube_version=api_server.version) if obj["kind"] in KINDS
    ]
    role = chart.one(rendered, "ClusterRole", "-node-agent")
    role["rules"].append({"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["get"]})
    account = chart.one(rendered, "ServiceAccount", "-node-agent")["metadata"]["name"]
    await objects.make_namespace(admin, NAMESPACE)
    await objects.apply(admin, rendered)
    token = await api_server.token_for(account, namespace=NAMESPACE, node="probe")
    async with KubeClient(api_server.as_bearer(token)) as kube:
        slices = Slices(kube, api_server.resource_version)

        async def in_force() -> bool:
            # The API server compiles a policy a moment after it was stored.
            try:
                await slices.create("probe", "another")
            except ApiError as problem:
                return "may write only" in str(problem)
            await slices.delete("probe")
            return False

        await eventually(in_force, "the policy is in force")
    yield account
    await objects.remove(admin, rendered)
    path = path_of(api_server.resource_version, "resourceslices")
    for item in (await admin.get(path))["items"]:
        await admin.delete(f"{path}/{item['metadata']['name']}")


@pytest.fixture
async def agent(api_server: ApiServer, installed: str) -> AsyncIterator[Slices]:
    """The agent of node-1, with the token that a kubelet would mount."""
    token = await api_server.token_for(installed, namespace=NAMESPACE, node="node-1")
    async with KubeClient(api_server.as_bearer(token)) as kube:
        yield Slices(kube, api_server.resource_version)


@pytest.fixture
def others(api_server: ApiServer, admin: KubeClient) -> Slices:
    """Everybody else, here the administrator."""
    return Slices(admin, api_server.resource_version)


def refused(words: str) -> pytest.RaisesExc[ApiError]:
    return pytest.RaisesExc(ApiError, match=words, check=lambda problem: problem.status == 403)


async def test_own_slices_may_be_written(agent: Slices) -> None:
    await agent.create("mine", "node-1")
    await agent.update("mine")
    await agent.delete("mine")


async def test_slices_of_another_node_may_not_be_created(agent: Slices, others: Slices) -> None:
    with refused(
        "the gpu-dra agent of node node-1 may write only the ResourceSlices of that node, but this one is for node node-2"
    ):
        await agent.create("theirs", "node-2")
    with pytest.raises(NotFound):
        await others.update("theirs")


async def test_slices_without_a_node_may_not_be_created(agent: Slices) -> None:
    with refused("but this one names no node in spec.nodeName"):
        await agent.create("everywhere", None)


async def test_slices_of_another_node_may_not_be_changed_or_deleted(agent: Slices, others: Slices) -> None:
    await others.create("theirs", "node-2")
    with refused("is for node node-2"):
        await agent.update("theirs")
    with refused("may change or delete only the ResourceSlices of that node, but theirs is of node node-2"):
        await agent.delete("theirs")
    await others.update("theirs")


async def test_slices_without_a_node_may_not_be_changed_or_deleted(agent: Slices, others: Slices) -> None:
    await others.create("everywhere", None)
    with refused("names no node"):
        await agent.update("everywhere")
    with refused("but everywhere names no node in spec.nodeName"):
        await agent.delete("everywhere")


async def test_a_token_that_is_bound_to_no_pod_may_write_nothing(
    api_server: ApiServer, installed: str, others: Slices
) -> None:
    await others.create("old", "node-1")
    token = await api_server.token_for(installed, namespace=NAMESPACE)
    async with KubeClient(api_server.as_bearer(token)) as kube:
        unbound = Slices(kube, api_server.resource_version)
        words = "this token of the gpu-dra node agent is not bound to a pod on a node"
        with refused(words):
            await unbound.create("new", "node-1")
        with refused(words):
            await unbound.create("everywhere", None)
        with refused(words):
            await unbound.update("old")
        with refused(words):
            await unbound.delete("old")


async def test_others_are_not_its_business(installed: str, others: Slices) -> None:
    assert installed
    await others.create("theirs", "node-2")
    await others.create("everywhere", None)
    for name in ("theirs", "everywhere"):
        await others.update(name)
        await others.delete(name)
