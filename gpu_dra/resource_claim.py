"""ResourceClaim: JSON of any served version -> the values that allocation and Prepare work with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu_dra.api import to_version
from gpu_dra.names import ClaimUid, DeviceName, PoolName


@dataclass(frozen=True, slots=True)
class Request:
    """One request for devices. `count` is None for allocationMode All."""

    name: str
    device_class: str
    selectors: tuple[str, ...] = ()
    count: int | None = 1
    admin_access: bool = False


@dataclass(frozen=True, slots=True)
class FirstAvailable:
    """A request with alternatives, best first; devices go to `name/alternative`."""

    name: str
    alternatives: tuple[Request, ...]


@dataclass(frozen=True, slots=True)
class MatchAttribute:
    """All devices of these requests (of all requests where empty) must have the attribute with one value."""

    attribute: str
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Allocated:
    """One device that the scheduler gave to the claim. `request` may be `request/subrequest`."""

    request: str
    driver: str
    pool: PoolName
    device: DeviceName
    admin_access: bool = False

    @property
    def base_request(self) -> str:
        """The request's name as the kubelet knows it, without the alternative that was chosen."""
        return self.request.partition("/")[0]


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """A claim: who it is, what it asks for, and what it got (None while it is not allocated)."""

    namespace: str
    name: str
    uid: ClaimUid
    requests: tuple[Request | FirstAvailable, ...] = ()
    constraints: tuple[MatchAttribute, ...] = ()
    allocated: tuple[Allocated, ...] | None = None
    unsupported: tuple[str, ...] = ()
    """Parts of the spec that this model has no place for, in words; a reader that decides by the spec must look."""

    @property
    def reference(self) -> str:
        return f"{self.namespace}/{self.name}"


def decode(obj: Mapping[str, Any]) -> ResourceClaim:
    """Read a claim as the API server returns it, in any served version."""
    metadata = obj["metadata"]
    devices = to_version(dict(obj), "v1").get("spec", {}).get("devices") or {}
    unsupported: list[str] = []
    return ResourceClaim(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=ClaimUid(metadata.get("uid", "")),
        requests=tuple(_requests(devices.get("requests") or [], unsupported)),
        constraints=tuple(_constraints(devices.get("constraints") or [], unsupported)),
        allocated=_allocated((obj.get("status") or {}).get("allocation")),
        unsupported=tuple(unsupported),
    )


def _requests(requests: list[Mapping[str, Any]], unsupported: list[str]) -> list[Request | FirstAvailable]:
    read: list[Request | FirstAvailable] = []
    for request in requests:
        name = request["name"]
        alternatives = request.get("firstAvailable")
        if alternatives:
            kept = tuple(_request(each, each["name"], f"{name}/{each['name']}", unsupported) for each in alternatives)
            read.append(FirstAvailable(name, kept))
        elif request.get("exactly") is None:
            unsupported.append(f"request {name}: {', '.join(sorted(set(request) - {'name'})) or 'no content'}")
        else:
            read.append(_request(request["exactly"], name, name, unsupported))
    return read


def _request(content: Mapping[str, Any], name: str, where: str, unsupported: list[str]) -> Request:
    unsupported += [f"request {where}: {key}" for key in ("tolerations", "capacity") if content.get(key)]
    return Request(
        name,
        content["deviceClassName"],
        tuple(selector["cel"]["expression"] for selector in content.get("selectors") or []),
        None if content.get("allocationMode") == "All" else content.get("count") or 1,
        bool(content.get("adminAccess")),
    )


def _constraints(constraints: list[Mapping[str, Any]], unsupported: list[str]) -> list[MatchAttribute]:
    read: list[MatchAttribute] = []
    for constraint in constraints:
        if "matchAttribute" in constraint:
            read.append(MatchAttribute(constraint["matchAttribute"], tuple(constraint.get("requests") or [])))
        else:
            unsupported.append(f"constraint {', '.join(sorted(set(constraint) - {'requests'}))}")
    return read


def _allocated(allocation: Mapping[str, Any] | None) -> tuple[Allocated, ...] | None:
    if allocation is None:
        return None
    return tuple(
        Allocated(
            result["request"],
            result["driver"],
            PoolName(result["pool"]),
            DeviceName(result["device"]),
            bool(result.get("adminAccess")),
        )
        for result in (allocation.get("devices") or {}).get("results") or []
    )
