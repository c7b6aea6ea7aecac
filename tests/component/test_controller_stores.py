"""The controller's ports: the same cases on the stores in memory, which the unit tests use, and on a real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from controller import device_classes, lease
from controller.adapters.kube import KubeClasses, KubeLease
from controller.class_list import WantedClass
from controller.device_classes import Release, essence, name_of
from controller.ports import ClassStore, LeaseStore, Outdated, Refused
from gpu_dra.api import JsonObject
from gpu_dra.errors import Unavailable
from gpu_dra.kube.client import KubeClient
from tests.component import objects
from tests.component.apiserver import ApiServer
from tests.fakes.classes import FakeClasses, FakeLease

NOW = "2026-01-01T00:00:00.000000Z"
NAMES = ("first", "second", "refused")


def wanted(name: str) -> JsonObject:
    obj = device_classes.encode(WantedClass(name, "gpu", "gpu.nvidia.com"), Release("n", "r"), None)
    if name == "refused":
        obj["spec"]["selectors"][0]["cel"]["expression"] = "this is no CEL"
    return obj


@pytest.fixture(params=["memory", "server"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[ClassStore]:
    if request.param == "memory":
        yield FakeClasses(refuses=["refused"])
        return
    server: ApiServer = request.getfixturevalue("api_server")
    async with KubeClient(server.connection) as kube:
        yield KubeClasses(kube, server.resource_version, None)
        version = f"resource.k8s.io/{server.resource_version}"
        left = [{"apiVersion": version, "kind": "DeviceClass", "metadata": {"name": name}} for name in NAMES]
        await objects.remove(kube, left)


@pytest.fixture(params=["memory", "server"])
async def leases(request: pytest.FixtureRequest) -> AsyncIterator[LeaseStore]:
    if request.param == "memory":
        yield FakeLease()
        return
    server: ApiServer = request.getfixturevalue("api_server")
    async with KubeClient(server.connection) as kube:
        await objects.make_namespace(kube, "leases")
        yield KubeLease(kube, "leases", "one")
        item = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "one", "namespace": "leases"},
        }
        await objects.remove(kube, [item])


async def find(store: ClassStore, name: str) -> JsonObject | None:
    return next((obj for obj in await store.list() if name_of(obj) == name), None)


async def test_what_is_created_is_listed_in_the_shape_of_v1(store: ClassStore) -> None:
    answer = await store.create(wanted("first"))
    assert essence(answer) == essence(wanted("first"))
    found = await find(store, "first")
    assert found is not None
    assert found["apiVersion"] == "resource.k8s.io/v1"
    assert found["kind"] == "DeviceClass"
    assert found["metadata"]["uid"] == answer["metadata"]["uid"]


async def test_a_name_that_is_taken_is_outdated_and_a_bad_object_refused(store: ClassStore) -> None:
    await store.create(wanted("first"))
    with pytest.raises(Outdated):
        await store.create(wanted("first"))
    with pytest.raises(Refused, match="DeviceClass refused cannot be created"):
        await store.create(wanted("refused"))


async def test_replacing_wants_the_newest_version_and_without_a_change_keeps_it(store: ClassStore) -> None:
    await store.create(wanted("first"))
    first = await find(store, "first")
    assert first is not None
    changed = await store.replace({**first, "spec": {}})
    assert changed["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]
    with pytest.raises(Outdated):
        await store.replace(first)
    again = await find(store, "first")
    assert again is not None
    assert (await store.replace(again))["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]


async def test_deleting_takes_the_very_object_only(store: ClassStore) -> None:
    answer = await store.create(wanted("first"))
    other = {**answer, "metadata": {**answer["metadata"], "uid": "00000000-0000-0000-0000-000000000000"}}
    with pytest.raises(Outdated):
        await store.delete(other)
    await store.delete(answer)
    assert await find(store, "first") is None
    await store.delete(answer)
    with pytest.raises(Outdated):
        await store.replace(answer)


async def test_a_lease_is_written_by_whoever_read_it_last(leases: LeaseStore) -> None:
    assert await leases.read() is None
    first = await leases.write(lease.taken(None, "a", NOW))
    with pytest.raises(Outdated):
        await leases.write(lease.taken(None, "b", NOW))
    assert (await leases.read()) == replace(first)
    second = await leases.write(lease.taken(first, "a", "2026-01-01T00:00:02.000000Z"))
    with pytest.raises(Outdated):
        await leases.write(lease.released(first, NOW))
    await leases.write(lease.released(second, NOW))
    found = await leases.read()
    assert found is not None
    assert found.holder == ""


async def test_an_owner_that_is_not_there_is_waited_for(api_server: ApiServer) -> None:
    async with KubeClient(api_server.connection) as kube:
        store = KubeClasses(kube, api_server.resource_version, "nobody:has-this")
        with pytest.raises(
            Unavailable, match="ClusterRole nobody:has-this, which is to own the DeviceClasses, is not there"
        ):
            await store.owner()
        found = await KubeClasses(kube, api_server.resource_version, "cluster-admin").owner()
        assert found is not None
        assert found.uid
        assert await KubeClasses(kube, api_server.resource_version, None).owner() is None
