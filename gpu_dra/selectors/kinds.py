"""The types that Kubernetes adds to CEL: quantities, semantic versions, optional values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gpu_dra import quantity
from gpu_dra.device import Version


class Ordered:
    """What quantity() and semver() give: compared by methods only, as CEL has no `<` for them."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ordered) and type(self) is type(other) and bool(self.key == other.key)

    def __hash__(self) -> int:
        return hash((type(self), self.key))

    def compare(self, other: object) -> int:
        if not isinstance(other, Ordered) or type(other) is not type(self):
            raise TypeError(f"{type(self).__name__} and {type(other).__name__} cannot be compared")
        return int(self.key > other.key) - int(self.key < other.key)

    def is_less(self, other: object) -> bool:
        return self.compare(other) < 0

    def is_greater(self, other: object) -> bool:
        return self.compare(other) > 0


class Quantity(Ordered):
    """A Kubernetes quantity; `key` is its exact value."""

    __slots__ = ()
    key: Fraction

    @classmethod
    def parse(cls, text: str) -> Quantity:
        return cls(quantity.parse(text_of(text)))

    def sign(self) -> int:
        return int(self.key > 0) - int(self.key < 0)

    def is_integer(self) -> bool:
        return self.key.denominator == 1

    def as_integer(self) -> int:
        if not self.is_integer():
            raise ValueError("the quantity is not a whole number")
        return int(self.key)

    def as_float(self) -> float:
        return float(self.key)

    def add(self, other: object) -> Quantity:
        return Quantity(self.key + _number(other))

    def sub(self, other: object) -> Quantity:
        return Quantity(self.key - _number(other))


class Semver(Ordered):
    """A semantic version; `key` orders as the specification says (build metadata does not count)."""

    __slots__ = ("numbers",)

    def __init__(self, text: str) -> None:
        core, _, pre = Version(text).text.partition("+")[0].partition("-")
        self.numbers = tuple(int(number) for number in core.split("."))
        parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in pre.split("."))
        # A version without a pre-release part comes after all that have one.
        super().__init__((self.numbers, (1, ()) if not pre else (0, parts)))

    @classmethod
    def parse(cls, text: str, normalise: object = False) -> Semver:  # noqa: FBT002 - as CEL writes it
        if not normalise:
            return cls(text_of(text))
        version = Version.normalise(text_of(text))
        if version is None:
            raise ValueError(f"{text!r} is not a semantic version")
        return cls(version.text)

    def major(self) -> int:
        return self.numbers[0]

    def minor(self) -> int:
        return self.numbers[1]

    def patch(self) -> int:
        return self.numbers[2]


@dataclass(frozen=True, slots=True)
class Maybe:
    """An optional value: what `.?name` gives."""

    has: bool
    content: Any = None

    @classmethod
    def of(cls, content: Any) -> Maybe:
        return cls(has=True, content=content)

    @classmethod
    def none(cls) -> Maybe:
        return cls(has=False)

    @classmethod
    def select(cls, container: object, key: object) -> Maybe:
        """The entry of a map, list or optional, if there is one."""
        if isinstance(container, Maybe):
            return cls.select(container.content, key) if container.has else container
        if isinstance(container, Mapping):
            return cls.of(container[key]) if key in container else cls.none()
        if isinstance(container, list) and isinstance(key, int):
            return cls.of(container[key]) if 0 <= key < len(container) else cls.none()
        raise TypeError(f"nothing can be selected from {type(container).__name__}")

    def has_value(self) -> bool:
        return self.has

    def value(self) -> Any:
        if not self.has:
            raise ValueError("the optional has no value")
        return self.content

    def or_value(self, default: Any) -> Any:
        return self.content if self.has else default

    def or_else(self, other: Maybe) -> Maybe:
        return self if self.has else other


def text_of(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a string is wanted")
    return value


def _number(value: object) -> Fraction:
    if isinstance(value, Quantity):
        return value.key
    if isinstance(value, int):
        return Fraction(value)
    raise TypeError("a quantity or an int is wanted")
