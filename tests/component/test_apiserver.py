"""The server that the other component tests stand on."""

from __future__ import annotations

from gpu_dra.kube.client import KubeClient
from tests.component.apiserver import ApiServer


async def test_serves_the_version_that_was_asked_for(api_server: ApiServer, admin: KubeClient) -> None:
    """Our client finds the best version of resource.k8s.io on it."""
    assert (await admin.get("/version"))["gitVersion"] == f"v{api_server.version}"
    assert await admin.resource_version() == api_server.resource_version


async def test_a_bound_token_carries_its_node(api_server: ApiServer) -> None:
    """What the admission policy of the chart relies on."""
    token = await api_server.token_for("walker", namespace="tokens", node="node-7")
    async with KubeClient(api_server.as_bearer(token)) as kube:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        who = await kube.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    user = who["status"]["userInfo"]
    assert user["username"] == "system:serviceaccount:tokens:walker"
    assert user["extra"]["authentication.kubernetes.io/node-name"] == ["node-7"]
