"""The list of DeviceClasses that the chart's values name, read strictly: every mistake is told with its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import yaml

from gpu_dra.decode import Reader
from gpu_dra.errors import InputError
from gpu_dra.settings import dns_name

DeviceType = Literal["gpu", "mig", "nic"]

_TYPES: Final[Mapping[str, DeviceType]] = {"gpu": "gpu", "mig": "mig", "nic": "nic"}
_EXTENDED: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_MAX_DRIVER: Final = 63


@dataclass(frozen=True, slots=True)
class WantedClass:
    """One class: the devices of a type that a driver publishes, and the extended resource name that also asks for them."""

    name: str
    type: DeviceType
    driver: str
    extended_resource: str | None = None


def parse(text: str, where: str) -> tuple[WantedClass, ...]:
    """The classes of a YAML list; InputError names `where` and everything that is wrong."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        raise InputError(where, [f"this is no YAML: {' '.join(str(problem).split())}"]) from problem
    root = Reader.root({"deviceClasses": data})
    classes: list[WantedClass] = []
    for item in root.items("deviceClasses"):
        wanted = WantedClass(
            item.parsed("name", _name, ""),
            item.parsed("type", _type, "gpu"),
            item.parsed("driver", _driver, ""),
            item.parsed("extendedResourceName", _extended, None) if item.has("extendedResourceName") else None,
        )
        if wanted.name and any(other.name == wanted.name for other in classes):
            item.fail("name", f"is {wanted.name}, as in an entry before; remove one of the two")
        rival = next((other for other in classes if other.extended_resource == wanted.extended_resource), None)
        if rival is not None and wanted.extended_resource:
            # The scheduler would take the newer class, silently.
            item.fail(
                "extendedResourceName",
                f"is {wanted.extended_resource}, which class {rival.name} has already; keep it on one of them",
            )
        classes.append(wanted)
    root.finish(where)
    return tuple(classes)


def _name(text: str) -> str:
    return _checked(text, 253)


def _driver(text: str) -> str:
    return _checked(text, _MAX_DRIVER)


def _checked(text: str, longest: int) -> str:
    if len(text) > longest:
        raise ValueError(f"has {len(text)} characters, and at most {longest} are allowed")
    try:
        return dns_name(text)
    except ValueError:
        raise ValueError(f"is {text!r}, and a DNS name is wanted: lower-case letters, digits, - and .") from None


def _type(text: str) -> DeviceType:
    if text not in _TYPES:
        raise ValueError(f"is {text!r}, and one of {', '.join(_TYPES)} is wanted")
    return _TYPES[text]


def _extended(text: str) -> str | None:
    domain, _, _name_part = text.partition("/")
    if _EXTENDED.fullmatch(text) is None or len(domain) > 253:
        raise ValueError(f"is {text!r}, and DOMAIN/NAME is wanted, for example nvidia.com/gpu")
    if domain == "kubernetes.io" or domain.endswith(".kubernetes.io") or domain.startswith("requests."):
        raise ValueError(
            f"is {text!r}, but Kubernetes keeps that domain for itself; take another, for example nvidia.com"
        )
    return text
