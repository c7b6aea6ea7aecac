"""The versions of resource.k8s.io and how their shapes differ.

v1 and v1beta2 have one shape. v1beta1 differs in two places only: a device's content stands under `basic`, and the
content of a request's `exactly` stands in the request itself. Everything inside this project is in the v1 shape;
conversion happens at the edge, here. Source: k8s.io/api/resource/{v1,v1beta2,v1beta1}/types.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from gpu_dra.names import RESOURCE_GROUP

JsonObject = dict[str, Any]

VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
"""Best first: the order in which a client should choose."""

KINDS: Final = {
    "ResourceSlice": "resourceslices",
    "ResourceClaim": "resourceclaims",
    "ResourceClaimTemplate": "resourceclaimtemplates",
    "DeviceClass": "deviceclasses",
}


def best_version(served: Iterable[str]) -> str | None:
    """The version to speak with a server that serves these; None where it serves none of ours."""
    offered = set(served)
    return next((version for version in VERSIONS if version in offered), None)


def is_resource(obj: Mapping[str, Any]) -> bool:
    """Whether an object is of the resource.k8s.io group."""
    return str(obj.get("apiVersion", "")).startswith(f"{RESOURCE_GROUP}/")


def to_version(obj: JsonObject, version: str) -> JsonObject:
    """The object in another version of its API, the original untouched. Objects of other groups are returned as they are.

    What an older version does not know is kept: the server then says which field it refuses or drops.
    """
    if not is_resource(obj):
        return obj
    if version not in VERSIONS:
        raise ValueError(f"{version} is not a version of {RESOURCE_GROUP}; known are {', '.join(VERSIONS)}")
    source = str(obj["apiVersion"]).partition("/")[2]
    converted = {**obj, "apiVersion": f"{RESOURCE_GROUP}/{version}"}
    if (source == "v1beta1") == (version == "v1beta1"):
        return converted
    fold, request = (_nest_device, _nest_request) if source == "v1beta1" else (_basic_device, _flat_request)
    match obj.get("kind"):
        case "ResourceSlice":
            return _edit(converted, ("spec", "devices"), lambda devices: [fold(device) for device in devices])
        case "ResourceClaim":
            return _edit(converted, ("spec", "devices", "requests"), lambda requests: [request(r) for r in requests])
        case "ResourceClaimTemplate":
            path = ("spec", "spec", "devices", "requests")
            return _edit(converted, path, lambda requests: [request(r) for r in requests])
        case _:
            return converted


def _basic_device(device: JsonObject) -> JsonObject:
    return {"name": device["name"], "basic": {key: value for key, value in device.items() if key != "name"}}


def _nest_device(device: JsonObject) -> JsonObject:
    return {"name": device["name"], **(device.get("basic") or {})}


def _flat_request(request: JsonObject) -> JsonObject:
    return {**{key: value for key, value in request.items() if key != "exactly"}, **(request.get("exactly") or {})}


def _nest_request(request: JsonObject) -> JsonObject:
    if "firstAvailable" in request or "deviceClassName" not in request:
        return request
    return {"name": request["name"], "exactly": {key: value for key, value in request.items() if key != "name"}}


def _edit(obj: JsonObject, path: tuple[str, ...], change: Callable[[Any], Any]) -> JsonObject:
    head, *rest = path
    if obj.get(head) is None:
        return obj
    return {**obj, head: _edit(obj[head], tuple(rest), change) if rest else change(obj[head])}
