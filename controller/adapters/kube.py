"""The controller's view of the API server: DeviceClasses, its Lease, and events about classes that are left alone."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from controller import lease
from controller.device_classes import MANAGER, ForeignClass, Owner, name_of
from controller.lease import Lease
from controller.ports import Outdated, Refused
from gpu_dra.api import JsonObject, to_version
from gpu_dra.errors import GpuDraError, Unavailable
from gpu_dra.kube.client import ApiError, Conflict, KubeClient, NotFound, path_of
from gpu_dra.names import RESOURCE_GROUP

_log = logging.getLogger(__name__)

_CLASSES: Final = "deviceclasses"
_ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
EVENTS_NAMESPACE: Final = "default"
"""Where Kubernetes keeps events about objects without a namespace."""


class KubeClasses:
    """ClassStore over the API server, in one version of resource.k8s.io."""

    def __init__(self, kube: KubeClient, version: str, owner: str | None) -> None:
        self._kube = kube
        self._version = version
        self._owner = owner

    async def owner(self) -> Owner | None:
        """Read anew each time: a release that is installed again has a new ClusterRole of the same name."""
        if self._owner is None:
            return None
        try:
            role = await self._kube.get(f"{_ROLES}/{self._owner}")
        except NotFound as problem:
            raise Unavailable(
                f"ClusterRole {self._owner}, which is to own the DeviceClasses, is not there; either this release is just"
                " being uninstalled, or --owner-cluster-role names it wrongly. No DeviceClass is written."
            ) from problem
        except ApiError as problem:
            raise Unavailable(f"ClusterRole {self._owner} cannot be read: {problem}") from problem
        return Owner(self._owner, str(role["metadata"]["uid"]))

    async def list(self) -> list[JsonObject]:
        try:
            answer = await self._kube.get(path_of(self._version, _CLASSES))
        except NotFound as problem:
            raise GpuDraError(
                f"the API server does not serve {_CLASSES} of {RESOURCE_GROUP}/{self._version} any more;"
                " this program ends, and looks for another version when it is started again."
            ) from problem
        except ApiError as problem:
            raise Unavailable(f"DeviceClasses cannot be listed: {problem}") from problem
        # Items of a list carry no apiVersion and kind of their own.
        kind = {"apiVersion": answer["apiVersion"], "kind": "DeviceClass"}
        return [to_version({**item, **kind}, "v1") for item in answer.get("items") or []]

    async def create(self, obj: JsonObject) -> JsonObject:
        async with _translated(f"DeviceClass {name_of(obj)} cannot be created"):
            return await self._kube.create(path_of(self._version, _CLASSES), to_version(obj, self._version))

    async def replace(self, obj: JsonObject) -> JsonObject:
        name = name_of(obj)
        async with _translated(f"DeviceClass {name} cannot be repaired", gone=Outdated):
            return await self._kube.replace(path_of(self._version, _CLASSES, name=name), to_version(obj, self._version))

    async def delete(self, obj: JsonObject) -> None:
        name = name_of(obj)
        async with _translated(f"DeviceClass {name} cannot be removed"):
            try:
                await self._kube.delete(path_of(self._version, _CLASSES, name=name), uid=str(obj["metadata"]["uid"]))
            except NotFound:
                return


class KubeEvents:
    """Tells about a class that is left alone where `kubectl describe deviceclass` shows it."""

    def __init__(self, kube: KubeClient, version: str, identity: str) -> None:
        self._kube = kube
        self._version = version
        self._identity = identity

    async def left_alone(self, foreign: ForeignClass) -> None:
        """Write one event; a failure only costs the event."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        event: JsonObject = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": "gpu-dra-", "namespace": EVENTS_NAMESPACE},
            "involvedObject": {
                "apiVersion": f"{RESOURCE_GROUP}/{self._version}",
                "kind": "DeviceClass",
                "name": foreign.name,
                "uid": foreign.uid,
            },
            "type": "Warning",
            "reason": "LeftAlone",
            "message": foreign.sentence,
            "source": {"component": MANAGER},
            "reportingComponent": MANAGER,
            "reportingInstance": self._identity,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self._kube.create(f"/api/v1/namespaces/{EVENTS_NAMESPACE}/events", event)
        except GpuDraError as problem:
            _log.info("an event could not be written", extra={"class": foreign.name, "problem": str(problem)})


class KubeLease:
    """LeaseStore over the API server."""

    def __init__(self, kube: KubeClient, namespace: str, name: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"

    async def read(self) -> Lease | None:
        try:
            return lease.decode(await self._kube.get(f"{self._leases}/{self._name}"))
        except NotFound:
            return None
        except ApiError as problem:
            raise Unavailable(f"Lease {self._namespace}/{self._name} cannot be read: {problem}") from problem

    async def write(self, item: Lease) -> Lease:
        body = lease.encode(item, self._namespace, self._name)
        what = f"Lease {self._namespace}/{self._name} cannot be written"
        async with _translated(what, gone=Outdated if item.stored else Unavailable):
            if item.stored:
                return lease.decode(await self._kube.replace(f"{self._leases}/{self._name}", body))
            return lease.decode(await self._kube.create(self._leases, body))


@asynccontextmanager
async def _translated(what: str, *, gone: type[Unavailable] = Unavailable) -> AsyncGenerator[None]:
    """The server's refusals in the words of the ports; `gone` is what a 404 means here."""
    try:
        yield
    except Conflict as problem:
        raise Outdated(f"{what}: {problem}") from problem
    except NotFound as problem:
        raise gone(f"{what}: {problem}") from problem
    except ApiError as problem:
        kind = Unavailable if problem.status == 429 or problem.status >= 500 else Refused
        raise kind(f"{what}: {problem}") from problem
