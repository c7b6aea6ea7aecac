"""SliceStore: the same cases on a real API server and on the fake that stands in for it.

Two stores of one node are used: what the other one does is what somebody else does.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from gpu_dra.device import Device, Version
from gpu_dra.kube.client import ApiError, Conflict, KubeClient, NotFound, path_of
from gpu_dra.names import DeviceName, PoolName
from gpu_dra.resource_slice import Pool, ResourceSlice
from node_agent.adapters.kube import ApiVersion, KubeSlices
from node_agent.ports import SliceStore
from tests.component.apiserver import ApiServer
from tests.fakes.slices import FakeSliceServer

DRIVER, NODE = "gpu.nvidia.com", "contract"
DEVICE = Device(
    DeviceName("gpu-0"),
    {"model": "H100", "numa_node": 0, "mig_capable": True, "driverVersion": Version("580.95.5"), "dra.net/numaNode": 0},
    {"memory": 85520809984},
)
ONE = ResourceSlice("contract-one", DRIVER, NODE, Pool(PoolName("contract/gpu"), 1, 1), (DEVICE,))
SICK = replace(ONE, devices=(replace(DEVICE, attributes={**DEVICE.attributes, "numa_node": 1}),))
BAD = replace(ONE, devices=(Device(DeviceName("Not_A_Label")),))
ELSEWHERE = (
    replace(ONE, name="contract-driver", driver="nic.gpu-dra.io", pool=Pool(PoolName("contract/nic"), 1, 1)),
    replace(ONE, name="contract-node", node="contract-2", pool=Pool(PoolName("contract-2/gpu"), 1, 1)),
)

NewStore = Callable[[str, str], SliceStore]


@pytest.fixture(params=["server", "fake"])
async def new_store(request: pytest.FixtureRequest) -> AsyncIterator[NewStore]:
    if request.param == "fake":
        yield FakeSliceServer().store
        return
    server: ApiServer = request.getfixturevalue("api_server")
    version = server.resource_version
    async with KubeClient(server.connection) as kube:
        for name in (NODE, "contract-2"):
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
            with contextlib.suppress(Conflict):
                await kube.create("/api/v1/nodes", node)
        yield lambda driver, node: KubeSlices(kube, ApiVersion(kube), driver, node)
        for item in (ONE, *ELSEWHERE):
            with contextlib.suppress(NotFound):
                await kube.delete(path_of(version, "resourceslices", name=item.name))


@pytest.fixture
def ours(new_store: NewStore) -> SliceStore:
    return new_store(DRIVER, NODE)


@pytest.fixture
async def other(new_store: NewStore) -> SliceStore:
    return new_store(DRIVER, NODE)


async def test_what_is_written_is_answered_and_listed_as_it_was_asked(ours: SliceStore, other: SliceStore) -> None:
    assert await ours.list() == {}
    assert await ours.write(ONE, exists=False) == ONE
    assert await other.list() == {ONE.name: ONE}
    assert await ours.write(SICK, exists=True) == SICK
    assert await other.list() == {ONE.name: SICK}


async def test_an_empty_slice_is_a_slice(ours: SliceStore, other: SliceStore) -> None:
    await ours.list()
    empty = replace(ONE, devices=())
    assert await ours.write(empty, exists=False) == empty
    assert await other.list() == {ONE.name: empty}


async def test_slices_of_other_drivers_and_nodes_are_not_listed(ours: SliceStore, new_store: NewStore) -> None:
    for item in ELSEWHERE:
        store = new_store(item.driver, item.node)
        await store.list()
        await store.write(item, exists=False)
        assert await store.list() == {item.name: item}
    assert await ours.list() == {}


async def test_a_name_that_is_taken_meanwhile_is_a_conflict(ours: SliceStore, other: SliceStore) -> None:
    await ours.list()
    await other.list()
    await other.write(SICK, exists=False)
    with pytest.raises(Conflict):
        await ours.write(ONE, exists=False)
    assert await ours.list() == {ONE.name: SICK}


async def test_only_what_was_listed_is_replaced(ours: SliceStore, other: SliceStore) -> None:
    await other.list()
    await other.write(ONE, exists=False)
    await ours.list()
    await other.write(SICK, exists=True)
    with pytest.raises(Conflict):
        await ours.write(ONE, exists=True)
    assert await ours.list() == {ONE.name: SICK}
    assert await ours.write(ONE, exists=True) == ONE


async def test_a_slice_that_is_gone_meanwhile_is_not_replaced(ours: SliceStore, other: SliceStore) -> None:
    await ours.list()
    await ours.write(ONE, exists=False)
    await other.list()
    await other.delete(ONE.name)
    with pytest.raises(ApiError):
        await ours.write(SICK, exists=True)
    assert await ours.list() == {}


async def test_a_refusal_says_why_and_changes_nothing(ours: SliceStore) -> None:
    await ours.list()
    with pytest.raises(ApiError, match="Not_A_Label") as refused:
        await ours.write(BAD, exists=False)
    assert refused.value.status == 422
    assert await ours.list() == {}


async def test_deleting_may_be_repeated_and_takes_no_successor(ours: SliceStore, other: SliceStore) -> None:
    for store in (ours, other):
        await store.list()
        if store is ours:
            await store.write(ONE, exists=False)
    await ours.delete(ONE.name)
    await ours.delete(ONE.name)
    await other.delete(ONE.name)
    await ours.write(ONE, exists=False)
    await other.list()
    await ours.delete(ONE.name)
    await ours.write(SICK, exists=False)
    with pytest.raises(Conflict):
        await other.delete(ONE.name)
    assert await ours.list() == {ONE.name: SICK}


@pytest.mark.parametrize("what", ["created", "changed", "deleted"])
async def test_somebody_elses_change_is_told(ours: SliceStore, other: SliceStore, what: str) -> None:
    await other.list()
    if what != "created":
        await other.write(ONE, exists=False)
    await ours.list()
    waiting = asyncio.create_task(ours.changed())
    if what == "deleted":
        await other.delete(ONE.name)
    else:
        await other.write(SICK, exists=what == "changed")
    async with asyncio.timeout(30):
        await waiting


async def test_our_own_writes_are_no_change_and_what_comes_after_them_is(ours: SliceStore, other: SliceStore) -> None:
    old = replace(ONE, name=ELSEWHERE[1].name)
    await other.list()
    await other.write(old, exists=False)
    await ours.list()
    await ours.delete(old.name)
    await ours.write(ONE, exists=False)
    await ours.write(SICK, exists=True)
    waiting = asyncio.create_task(ours.changed())
    # Each list is a round trip, in which the watch of our own writes gets time to be told of them.
    for _ in range(20):
        assert await other.list() == {ONE.name: SICK}
    assert not waiting.done()
    await other.write(ONE, exists=True)
    async with asyncio.timeout(30):
        await waiting


@pytest.mark.parametrize("new_store", ["server"], indirect=True)
async def test_the_node_owns_its_slices_so_that_they_go_when_it_goes(ours: SliceStore, api_server: ApiServer) -> None:
    await ours.list()
    await ours.write(ONE, exists=False)
    async with KubeClient(api_server.connection) as kube:
        path = path_of(api_server.resource_version, "resourceslices", name=ONE.name)
        owners = (await kube.get(path))["metadata"]["ownerReferences"]
        node = await kube.get(f"/api/v1/nodes/{NODE}")
    assert [(owner["kind"], owner["name"], owner["uid"]) for owner in owners] == [
        ("Node", NODE, node["metadata"]["uid"])
    ]
