"""What an agent's own credentials allow it: the slices of its node, and nobody else's."""

from __future__ import annotations

import json

import pytest

from gpu_dra.api import to_version
from tests.e2e.cluster import chart
from tests.e2e.cluster.target import Target
from tests.e2e.kubectl import Kubectl

pytestmark = pytest.mark.e2e

WRITE = """
import json, ssl, sys, urllib.error, urllib.request
account = "/var/run/secrets/kubernetes.io/serviceaccount"
method, path, server, body = sys.argv[1:]
request = urllib.request.Request(
    f"https://{server}{path}", data=body.encode() or None, method=method,
    headers={"Authorization": "Bearer " + open(account + "/token").read(), "Content-Type": "application/json"},
)
try:
    answer = urllib.request.urlopen(request, context=ssl.create_default_context(cafile=account + "/ca.crt"))
    print(json.dumps({"code": answer.status}))
except urllib.error.HTTPError as problem:
    print(problem.read().decode())
"""


def test_an_agent_cannot_write_or_delete_the_slices_of_another_node(admin: Kubectl, cluster: Target) -> None:
    mine = admin.within(chart.NAMESPACE)
    agent = mine.list("pods", selector="app.kubernetes.io/component=node-agent")[0]
    name, node = agent["metadata"]["name"], agent["spec"]["nodeName"]
    others = [one for one in admin.list("resourceslices") if one["spec"].get("nodeName") not in {None, node}]
    if not others:
        pytest.skip(f"cluster has only {len(cluster.node_names)} node with slices")
    address = mine.exec(name, "sh", "-c", "echo $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT").strip()
    base = f"/apis/resource.k8s.io/{admin.resource_version}/resourceslices"

    def ask(method: str, path: str, body: object = None) -> dict[str, object]:
        text = "" if body is None else json.dumps(body)
        return dict(json.loads(mine.exec(name, "/opt/gpu-dra/bin/python", "-c", WRITE, method, path, address, text)))

    def made_up(where: dict[str, object]) -> dict[str, object]:
        spec = {
            "driver": "gpu.nvidia.com",
            "pool": {"name": "made-up", "generation": 1, "resourceSliceCount": 1},
            "devices": [],
            **where,
        }
        document = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "made-up"}}
        return to_version({**document, "spec": spec}, admin.resource_version)

    theirs = others[0]
    refusals = [
        ask("POST", base, made_up({"nodeName": theirs["spec"]["nodeName"]})),
        ask("POST", base, made_up({"allNodes": True})),
        ask("DELETE", f"{base}/{theirs['metadata']['name']}"),
    ]
    assert [answer["code"] for answer in refusals] == [403, 403, 403], refusals
    for answer in refusals:
        assert node in str(answer["message"]), answer
    assert ask("POST", base, made_up({"nodeName": node})) == {"code": 201}
    # The agent itself may take away what should not be there, and does.
    admin.wait_gone("resourceslices", "made-up")
    assert admin.find("resourceslices", theirs["metadata"]["name"])
