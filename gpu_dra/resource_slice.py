"""ResourceSlice: values <-> JSON of the v1 shape (gpu_dra.api converts to what the server serves)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu_dra import quantity
from gpu_dra.api import JsonObject, to_version
from gpu_dra.device import Attribute, Device, Taint, Version
from gpu_dra.names import RESOURCE_GROUP, DeviceName, PoolName


@dataclass(frozen=True, slots=True)
class Pool:
    """Which pool a slice is part of; consumers trust only the highest generation, and only when all slices are there."""

    name: PoolName
    generation: int
    slice_count: int


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """The published part of one pool of one node."""

    name: str
    driver: str
    node: str
    pool: Pool
    devices: tuple[Device, ...]


def encode(item: ResourceSlice, *, owner: JsonObject | None = None) -> JsonObject:
    """The object to store; `owner` is an owner reference, so that the slice goes when the node goes."""
    metadata: JsonObject = {"name": item.name}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    return {
        "apiVersion": f"{RESOURCE_GROUP}/v1",
        "kind": "ResourceSlice",
        "metadata": metadata,
        "spec": {
            "driver": item.driver,
            "nodeName": item.node,
            "pool": {
                "name": item.pool.name,
                "generation": item.pool.generation,
                "resourceSliceCount": item.pool.slice_count,
            },
            "devices": [_encode_device(device) for device in item.devices],
        },
    }


def decode(obj: Mapping[str, Any]) -> ResourceSlice:
    """Read a stored slice of any served version. Fields that this model has no place for are left out."""
    spec = to_version(dict(obj), "v1")["spec"]
    pool = spec["pool"]
    return ResourceSlice(
        name=obj["metadata"]["name"],
        driver=spec["driver"],
        node=spec.get("nodeName", ""),
        pool=Pool(PoolName(pool["name"]), pool.get("generation", 0), pool["resourceSliceCount"]),
        devices=tuple(_decode_device(device) for device in spec.get("devices") or []),
    )


def _encode_device(device: Device) -> JsonObject:
    encoded: JsonObject = {"name": device.name}
    if device.attributes:
        encoded["attributes"] = {name: _encode_attribute(value) for name, value in device.attributes.items()}
    if device.capacity:
        encoded["capacity"] = {name: {"value": quantity.format_bytes(n)} for name, n in device.capacity.items()}
    if device.taints:
        encoded["taints"] = [_encode_taint(taint) for taint in device.taints]
    return encoded


def _encode_taint(taint: Taint) -> JsonObject:
    encoded = {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": taint.since}
    return {name: value for name, value in encoded.items() if value}


def _encode_attribute(value: Attribute) -> JsonObject:
    match value:
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case Version():
            return {"version": value.text}
        case _:
            return {"string": value}


def _decode_device(device: Mapping[str, Any]) -> Device:
    attributes = {name: _decode_attribute(value) for name, value in (device.get("attributes") or {}).items()}
    return Device(
        DeviceName(device["name"]),
        {name: value for name, value in attributes.items() if value is not None},
        {name: int(quantity.parse(str(value["value"]))) for name, value in (device.get("capacity") or {}).items()},
        tuple(
            Taint(taint["key"], taint.get("value", ""), taint["effect"], taint.get("timeAdded"))
            for taint in device.get("taints") or []
        ),
    )


def _decode_attribute(value: Mapping[str, Any]) -> Attribute | None:
    for kind in ("bool", "int", "string"):
        if kind in value:
            plain: Attribute = value[kind]
            return plain
    return Version(value["version"]) if "version" in value else None
