"""Several replicas of the controller: one works, and another takes over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from gpu_dra.api import JsonObject
from gpu_dra.kube.client import KubeClient, path_of
from tests.component import controllers, objects
from tests.component.apiserver import ApiServer
from tests.component.controllers import Release, Running, eventually

NAMESPACE = "election"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/gpu-dra-controller"


@pytest.fixture
async def release(api_server: ApiServer, admin: KubeClient, tmp_path: Path) -> AsyncIterator[Release]:
    """A release with two replicas, and a Lease that nobody holds."""
    item = await controllers.install(api_server, admin, tmp_path, NAMESPACE, controller={"replicas": 2})
    yield item
    lease: JsonObject = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "gpu-dra-controller", "namespace": NAMESPACE},
    }
    await objects.remove(admin, [*item.rights, lease])
    classes = path_of(api_server.resource_version, "deviceclasses")
    for found in (await admin.get(classes))["items"]:
        await admin.delete(f"{classes}/{found['metadata']['name']}")


def holder(admin: KubeClient) -> Callable[[], Awaitable[str]]:
    async def read() -> str:
        return str((await admin.get(LEASE))["spec"].get("holderIdentity", ""))

    return read


async def leads(controller: Running) -> None:
    await eventually(lambda: controller.leading and controller.ready, "the replica leads and is ready", 45)


async def stands_by(controller: Running) -> None:
    await eventually(lambda: controller.lines("standing by") and controller.ready, "the replica stands by, ready")
    assert not controller.leading


async def test_the_next_replica_takes_over_from_a_killed_one(release: Release, admin: KubeClient) -> None:
    with controllers.running(release, "controller-a") as first:
        await leads(first)
        with controllers.running(release, "controller-b") as second:
            await stands_by(second)
            assert await holder(admin)() == "controller-a"
            first.kill()
            await leads(second)
            lease = (await admin.get(LEASE))["spec"]
            assert lease["holderIdentity"] == "controller-b"
            assert lease["leaseTransitions"] == 1


async def test_sigterm_gives_the_lease_back(release: Release, admin: KubeClient) -> None:
    with controllers.running(release, "controller-a") as first:
        await leads(first)
        with controllers.running(release, "controller-b") as second:
            await stands_by(second)
            assert first.terminate() == 0
            assert first.lines("released the lease")
            await leads(second)
        assert await holder(admin)() == "controller-b", "a killed one gives nothing back"


async def test_a_restarted_container_leads_again_at_once(release: Release, admin: KubeClient) -> None:
    """Its pod's name, and so its identity, is the same: nobody else can hold the lease in that name."""
    with controllers.running(release, "controller-a") as first:
        await leads(first)
        first.kill()
    with controllers.running(release, "controller-a") as again:
        await leads(again)
        assert (await admin.get(LEASE))["spec"]["leaseTransitions"] == 0


async def test_losing_the_lease_ends_the_process(release: Release, admin: KubeClient) -> None:
    with controllers.running(release, "controller-a") as controller:
        await leads(controller)
        lease = await admin.get(LEASE)
        await admin.replace(LEASE, {**lease, "spec": {**lease["spec"], "holderIdentity": "somebody"}})
        await eventually(lambda: controller.process.poll() is not None, "the process has ended")
        assert controller.process.returncode == 1
        assert controller.lines("the lease was taken away; it is now held by somebody.")
        assert await holder(admin)() == "somebody"


async def test_a_change_of_the_lease_by_a_person_is_no_loss(release: Release, admin: KubeClient) -> None:
    with controllers.running(release, "controller-a") as controller:
        await leads(controller)
        lease = await admin.get(LEASE)
        lease["metadata"]["labels"] = {"seen": "yes"}
        changed = await admin.replace(LEASE, lease)

        async def renewed() -> bool:
            now = await admin.get(LEASE)
            return bool(now["spec"]["renewTime"] != changed["spec"]["renewTime"])

        await eventually(renewed, "the lease is renewed")
        assert (await admin.get(LEASE))["metadata"]["labels"] == {"seen": "yes"}
        assert controller.process.poll() is None
        assert controller.leading
