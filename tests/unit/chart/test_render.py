"""What an install makes, over the Kubernetes versions that the chart is for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest
import yaml

from controller import class_list
from controller import settings as controller_settings
from gpu_dra.api import JsonObject
from node_agent import settings as agent_settings
from tests import chart

VERSIONS = ("1.32.9", "1.33.5", "1.34.4", "1.35.0", "1.36.0", "1.37.2")
PROFILE = "gpus:\n  - model: made up\n"
ODD: dict[str, Any] = {
    "fullnameOverride": "a-name-that-is-as-long-as-a-name-can-be.a",
    "imagePullSecrets": [{"name": "pull"}],
    "kubeletRootDir": "/data/kubelet",
    "cdiRoot": "/etc/cdi",
    "gpuDriverName": "gpu.example.com",
    "logLevel": "debug",
    "logFormat": "json",
    "nodeAgent.image": {"repository": "registry.example:5000/a/b", "tag": "1.2.3", "pullPolicy": "Always"},
    "nodeAgent.simulate": {
        "profile": "mine",
        "nodes": {"n1": "dgx-h100", "n2": "mine"},
        "customProfiles": {"mine": PROFILE},
    },
    "nodeAgent.nics.enabled": False,
    "nodeAgent.runtimeClassName": "nvidia",
    "nodeAgent.updateStrategy": {"maxSurge": 0, "maxUnavailable": "25%"},
    "nodeAgent.nodeSelector": {"gpu": "true"},
    "nodeAgent.affinity": {"nodeAffinity": {}},
    "nodeAgent.podLabels": {"team": "a"},
    "nodeAgent.podAnnotations": {"note": "yes: really"},
    "nodeAgent.extraEnv": [{"name": "A", "value": "b"}],
    "nodeAgent.extraVolumes": [{"name": "v", "emptyDir": {}}],
    "nodeAgent.extraVolumeMounts": [{"name": "v", "mountPath": "/v"}],
    "nodeAgent.serviceAccount": {"name": "agents", "annotations": {"a": "b"}},
    "controller.replicas": 3,
    "controller.serviceAccount": {"name": "controllers"},
    "deviceClasses": [{"name": "whole", "type": "gpu", "driver": "other.example"}, {"name": "nics", "type": "nic"}],
}
VALUES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "odd": ODD,
    "one, bare": {"deviceClasses": [], "controller.replicas": 0},
}


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=VALUES)
def values(request: pytest.FixtureRequest) -> dict[str, Any]:
    return VALUES[request.param]


def pods(objects: list[JsonObject]) -> Iterator[JsonObject]:
    for obj in objects:
        if obj["kind"] in ("DaemonSet", "Deployment"):
            yield obj["spec"]["template"]["spec"]


def flags(objects: list[JsonObject], kind: str) -> list[str]:
    """A container's arguments with the pod's fields filled in."""
    container = chart.one(objects, kind)["spec"]["template"]["spec"]["containers"][0]
    filled = []
    for argument in container["args"]:
        text = argument
        for variable in container["env"]:
            text = text.replace(f"$({variable['name']})", "0d1e2f30-0000-4000-8000-000000000000")
        assert "$(" not in text, "every variable is defined"
        filled.append(text)
    return filled


def test_helm_lint_finds_nothing() -> None:
    assert "0 chart(s) failed" in chart.helm("lint", "--strict", str(chart.CHART))


def test_every_object_is_valid(values: dict[str, Any], version: str) -> None:
    objects = chart.render(values, kube_version=version)
    assert len(objects) > 10
    for obj in objects:
        kubernetes_validate.validate(obj, version, strict=True)


@pytest.mark.parametrize(
    ("kube_version", "given", "surge", "unavailable"),
    [
        ("1.32.9", {}, 0, 1),
        ("1.33.0", {}, 1, 0),
        ("1.37.2", {}, 1, 0),
        ("1.34.4-gke.100", {}, 1, 0),
        ("1.37.2", {"maxSurge": 0}, 0, 1),
        ("1.37.2", {"maxSurge": "0%", "maxUnavailable": "10%"}, "0%", "10%"),
        ("1.37.2", {"maxSurge": "20%"}, "20%", 0),
        ("1.37.2", {"maxSurge": 3}, 3, 0),
        ("1.32.9", {"maxUnavailable": 5}, 0, 5),
    ],
)
def test_how_agents_are_updated(kube_version: str, given: dict[str, Any], surge: object, unavailable: object) -> None:
    objects = chart.render(
        {f"nodeAgent.updateStrategy.{key}": value for key, value in given.items()}, kube_version=kube_version
    )
    strategy = chart.one(objects, "DaemonSet")["spec"]["updateStrategy"]
    assert strategy == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
    }


def test_no_pod_has_more_of_the_host_than_it_needs(values: dict[str, Any]) -> None:
    objects = chart.render(values)
    for pod in pods(objects):
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = pod["containers"]
        assert all("hostPort" not in port for port in container["ports"])
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"]["drop"] == ["ALL"]
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= set(container)
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}
    agent = chart.one(objects, "DaemonSet")["spec"]["template"]["spec"]
    assert agent["containers"][0]["securityContext"]["capabilities"]["add"] == ["MKNOD"]
    controller = chart.one(objects, "Deployment")["spec"]["template"]["spec"]
    assert controller["securityContext"]["runAsNonRoot"] is True
    assert not any("hostPath" in volume for volume in controller["volumes"])


def test_the_host_s_folders_have_one_path_inside_and_outside() -> None:
    objects = chart.render(ODD)
    pod = chart.one(objects, "DaemonSet")["spec"]["template"]["spec"]
    outside = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    inside = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    # What the agent only reads is beside its own.
    seen = {name: outside.pop(name) for name in ("host-sys", "host-proc")}
    assert seen == {"host-sys": "/sys", "host-proc": "/proc"}
    assert {inside[name] for name in seen} == {"/host/sys", "/host/proc"}
    assert "--host-root=/host" in flags(objects, "DaemonSet")
    assert outside == {name: inside[name] for name in outside}
    assert set(outside.values()) == {"/data/kubelet/plugins", "/data/kubelet/plugins_registry", "/etc/cdi"}


def test_with_a_driver_root_the_agent_is_privileged_and_sees_it() -> None:
    objects = chart.render(
        {"nodeAgent.nvidia.driverRoot": "/run/nvidia/driver", "nodeAgent.nvidia.library": "/x/nvml.so"}
    )
    pod = chart.one(objects, "DaemonSet")["spec"]["template"]["spec"]
    (volume,) = [volume for volume in pod["volumes"] if volume["name"] == "driver-root"]
    assert volume["hostPath"]["path"] == "/run/nvidia/driver"
    (mount,) = [mount for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == "driver-root"]
    assert (mount["mountPath"], mount["readOnly"], mount["mountPropagation"]) == (
        "/driver-root",
        True,
        "HostToContainer",
    )
    assert pod["containers"][0]["securityContext"]["privileged"]
    settings = agent_settings.read(flags(objects, "DaemonSet"), {})
    assert (str(settings.driver_root), str(settings.nvml_library)) == ("/driver-root", "/x/nvml.so")
    plain = chart.one(chart.render(), "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    assert not plain["securityContext"]["privileged"]


def test_the_programs_take_the_arguments_that_the_chart_gives(values: dict[str, Any], tmp_path: Any) -> None:
    objects = chart.render(values)
    agent = agent_settings.read(flags(objects, "DaemonSet"), {})
    classes = tmp_path / "classes.yaml"
    classes.write_text(chart.one(objects, "ConfigMap", "-controller")["data"]["device-classes.yaml"])
    given = [
        f"--device-classes={classes}" if flag.startswith("--device-classes=") else flag
        for flag in flags(objects, "Deployment")
    ]
    controller = controller_settings.parse(given, {})
    assert controller.leader_elect == (values.get("controller.replicas", 1) > 1)
    assert controller.owner_cluster_role == chart.one(objects, "ClusterRole", "-controller")["metadata"]["name"]
    assert str(agent.cdi_root) == values.get("cdiRoot", "/var/run/cdi")
    assert (agent.log_format, controller.log_format) == (values.get("logFormat", "text"),) * 2
    if values is ODD:
        assert agent.simulate == "/etc/gpu-dra/profiles/mine.yaml"
        profiles = chart.one(objects, "ConfigMap", "-profiles")["data"]
        assert yaml.safe_load(profiles["mine.yaml"]) == yaml.safe_load(PROFILE)


def test_the_classes_of_the_values_reach_the_controller() -> None:
    def read(values: dict[str, Any]) -> tuple[class_list.WantedClass, ...]:
        text = chart.one(chart.render(values), "ConfigMap", "-controller")["data"]["device-classes.yaml"]
        return class_list.parse(text, "the ConfigMap")

    assert read({}) == (
        class_list.WantedClass("gpu.nvidia.com", "gpu", "gpu.nvidia.com", "nvidia.com/gpu"),
        class_list.WantedClass("mig.nvidia.com", "mig", "gpu.nvidia.com"),
        class_list.WantedClass("nic.gpu-dra.io", "nic", "nic.gpu-dra.io"),
    )
    assert read(ODD) == (
        class_list.WantedClass("whole", "gpu", "other.example"),
        class_list.WantedClass("nics", "nic", "nic.gpu-dra.io"),
    )
    assert read({"gpuDriverName": "x.example"})[0].driver == "x.example"
    assert read({"deviceClasses": []}) == ()
    assert read({"deviceClasses": None}) == ()


def test_a_change_of_the_classes_restarts_the_controller_and_of_the_profiles_the_agents() -> None:
    def annotations(kind: str, values: dict[str, Any]) -> JsonObject:
        template: JsonObject = chart.one(chart.render(values), kind)["spec"]["template"]["metadata"]
        return template["annotations"]  # type: ignore[no-any-return]

    assert annotations("Deployment", {}) != annotations("Deployment", {"deviceClasses": []})
    assert annotations("Deployment", {}) == annotations("Deployment", {"logLevel": "debug"})
    profile = {"nodeAgent.simulate.customProfiles": {"mine": PROFILE}}
    other = {"nodeAgent.simulate.customProfiles": {"mine": PROFILE + "\n# more"}}
    assert annotations("DaemonSet", profile) != annotations("DaemonSet", other)


def test_one_replica_needs_no_lease_and_never_meets_its_successor() -> None:
    objects = chart.render()
    assert [obj for obj in objects if obj["kind"] in ("Role", "PodDisruptionBudget")] == [
        chart.one(objects, "Role", "-controller-events")
    ]
    assert chart.one(objects, "Deployment")["spec"]["strategy"] == {"type": "Recreate"}
    several = chart.render({"controller.replicas": 2})
    assert "strategy" not in chart.one(several, "Deployment")["spec"]
    assert chart.one(several, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_nothing_acts_on_uninstall_or_upgrade() -> None:
    """No hook, no job: slices, claims and running pods are left to themselves."""
    for values in VALUES.values():
        text = chart.render_text(values)
        assert "helm.sh/hook" not in text
        assert {obj["kind"] for obj in yaml.safe_load_all(text) if obj} <= {
            "ClusterRole",
            "ClusterRoleBinding",
            "ConfigMap",
            "CustomResourceDefinition",
            "DaemonSet",
            "Deployment",
            "PodDisruptionBudget",
            "Role",
            "RoleBinding",
            "ServiceAccount",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
        }


def test_two_releases_in_two_namespaces_do_not_meet() -> None:
    def cluster_names(namespace: str) -> set[tuple[str, str]]:
        objects = chart.render(namespace=namespace)
        return {
            (obj["kind"], obj["metadata"]["name"])
            for obj in objects
            # Of a kind there is one definition for all; the second release has crds.enabled=false.
            if obj["metadata"].get("namespace") != namespace and obj["kind"] != "CustomResourceDefinition"
        }

    assert cluster_names("a") & cluster_names("b") == set()


def test_a_selector_holds_across_upgrades() -> None:
    """Selectors are immutable: nothing that changes with a version may stand in them."""
    for kind in ("DaemonSet", "Deployment"):
        selector = chart.one(chart.render(), kind)["spec"]["selector"]["matchLabels"]
        assert set(selector) == {"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"}
