"""Values -> the lines that a person reads: the node, a slice in short, a request in words, a CDI file, a container. Pure."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from gpu_dra.device import Device
from gpu_dra.names import PCIE_ROOT
from gpu_dra.quantity import format_bytes
from gpu_dra.resource_claim import FirstAvailable, Request, ResourceClaim
from gpu_dra.resource_slice import ResourceSlice
from node_agent.inventory import Inventory, Item
from node_agent.readings import NodeReading, pair


def node(gpus: Inventory, nics: Inventory) -> Iterator[str]:
    """A table of the devices, mesh by mesh."""
    rows = [
        (
            nodes_of(item),
            str(item.device.attributes.get("model", "")),
            memory_of(item.device),
            f"NUMA {item.device.attributes.get('numa_node', '?')}",
            str(item.device.attributes.get(PCIE_ROOT, "")),
            f"{item.device.attributes.get('nvlink_mesh_id', '')}",
        )
        for item in gpus.items.values()
    ]
    rows += [
        (
            str(item.device.attributes.get("rdma_device", "")),
            str(item.device.attributes.get("model", "")),
            f"{item.device.attributes.get('link_speed_gbps', '?')} Gbit/s",
            f"NUMA {item.device.attributes.get('numa_node', '?')}",
            str(item.device.attributes.get(PCIE_ROOT, "")),
            "NIC",
        )
        for item in nics.items.values()
    ]
    yield from table(rows)


def meshes(gpus: Inventory) -> dict[str, list[Item]]:
    """The GPUs by mesh."""
    groups: dict[str, list[Item]] = {}
    for item in gpus.items.values():
        groups.setdefault(str(item.device.attributes.get("nvlink_mesh_id", "no mesh")), []).append(item)
    return groups


def by_mesh(items: Iterable[Item]) -> str:
    """`1 of mesh-0, 3 of mesh-1`."""
    counts: dict[str, int] = {}
    for item in items:
        mesh = item.device.attributes.get("nvlink_mesh_id")
        if mesh is not None:
            counts[str(mesh)] = counts.get(str(mesh), 0) + 1
    return ", ".join(f"{count} of {mesh}" for mesh, count in counts.items())


def linked(items: Sequence[Item], reading: NodeReading) -> str:
    """How many pairs of these GPUs talk over NVLink."""
    uuids = [str(item.device.attributes.get("uuid")) for item in items]
    pairs = [pair(a, b) for a, b in combinations(uuids, 2)]
    joined = sum(bool(reading.links.get(couple)) for couple in pairs)
    return f"{joined} of {len(pairs)} pairs"


def short_slice(item: ResourceSlice) -> Iterator[str]:
    """A ResourceSlice with one device written out, which stands for all."""
    yield "kind: ResourceSlice"
    yield f"metadata: {{name: {item.name}}}"
    yield "spec:"
    yield f"  driver: {item.driver}"
    yield f"  pool: {{name: {item.pool.name}, generation: {item.pool.generation}, resourceSliceCount: {item.pool.slice_count}}}"
    yield "  devices:"
    for device in item.devices[:1]:
        yield f"  - name: {device.name}"
        shown = [
            f"{name}: {str(value).lower() if isinstance(value, bool) else value}"
            for name, value in device.attributes.items()
            if _is_telling(name)
        ]
        yield from _wrapped("    attributes: {", shown, "}")
        if device.capacity:
            yield f"    capacity: {{memory: {memory_of(device)}}}"
    if len(item.devices) > 1:
        yield f"  ... and {len(item.devices) - 1} more"


def about(head: Sequence[str], width: int) -> Iterator[str]:
    """An example's head comment, its paragraphs filled anew. Which profiles it fits is for tests."""
    paragraph = ""
    for line in (*head, "Profiles:"):
        if line.startswith(("Needs:", "Expect:", "Profiles:", "- ")):
            yield from textwrap.wrap(paragraph, width, break_on_hyphens=False)
            paragraph = ""
        if line.startswith("Profiles:"):
            return
        paragraph += f"{line} "


def asked(claim: ResourceClaim) -> Iterator[str]:
    """A claim's requests and constraints in words."""
    for request in claim.requests:
        for each in request.alternatives if isinstance(request, FirstAvailable) else (request,):
            yield from _request(each)
    for constraint in claim.constraints:
        who = " and ".join(constraint.requests) or "all requests"
        yield f"{who}: one value of {constraint.attribute} for all devices"


def cdi_file(spec: Mapping[str, Any]) -> Iterator[str]:
    """The file in short: the first device written out, which stands for all."""
    first, *others = spec["devices"]
    yield f'{{"cdiVersion": "{spec["cdiVersion"]}", "kind": "{spec["kind"]}",'
    yield ' "devices": ['
    yield f'  {{"name": "{first["name"]}",'
    yield from _json('   "containerEdits": ', first["containerEdits"], "}," if others else "}],")
    if others:
        yield f"  ... and {len(others)} more],"
    yield from _json(' "containerEdits": ', spec.get("containerEdits", {}), "}")


def container(specs: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What a runtime makes of CDI files: device nodes with their numbers, and variables."""
    nodes: dict[str, str] = {}
    env: dict[str, None] = {}
    for spec in specs:
        for edits in (*(device["containerEdits"] for device in spec["devices"]), spec.get("containerEdits", {})):
            for entry in edits.get("deviceNodes", ()):
                nodes[entry["path"]] = f"{entry['major']}, {entry['minor']}"
            env.update(dict.fromkeys(edits.get("env", ())))
    yield from table([(f"{path}", "character device", numbers) for path, numbers in sorted(nodes.items())])
    yield from env


def nodes_of(item: Item) -> str:
    """The first device node of a device, which is its own."""
    return item.nodes[0].path if item.nodes else item.device.name


def memory_of(device: Device) -> str:
    amount = device.capacity.get("memory")
    return "" if amount is None else format_bytes(amount)


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as they have to be."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _request(request: Request) -> Iterator[str]:
    count = "all devices" if request.count is None else f"{request.count} device{'s' if request.count > 1 else ''}"
    yield f"{request.name}: {count} of class {request.device_class}"
    for cel in request.selectors:
        lines = textwrap.wrap(f"where {cel}", 88, break_long_words=False, break_on_hyphens=False)
        yield from (f"  {line}" for line in lines)


def _is_telling(name: str) -> bool:
    """The short form leaves out what is said twice (under another domain, or in another spelling)."""
    return "/" not in name and name not in ("productName", "brand", "index", "minor", "uuid")


def _json(head: str, value: object, tail: str) -> Iterator[str]:
    yield from _wrapped(head, json.dumps(value).split(", "), tail)


def _wrapped(head: str, parts: Sequence[str], tail: str, width: int = 92) -> Iterator[str]:
    line = head
    for number, part in enumerate(parts):
        piece = part + (", " if number < len(parts) - 1 else tail)
        if len(line) + len(piece.rstrip()) > width:
            yield line.rstrip()
            line = " " * len(head)
        line += piece
    yield line
