"""The agent's view of the API server: read a claim, keep this node's slices."""

from __future__ import annotations

import asyncio
from typing import Final

from gpu_dra import gpu_node, names, resource_claim, resource_slice
from gpu_dra.api import JsonObject, to_version
from gpu_dra.errors import GpuDraError, Unavailable
from gpu_dra.gpu_node import GpuNode
from gpu_dra.kube.client import ApiError, KubeClient, NotFound, path_of
from gpu_dra.resource_claim import ResourceClaim
from gpu_dra.resource_slice import ResourceSlice

_WATCH_RETRY: Final = 2.0


class ApiVersion:
    """Which version of resource.k8s.io the server serves; asked once, and again when an object's kind is not found."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube
        self._version: str | None = None
        self._asking = asyncio.Lock()

    async def get(self) -> str:
        async with self._asking:
            if self._version is None:
                self._version = await self._kube.resource_version()
            return self._version

    def forget(self) -> None:
        """The control plane may have been upgraded."""
        self._version = None


class KubeClaims:
    """ClaimReader over the API server."""

    def __init__(self, kube: KubeClient, version: ApiVersion) -> None:
        self._kube = kube
        self._version = version

    async def get(self, namespace: str, name: str) -> ResourceClaim | None:
        """One GET; a claim is never cached, since only the server knows what it is allocated now."""
        version = await self._version.get()
        path = path_of(version, "resourceclaims", namespace=namespace, name=name)
        try:
            return resource_claim.decode(await self._kube.get(path))
        except NotFound as problem:
            if problem.reason == "NotFound":
                return None
            self._version.forget()
            raise Unavailable(f"the API server no longer serves {path}; its version is looked up again") from problem
        except ApiError as problem:
            raise Unavailable(f"claim {namespace}/{name} cannot be read: {problem}") from problem


class KubeSlices:
    """SliceStore over the API server, for one driver on one node."""

    def __init__(self, kube: KubeClient, version: ApiVersion, driver: str, node: str) -> None:
        self._kube = kube
        self._version = version
        self._driver = driver
        self._node = node
        self._objects: dict[str, JsonObject] = {}
        self._list_version = ""
        self._owner: JsonObject | None = None

    async def list(self) -> dict[str, ResourceSlice]:
        """The stored slices; `changed` reports what comes after."""
        version = await self._version.get()
        try:
            answer = await self._kube.get(path_of(version, "resourceslices"), fieldSelector=self._mine)
        except NotFound as problem:
            self._version.forget()
            raise Unavailable(f"the API server does not serve resourceslices {version} any more") from problem
        # Items of a list carry no apiVersion of their own.
        kind = {"apiVersion": answer["apiVersion"], "kind": "ResourceSlice"}
        self._objects = {item["metadata"]["name"]: {**item, **kind} for item in answer.get("items") or []}
        self._list_version = answer["metadata"]["resourceVersion"]
        return {name: resource_slice.decode(item) for name, item in self._objects.items()}

    async def write(self, item: ResourceSlice, *, exists: bool) -> ResourceSlice:
        """Create, or replace what `list` saw (Conflict where it has changed since)."""
        version = await self._version.get()
        body = to_version(resource_slice.encode(item, owner=await self._node_reference()), version)
        if exists:
            body["metadata"]["resourceVersion"] = self._objects[item.name]["metadata"]["resourceVersion"]
            stored = await self._kube.replace(path_of(version, "resourceslices", name=item.name), body)
        else:
            stored = await self._kube.create(path_of(version, "resourceslices"), body)
        self._objects[item.name] = stored
        return resource_slice.decode(stored)

    async def delete(self, name: str) -> None:
        """Delete the very object that `list` saw; nothing where it saw none."""
        known = self._objects.pop(name, None)
        if known is None:
            return
        version = await self._version.get()
        uid = known["metadata"]["uid"]
        try:
            await self._kube.delete(path_of(version, "resourceslices", name=name), uid=uid)
        except NotFound:
            return

    async def changed(self) -> None:
        """Watch from the last list on; our own writes come by, too, and are told by their resourceVersion."""
        version = await self._version.get()
        try:
            path = path_of(version, "resourceslices")
            async for event in self._kube.watch(path, self._list_version, field_selector=self._mine):
                metadata = event.object["metadata"]
                self._list_version = metadata.get("resourceVersion", self._list_version)
                if event.type == "BOOKMARK":
                    continue
                known = self._objects.get(metadata.get("name", ""), {}).get("metadata", {})
                if event.type == "DELETED":
                    if known and known.get("uid") == metadata.get("uid"):
                        return
                elif known.get("resourceVersion") != metadata["resourceVersion"] and not self._is_older(
                    metadata, known
                ):
                    return
        except GpuDraError:
            # Too old a version (410), or no server: list again after a while.
            await asyncio.sleep(_WATCH_RETRY)

    @staticmethod
    def _is_older(metadata: JsonObject, known: JsonObject) -> bool:
        """Whether an event tells of a state before our own last write (1.35 made comparing these an API promise)."""
        seen, last = str(metadata["resourceVersion"]), str(known.get("resourceVersion", ""))
        same = known.get("uid") == metadata.get("uid")
        return same and seen.isdigit() and last.isdigit() and int(seen) < int(last)

    @property
    def _mine(self) -> str:
        return f"spec.driver={self._driver},spec.nodeName={self._node}"

    async def _node_reference(self) -> JsonObject:
        """The node owns its slices: they go when it goes."""
        if self._owner is None:
            uid = await _node_uid(self._kube, self._node)
            self._owner = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": uid, "controller": True}
        return self._owner


class KubeGpuNodes:
    """GpuNodeStore over the API server."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube
        self._uid: str | None = None

    async def write(self, node: GpuNode) -> bool:
        """One GET, and a write only where the status is another one."""
        if self._uid is None:
            self._uid = await _node_uid(self._kube, node.name)
        wanted = gpu_node.encode(node, self._uid)
        folder = f"/apis/{gpu_node.API_VERSION}/{gpu_node.RESOURCE}"
        path = f"{folder}/{node.name}"
        try:
            found = await self._kube.get(path)
        except NotFound as problem:
            if problem.reason != "NotFound":
                raise Unavailable(
                    f"the CRD {gpu_node.RESOURCE}.{names.API_GROUP} is not installed (chart value crds.enabled)"
                ) from problem
            await self._kube.create(folder, wanted)
            return True
        owners = wanted["metadata"]["ownerReferences"]
        if found.get("status") == wanted["status"] and found["metadata"].get("ownerReferences") == owners:
            return False
        metadata = {**found["metadata"], "ownerReferences": owners}
        await self._kube.replace(path, {**wanted, "metadata": metadata})
        return True


async def _node_uid(kube: KubeClient, node: str) -> str:
    return str((await kube.get(f"/api/v1/nodes/{node}"))["metadata"]["uid"])
