"""DeviceClass: what a class of devices selects, as allocation needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A class. `extended_resource` is the name under which pods can ask for it in resources.limits."""

    name: str
    selectors: tuple[str, ...] = ()
    extended_resource: str | None = None


def decode(obj: Mapping[str, Any]) -> DeviceClass:
    """Read a class of any served version (all have one shape)."""
    spec = obj.get("spec") or {}
    return DeviceClass(
        obj["metadata"]["name"],
        tuple(selector["cel"]["expression"] for selector in spec.get("selectors") or []),
        spec.get("extendedResourceName"),
    )


def selector(driver: str, kind: str) -> str:
    """The CEL expression for devices of one driver and type.

    The driver comes first: a class is asked about the devices of all drivers, and the rest is then not looked at.
    """
    return f'device.driver == "{driver}" && device.attributes["{driver}"].?type.orValue("") == "{kind}"'
