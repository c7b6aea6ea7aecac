"""PCI addresses in one normal form: dddd:bb:dd.f, lower-case hexadecimal."""

from __future__ import annotations

import re
from dataclasses import dataclass

# NVML prints eight digits of domain in upper case, sysfs four in lower case, kernel logs leave the function out.
_TEXT = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, order=True)
class PciAddress:
    """Where a function sits on the PCI bus; orders as the bus is walked. Domains above ffff are those behind Intel's VMD."""

    domain: int
    bus: int
    device: int
    function: int = 0

    @classmethod
    def parse(cls, text: str) -> PciAddress:
        """Read any of the usual spellings; ValueError names the text otherwise."""
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a PCI address; write it as 0000:1b:00.0")
        domain, bus, device, function = match.groups()
        if int(device, 16) > 0x1F:
            raise ValueError(f"{text!r} is not a PCI address: the device ends at 1f")
        return cls(int(domain or "0", 16), int(bus, 16), int(device, 16), int(function or "0"))

    def __str__(self) -> str:
        return f"{self.domain:04x}:{self.bus:02x}:{self.device:02x}.{self.function}"

    @property
    def label(self) -> str:
        """The address as part of a DNS label: 0000-1b-00-0."""
        return str(self).replace(":", "-").replace(".", "-")
