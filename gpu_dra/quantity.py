"""Kubernetes quantities ("80Gi", "1500m", "2e3") as exact numbers.

Source: k8s.io/apimachinery/pkg/api/resource. Suffixes: m, none, k, M, G, T, P, E; Ki to Ei; decimal exponents.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_SUFFIXES: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000 ** (power + 1)) for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"))},
    **{suffix: Fraction(1024 ** (power + 1)) for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))},
}
_TEXT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)


def parse(text: str) -> Fraction:
    """The exact value; ValueError says what is wrong with the text."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity; write a number with a suffix such as 80Gi, 500m or 2G")
    number, exponent, suffix = match.groups()
    return Fraction(number) * (Fraction(10) ** int(exponent[1:]) if exponent else _SUFFIXES[suffix or ""])


def format_bytes(value: int) -> str:
    """A number of bytes with the largest binary suffix that keeps it exact: 85520809984 is 81559Mi."""
    for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        size = int(_SUFFIXES[suffix])
        if value and value % size == 0:
            return f"{value // size}{suffix}"
    return str(value)
