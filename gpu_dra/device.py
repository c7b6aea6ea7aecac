"""A device as the scheduler sees it: a name, attributes and capacities. Frozen values, no wire format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from gpu_dra.names import DeviceName

# Semantic Versioning 2.0.0, the pattern that the API server applies to `version` attributes.
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Version:
    """A version attribute: strict semver, so that the API server takes it and semver() in a selector can compare it."""

    text: str

    def __post_init__(self) -> None:
        if _SEMVER.fullmatch(self.text) is None:
            raise ValueError(f"{self.text!r} is not a semantic version")

    @classmethod
    def normalise(cls, text: str) -> Version | None:
        """Make semver of what drivers print: 580.95.05 is 580.95.5, 9.0 is 9.0.0; None where there is no way."""
        numbers = re.fullmatch(r"v?(\d{1,19})(?:\.(\d{1,19}))?(?:\.(\d{1,19}))?", text.strip(), re.ASCII)
        if numbers is None:
            return cls(text) if _SEMVER.fullmatch(text) else None
        return cls(".".join(str(int(number or "0")) for number in numbers.groups()))

    def __str__(self) -> str:
        return self.text


Attribute = str | int | bool | Version


@dataclass(frozen=True, slots=True)
class Taint:
    """Why a device should not be given to new claims. `since` is RFC 3339 and the server's to fill in."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"
    since: str | None = None

    def same_as(self, other: Taint) -> bool:
        """Whether they differ in nothing but their age."""
        return (self.key, self.value, self.effect) == (other.key, other.value, other.effect)

    @property
    def keeps_away(self) -> bool:
        """Whether new claims that do not tolerate it get another device."""
        return self.effect in ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class Device:
    """One entry of a ResourceSlice. Attribute names are bare or qualified; capacities are exact amounts in base units."""

    name: DeviceName
    attributes: Mapping[str, Attribute] = field(default_factory=lambda: MappingProxyType({}))
    capacity: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    taints: tuple[Taint, ...] = ()
