"""Who may do what: roles, and the policy that holds an agent to its node."""

from __future__ import annotations

from typing import Any

from gpu_dra.api import JsonObject
from tests import chart


def test_one_name_of_the_agent_s_account_everywhere() -> None:
    """A policy that watches another account than the agents use would let everything pass."""
    renamed = {"nodeAgent.serviceAccount.name": "agents", "fullnameOverride": "other"}
    cases: list[tuple[dict[str, Any], str]] = [({}, "gpu-dra-node-agent"), (renamed, "agents")]
    for values, account in cases:
        objects = chart.render(values, namespace="here")
        assert chart.one(objects, "DaemonSet")["spec"]["template"]["spec"]["serviceAccountName"] == account
        assert account in [obj["metadata"]["name"] for obj in objects if obj["kind"] == "ServiceAccount"]
        (subject,) = chart.one(objects, "ClusterRoleBinding", "-node-agent")["subjects"]
        assert (subject["namespace"], subject["name"]) == ("here", account)
        policy = chart.one(objects, "ValidatingAdmissionPolicy")
        (condition,) = policy["spec"]["matchConditions"]
        assert condition["expression"] == f'request.userInfo.username == "system:serviceaccount:here:{account}"'
        binding = chart.one(objects, "ValidatingAdmissionPolicyBinding")
        assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}


def rules(objects: list[JsonObject], kind: str, suffix: str) -> set[tuple[str, str, str, str]]:
    """(group, resource, name, verb) that a role gives."""
    return {
        (group, resource, name, verb)
        for rule in chart.one(objects, kind, suffix)["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }


def test_nobody_has_more_rights_than_it_uses() -> None:
    """The component tests run the programs with these very rights; here they are counted."""
    objects = chart.render({"controller.replicas": 2})
    resource = "resource.k8s.io"
    assert rules(objects, "ClusterRole", "-node-agent") == {
        (resource, "resourceclaims", "", "get"),
        ("", "nodes", "", "get"),
        *((resource, "resourceslices", "", verb) for verb in ("list", "watch", "create", "update", "delete")),
        *(("gpu-dra.io", "gpunodes", "", verb) for verb in ("get", "create", "update")),
    }
    assert rules(objects, "ClusterRole", "-controller") == {
        ("rbac.authorization.k8s.io", "clusterroles", "gpu-dra:gpu-dra-controller", "get"),
        *((resource, "deviceclasses", "", verb) for verb in ("list", "watch", "create", "update", "delete")),
    }
    assert rules(objects, "Role", "-controller") == {
        ("coordination.k8s.io", "leases", "", "create"),
        ("coordination.k8s.io", "leases", "gpu-dra-controller", "get"),
        ("coordination.k8s.io", "leases", "gpu-dra-controller", "update"),
    }
    events = chart.one(objects, "Role", "-controller-events")
    assert events["metadata"]["namespace"] == "default"
    assert rules(objects, "Role", "-controller-events") == {("", "events", "", "create")}
    kinds = [obj["kind"] for obj in objects]
    assert kinds.count("ClusterRole") == kinds.count("ClusterRoleBinding") == 2
    assert kinds.count("Role") == kinds.count("RoleBinding") == 2


def test_the_policy_may_be_left_out() -> None:
    objects = chart.render({"admissionPolicy.enabled": False})
    assert [obj for obj in objects if "AdmissionPolicy" in obj["kind"]] == []
