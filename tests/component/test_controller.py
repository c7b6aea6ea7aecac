"""The controller as a process against a real API server, with the chart's own rights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.device_classes import MANAGED_BY, MANAGER, MARK
from gpu_dra.api import JsonObject
from gpu_dra.kube.client import KubeClient, path_of
from tests import chart
from tests.component import controllers, objects
from tests.component.apiserver import ApiServer
from tests.component.controllers import Release, Running, eventually

NAMES = {"gpu.nvidia.com", "mig.nvidia.com", "nic.gpu-dra.io"}


class Classes:
    """The cluster's DeviceClasses, as an administrator sees them."""

    def __init__(self, admin: KubeClient, version: str) -> None:
        self.admin = admin
        self.path = path_of(version, "deviceclasses")
        self.api_version = f"resource.k8s.io/{version}"

    async def all(self) -> dict[str, JsonObject]:
        items = (await self.admin.get(self.path))["items"]
        return {item["metadata"]["name"]: item for item in items}

    async def get(self, name: str) -> JsonObject | None:
        return (await self.all()).get(name)

    async def make(self, name: str, **metadata: Any) -> JsonObject:
        obj = {
            "apiVersion": self.api_version,
            "kind": "DeviceClass",
            "metadata": {"name": name, **metadata},
            "spec": {},
        }
        return await self.admin.create(self.path, obj)

    async def change(self, name: str, **spec: Any) -> None:
        obj = await self.admin.get(f"{self.path}/{name}")
        await self.admin.replace(f"{self.path}/{name}", {**obj, "spec": {**obj["spec"], **spec}})

    async def delete(self, name: str) -> None:
        await self.admin.delete(f"{self.path}/{name}")

    async def versions(self) -> dict[str, str]:
        return {name: obj["metadata"]["resourceVersion"] for name, obj in (await self.all()).items()}


@pytest.fixture
async def classes(api_server: ApiServer, admin: KubeClient) -> AsyncIterator[Classes]:
    """The classes; none before and after a test."""
    found = Classes(admin, api_server.resource_version)
    for name in await found.all():
        await found.delete(name)
    yield found
    for name in await found.all():
        await found.delete(name)


@pytest.fixture
async def release(
    api_server: ApiServer, admin: KubeClient, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Release]:
    """The chart with its default values in a namespace of the test's own; values by indirect parameters."""
    namespace = request.node.name.partition("[")[0].removeprefix("test_").replace("_", "-")[:40].strip("-")
    item = await controllers.install(api_server, admin, tmp_path, namespace, **getattr(request, "param", {}))
    yield item
    await objects.remove(admin, item.rights)


async def ready(controller: Running) -> None:
    await eventually(lambda: controller.ready, "the controller is ready")


async def test_makes_the_classes_of_the_values(api_server: ApiServer, release: Release, classes: Classes) -> None:
    with controllers.running(release) as controller:
        await ready(controller)
        stored = await classes.all()
        assert set(stored) == NAMES
        role = chart.one(release.rendered, "ClusterRole", "-controller")["metadata"]["name"]
        for name, obj in stored.items():
            metadata = obj["metadata"]
            assert metadata["labels"][MANAGED_BY] == MANAGER
            assert metadata["annotations"] == {MARK: f"{release.namespace}/gpu-dra/{name}"}
            assert [(owner["kind"], owner["name"]) for owner in metadata["ownerReferences"]] == [("ClusterRole", role)]
            assert "finalizers" not in metadata
        expression = stored["gpu.nvidia.com"]["spec"]["selectors"][0]["cel"]["expression"]
        assert expression.startswith('device.driver == "gpu.nvidia.com" && ')
        wanted = "nvidia.com/gpu" if api_server.minor >= 34 else None
        assert stored["gpu.nvidia.com"]["spec"].get("extendedResourceName") == wanted
        assert controller.get("/healthz")[0] == 200
        assert 'gpu_dra_controller_device_classes{state="kept"} 3.0' in controller.get("/metrics")[1]
        assert controller.terminate() == 0
    assert set(await classes.all()) == NAMES, "classes stay when the controller stops"


async def test_repairs_what_others_change_and_delete(release: Release, classes: Classes) -> None:
    with controllers.running(release) as controller:
        await ready(controller)
        before = await classes.all()
        await classes.change("gpu.nvidia.com", selectors=[{"cel": {"expression": "true"}}])
        await classes.delete("mig.nvidia.com")
        nic = await classes.get("nic.gpu-dra.io")
        assert nic is not None
        nic["metadata"]["labels"] = {"team": "network"}
        nic["apiVersion"], nic["kind"] = classes.api_version, "DeviceClass"
        await classes.admin.replace(f"{classes.path}/nic.gpu-dra.io", nic)

        async def repaired() -> bool:
            now = await classes.all()
            same = set(now) == NAMES and all(now[name]["spec"] == before[name]["spec"] for name in NAMES)
            return same and now["nic.gpu-dra.io"]["metadata"]["labels"].get(MANAGED_BY) == MANAGER

        await eventually(repaired, "the classes are as before")
        now = await classes.get("nic.gpu-dra.io")
        assert now is not None
        assert now["metadata"]["labels"]["team"] == "network", "what others add to the metadata stays"


