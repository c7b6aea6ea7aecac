"""The functions that Kubernetes adds to CEL, over plain Python values. Pure; gpu_dra.selectors.values hands them to the engine.

A method is a function whose first argument is what stands before the dot. TypeError is CEL's "no such overload", ValueError
an argument that cannot be. Not here: url, ip, cidr and format, which say nothing of a device.
Source: k8s.io/apiserver/pkg/cel/library, cel-go/ext.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from gpu_dra.selectors.kinds import Maybe, Ordered, Quantity, Semver, text_of

LIMIT: Final = 1 << 14
"""The most characters or items that a function may produce: a selector is somebody else's text, and must stay small."""


def _valid(parse: Callable[..., object]) -> Callable[..., bool]:
    def check(*arguments: object) -> bool:
        try:
            parse(*arguments)
        except ValueError:
            return False
        return True

    return check


def _lower(text: str) -> str:
    return "".join(c.lower() if c.isascii() else c for c in text_of(text))


def _upper(text: str) -> str:
    return "".join(c.upper() if c.isascii() else c for c in text_of(text))


def _char_at(text: str, at: int) -> str:
    return str(_slice(text_of(text), at, min(at + 1, len(text))))


def _split(text: str, separator: str) -> list[str]:
    return text_of(text).split(separator) if separator else list(text)


def _index(container: str | list[Any], item: Any, start: int = 0) -> int:
    found = container[start:]
    return container.index(item, start) if item in found else -1


def _last_index(container: str | list[Any], item: Any) -> int:
    if isinstance(container, str):
        return container.rfind(item)
    return max((place for place, other in enumerate(container) if other == item), default=-1)


def _slice(container: Any, start: int, end: int | None = None) -> Any:
    end = len(container) if end is None else end
    if not 0 <= start <= end <= len(container):
        raise ValueError(f"{start} to {end} is outside of 0 to {len(container)}")
    return container[start:end]


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    _bounded(len(text) + text_of(text).count(old) * len(new))
    return text.replace(old, new, count)


def _join(items: Sequence[str], separator: str = "") -> str:
    _bounded(sum(len(text_of(item)) + len(separator) for item in items))
    return separator.join(items)


def _range(count: int) -> list[int]:
    _bounded(count)
    return list(range(count))


def _bounded(size: int) -> None:
    if size > LIMIT:
        raise ValueError(f"the result would have more than {LIMIT} characters or items")


def _flatten(items: Sequence[Any]) -> list[Any]:
    return [inner for item in items for inner in (item if isinstance(item, list) else [item])]


def _distinct(items: Sequence[Any]) -> list[Any]:
    return [item for place, item in enumerate(items) if item not in items[:place]]


def _contains_all(outer: Sequence[Any], inner: Sequence[Any]) -> bool:
    return all(item in outer for item in inner)


def _includes(container: object, item: object) -> bool:
    """A list holds the item, or a single value is it: selectors need not know whether an attribute is a list."""
    return item in container if isinstance(container, list) else container == item


def _is_sorted(items: list[Any]) -> bool:
    return items == sorted(items)


def _reverse(items: Any) -> Any:
    return items[::-1]


def _intersects(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return any(item in b for item in a)


def _equivalent(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return _contains_all(a, b) and _contains_all(b, a)


PATTERNS: Final = ("matches", "find", "findAll")
"""Methods that take a regular expression; they need the engine's library, so gpu_dra.selectors.values has them."""

METHODS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "compareTo": Ordered.compare,
        "isLessThan": Ordered.is_less,
        "isGreaterThan": Ordered.is_greater,
        "isInteger": Quantity.is_integer,
        "asInteger": Quantity.as_integer,
        "asApproximateFloat": Quantity.as_float,
        "add": Quantity.add,
        "sub": Quantity.sub,
        "major": Semver.major,
        "minor": Semver.minor,
        "patch": Semver.patch,
        "orValue": Maybe.or_value,
        "or": Maybe.or_else,
        "hasValue": Maybe.has_value,
        "value": Maybe.value,
        "lowerAscii": _lower,
        "upperAscii": _upper,
        "charAt": _char_at,
        "trim": str.strip,
        "substring": _slice,
        "replace": _replace,
        "split": _split,
        "join": _join,
        "indexOf": _index,
        "lastIndexOf": _last_index,
        "slice": _slice,
        "isSorted": _is_sorted,
        "sum": sum,
        "min": min,
        "max": max,
        "reverse": _reverse,
        "sort": sorted,
        "distinct": _distinct,
        "flatten": _flatten,
        "includes": _includes,
    }
)
"""Called with what stands before the dot as the first argument."""

FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "quantity": Quantity.parse,
        "isQuantity": _valid(Quantity.parse),
        "sign": Quantity.sign,
        "semver": Semver.parse,
        "isSemver": _valid(Semver.parse),
        "optional.of": Maybe.of,
        "optional.none": Maybe.none,
        "sets.contains": _contains_all,
        "sets.intersects": _intersects,
        "sets.equivalent": _equivalent,
        "lists.range": _range,
    }
)
"""Called by name; a dot in the name is a namespace, not a method."""
