"""helm install, upgrade and uninstall on a cluster whose pods use devices, and settings that are wrong."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import devices
from tests.e2e.cluster import chart
from tests.e2e.cluster.errors import ClusterError
from tests.e2e.cluster.target import Target
from tests.e2e.kubectl import JsonObject, Kubectl, condition, container_ids
from tests.e2e.manifests import example

pytestmark = pytest.mark.e2e

IN = ("--namespace", chart.NAMESPACE)
WAIT = ("--wait", "--timeout", "5m")


class Release:
    """The installed chart, and the values with which the tests found it."""

    def __init__(self, cluster: Target, folder: Path) -> None:
        self._kubeconfig = cluster.kubeconfig
        self._found = folder / "found.yaml"
        self._found.write_text(self.helm("get", "values", chart.RELEASE, *IN, "-o", "yaml"))

    @property
    def found(self) -> dict[str, Any]:
        return dict(yaml.safe_load(self._found.read_text()) or {})

    def helm(self, *arguments: str) -> str:
        return chart.helm(self._kubeconfig, *arguments)

    def upgrade(self, *arguments: str) -> str:
        return self.helm(
            "upgrade", "--install", chart.RELEASE, str(chart.CHART), *IN, "--values", str(self._found), *arguments
        )

    def uninstall(self) -> None:
        self.helm("uninstall", chart.RELEASE, *IN, *WAIT)


@pytest.fixture
def release(cluster: Target, tmp_path: Path) -> Generator[Release]:
    """Put back as it was, whatever a test does to it."""
    found = Release(cluster, tmp_path)
    yield found
    found.upgrade(*WAIT)


def _agents(admin: Kubectl) -> list[JsonObject]:
    return admin.within(chart.NAMESPACE).list("pods", selector="app.kubernetes.io/component=node-agent")


def _last_words(admin: Kubectl) -> str:
    """What agents that ended wrote last, as `kubectl describe pod` shows it."""
    statuses = [one for pod in _agents(admin) for one in pod["status"].get("containerStatuses", [])]
    ended = [one.get(state, {}).get("terminated") for one in statuses for state in ("state", "lastState")]
    return "\n".join(one["message"] for one in ended if one and one.get("message"))


def test_uninstall_leaves_pods_running_and_the_next_install_releases_their_claims(
    kubectl: Kubectl, cluster: Target, release: Release
) -> None:
    kubectl.apply(example("one-gpu"))
    before = container_ids(kubectl.wait_pod("one-gpu"))
    gpus = devices.seen(kubectl, "one-gpu", "main", 195)
    release.uninstall()
    assert container_ids(kubectl.wait_pod("one-gpu")) == before
    assert devices.seen(kubectl, "one-gpu", "main", 195) == gpus
    # The kubelet cannot release the claim now; it must as soon as there is an agent again.
    kubectl.delete("pod", "one-gpu", now=True, wait=False)
    release.upgrade(*WAIT)
    kubectl.wait_gone("pod", "one-gpu", within=180)
    kubectl.wait("nothing to be left", lambda: not any(devices.left(cluster).values()), within=60)
    kubectl.apply(example("one-gpu", renamed="again"))
    kubectl.wait_pod("again")


def test_default_values_are_ready_without_devices_and_say_why(admin: Kubectl, release: Release) -> None:
    release.uninstall()
    images = {
        section: {key: release.found[section]["image"][key] for key in ("repository", "tag")}
        for section in ("nodeAgent", "controller")
        if "image" in release.found.get(section, {})
    }
    chosen = [f"{section}.image.{key}={value}" for section, image in images.items() for key, value in image.items()]
    sets = [part for one in chosen for part in ("--set-string", one)]
    release.helm("install", chart.RELEASE, str(chart.CHART), *IN, *WAIT, *sets)
    pods = admin.within(chart.NAMESPACE).list("pods")
    assert len(pods) >= 2
    assert {condition(pod, "Ready") for pod in pods} == {"True"}
    logs = admin.within(chart.NAMESPACE).run("logs", "-l", "app.kubernetes.io/component=node-agent", "--tail=-1")
    assert "no devices" in logs
    assert not [key for key in devices.published(admin) if key[0] in devices.DRIVERS]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        pytest.param(["nodeAgent.simulate.profile=dgx-h1000"], ["dgx-h1000", "dgx-h100"], id="unknown profile"),
        pytest.param(
            [
                "nodeAgent.simulate.profile=mine",
                "nodeAgent.simulate.customProfiles.mine=gpus: [{model: nothing\\, pci: 7}]",
            ],
            ["/etc/gpu-dra/profiles/mine.yaml", "gpus[0]", "pci"],
            id="broken profile",
        ),
    ],
)
def test_a_profile_that_is_wrong_is_told_and_the_old_agents_serve_on(
    settings: list[str], said: list[str], kubectl: Kubectl, admin: Kubectl, release: Release
) -> None:
    surge = admin.within(chart.NAMESPACE).list("daemonsets")[0]["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"]
    sets = [part for one in settings for part in ("--set-string", one)]
    release.upgrade("--set-json", "nodeAgent.simulate.nodes={}", *sets)
    kubectl.wait("an agent to say what is wrong", lambda: all(word in _last_words(admin) for word in said), within=90)
    if surge:
        # A surged pod that fails costs nobody the agent that works.
        kubectl.apply(example("one-gpu"))
        kubectl.wait_pod("one-gpu")


def test_a_value_that_the_chart_does_not_know_is_refused_and_changes_nothing(admin: Kubectl, release: Release) -> None:
    before = admin.within(chart.NAMESPACE).list("daemonsets")[0]["metadata"]["generation"]
    with pytest.raises(ClusterError, match="profil"):
        release.upgrade("--set", "nodeAgent.simulate.profil=split-4x4")
    assert admin.within(chart.NAMESPACE).list("daemonsets")[0]["metadata"]["generation"] == before


def test_an_upgrade_leaves_a_running_pod_running(kubectl: Kubectl, release: Release) -> None:
    kubectl.apply(example("one-gpu"))
    before = container_ids(kubectl.wait_pod("one-gpu"))
    for level in ("debug", "info"):
        release.upgrade("--set", f"logLevel={level}", *WAIT)
    assert container_ids(kubectl.wait_pod("one-gpu")) == before
    kubectl.apply(example("one-gpu", renamed="after-upgrade"))
    kubectl.wait_pod("after-upgrade")