async def test_leaves_foreign_classes_alone(release: Release, classes: Classes, admin: KubeClient) -> None:
    await classes.make("gpu.nvidia.com")
    await classes.make("somebody-elses", labels={MANAGED_BY: MANAGER})
    before = await classes.versions()
    with controllers.running(release) as controller:
        await ready(controller)
        await classes.change("mig.nvidia.com", selectors=[])
        await eventually(lambda: controller.writes() == 3, "a second pass has written")
        after = await classes.all()
        assert {name: after[name]["metadata"]["resourceVersion"] for name in before} == before
        assert [item for item in after.values() if "kopf" in str(item)] == []
        assert len(controller.lines("DeviceClass gpu.nvidia.com was made by somebody else and is left alone")) == 1
        assert 'gpu_dra_controller_device_classes{state="foreign"} 1.0' in controller.get("/metrics")[1]

        async def events() -> list[JsonObject]:
            found = await admin.get("/api/v1/namespaces/default/events")
            uid = after["gpu.nvidia.com"]["metadata"]["uid"]
            return [item for item in found["items"] if item["involvedObject"].get("uid") == uid]

        assert len(await eventually(events, "an event tells about the class")) == 1
        await classes.delete("gpu.nvidia.com")

        async def ours() -> bool:
            found = await classes.get("gpu.nvidia.com")
            return found is not None and MARK in found["metadata"]["annotations"]

        await eventually(ours, "the freed name is taken")


async def test_removes_only_its_own_when_values_shrink(release: Release, classes: Classes) -> None:
    with controllers.running(release) as controller:
        await ready(controller)
    # A copy under a name of its own carries our marks, and is somebody's all the same.
    ours = await classes.get("mig.nvidia.com")
    assert ours is not None
    metadata = {field: ours["metadata"][field] for field in ("labels", "annotations", "ownerReferences")}
    await classes.make("copied", **metadata)
    only = yaml.safe_dump([{"name": "gpu.nvidia.com", "type": "gpu", "driver": "gpu.nvidia.com"}])
    with controllers.running(release, classes=only) as controller:
        await ready(controller)
        assert set(await classes.all()) == {"gpu.nvidia.com", "copied"}


async def test_comes_back_after_a_kill_and_writes_only_what_is_wrong(release: Release, classes: Classes) -> None:
    with controllers.running(release) as controller:
        await ready(controller)
        controller.kill()
    await classes.delete("mig.nvidia.com")
    before = await classes.versions()
    with controllers.running(release) as controller:
        await ready(controller)
        after = await classes.versions()
        assert set(after) == NAMES
        assert {name: after[name] for name in before} == before
        assert controller.writes() == 1


async def test_a_field_that_the_server_drops_is_told_once(
    api_server: ApiServer, release: Release, classes: Classes
) -> None:
    """On servers before 1.34; on those since nothing is dropped, and nothing told."""
    with controllers.running(release) as controller:
        await ready(controller)
        await classes.delete("gpu.nvidia.com")

        async def back() -> bool:
            return await classes.get("gpu.nvidia.com") is not None

        await eventually(back, "the class is made again")
        await asyncio.sleep(3)
        assert controller.writes() == 4, "three classes made, one made again, and no loop"
        dropped = 1 if api_server.minor < 34 else 0
        assert len(controller.lines("did not store spec.extendedResourceName")) == dropped


async def test_another_release_keeps_off(
    api_server: ApiServer, admin: KubeClient, release: Release, classes: Classes, tmp_path: Path
) -> None:
    second = await controllers.install(api_server, admin, tmp_path, "second-release")
    with controllers.running(release, "first") as one:
        await ready(one)
        before = await classes.versions()
        with controllers.running(second, "second") as two:
            await ready(two)
            assert len(two.lines("was made by the release gpu-dra in namespace another-release-keeps-off")) == 3
            assert two.writes() == 0
        assert await classes.versions() == before
    await objects.remove(admin, second.rights)


async def test_waits_without_its_cluster_role(release: Release, classes: Classes, admin: KubeClient) -> None:
    """As while the release is uninstalled: it must not make classes that nobody would delete."""
    role = chart.one(release.rendered, "ClusterRole", "-controller")
    rules = [{key: value for key, value in rule.items() if key != "resourceNames"} for rule in role["rules"]]
    other = {**role, "metadata": {"name": "stand-in"}, "rules": rules}
    binding = chart.one(release.rendered, "ClusterRoleBinding", "-controller")
    rebound = {**binding, "metadata": {"name": "stand-in"}, "roleRef": {**binding["roleRef"], "name": "stand-in"}}
    await objects.apply(admin, [other, rebound])
    await objects.remove(admin, [role])
    with controllers.running(release) as controller:
        await eventually(lambda: "is not there" in controller.get("/readyz")[1], "/readyz says what is missing")
        assert await classes.all() == {}
        await objects.apply(admin, [role])
        await ready(controller)
        assert set(await classes.all()) == NAMES
    await objects.remove(admin, [other, rebound])
