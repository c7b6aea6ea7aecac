"""GpuNodes -> plain data for programs, and data -> JSON or YAML. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

import yaml

from gpu_dra import gpu_node
from gpu_dra.gpu_node import GpuNode


def status(nodes: Sequence[GpuNode]) -> dict[str, Any]:
    """What `status` counts; the devices are in `topology`."""
    return {
        "nodes": [_summary(node) for node in nodes],
        "total": {
            "nodes": len(nodes),
            "gpus": sum(len(node.gpus) for node in nodes),
            "free": sum(node.free for node in nodes),
            "held": sum(node.held for node in nodes),
            "unhealthy": sum(node.unhealthy for node in nodes),
            "nics": sum(len(node.nics) for node in nodes),
        },
    }


def topology(node: GpuNode) -> dict[str, Any]:
    """`meshes` are lists of GPU numbers; `links` has a row for each of `gpus` and then of `nics`."""
    data = gpu_node.status(node)
    return {
        "node": node.name,
        "gpus": [_told(gpu) for gpu in data["gpus"]],
        "nics": [_told(nic) for nic in data["nics"]],
        "meshes": _meshes(node),
        "links": [list(row) for row in node.links],
    }


def dump(data: dict[str, Any], form: Literal["json", "yaml"]) -> str:
    """With the end of the last line."""
    if form == "json":
        return json.dumps(data, indent=2) + "\n"
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=False, default_flow_style=None, width=1000)


def _summary(node: GpuNode) -> dict[str, Any]:
    data = gpu_node.status(node)
    kept = ("driverVersion", "cudaDriverVersion", "numaNodes", "reason", "problems")
    known = {key: data[key] for key in kept if key in data}
    return {"name": node.name, **data["summary"], "meshes": _meshes(node), **known}


def _meshes(node: GpuNode) -> list[list[int]]:
    return [list(members) for members in node.meshes.values()]


def _told(entry: dict[str, Any]) -> dict[str, Any]:
    """A pasted table has no addresses and no health; an empty text, or `ok`, would claim to know."""
    told = {key: value for key, value in entry.items() if value != ""}
    if "pciBusID" not in told:
        told.pop("health", None)
    return told
