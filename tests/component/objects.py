"""Create, as an administrator would, the objects that a rendered chart holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gpu_dra.api import JsonObject
from gpu_dra.kube.client import Conflict, KubeClient, NotFound

_CLUSTER: Final = (
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "DeviceClass",
    "GpuNode",
    "Node",
    "Namespace",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)
_PLURALS: Final = {"DeviceClass": "deviceclasses", "ValidatingAdmissionPolicy": "validatingadmissionpolicies"}


def path_of(obj: JsonObject) -> str:
    """The collection that an object belongs to."""
    kind, version = obj["kind"], obj["apiVersion"]
    plural = _PLURALS.get(kind, f"{kind.lower()}s")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    if kind in _CLUSTER:
        return f"{root}/{plural}"
    return f"{root}/namespaces/{obj['metadata']['namespace']}/{plural}"


async def apply(kube: KubeClient, objects: Iterable[JsonObject]) -> None:
    """Create them; what is there already stays as it is."""
    for obj in objects:
        try:
            await kube.create(path_of(obj), obj)
        except Conflict:
            continue


async def remove(kube: KubeClient, objects: Iterable[JsonObject]) -> None:
    """Delete those of them that are there."""
    for obj in objects:
        try:
            await kube.delete(f"{path_of(obj)}/{obj['metadata']['name']}")
        except NotFound:
            continue


async def make_namespace(kube: KubeClient, name: str) -> None:
    await apply(kube, [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])
