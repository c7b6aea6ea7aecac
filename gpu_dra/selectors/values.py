"""Values of this project as the engine's, and the operators that compare them as Kubernetes does."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache, wraps
from typing import Any, Final

import re2  # type: ignore[import-untyped]
from celpy import celtypes
from celpy.evaluation import CELEvalError, base_functions

from gpu_dra.device import Attribute, Device, Version
from gpu_dra.selectors.functions import FUNCTIONS, LIMIT, METHODS
from gpu_dra.selectors.kinds import Quantity, Semver

_PLAIN: Final[Mapping[type, Callable[..., Any]]] = {
    bool: celtypes.BoolType,
    int: celtypes.IntType,
    float: celtypes.DoubleType,
    str: celtypes.StringType,
}


class _Domains(celtypes.MapType):  # type: ignore[misc] # untyped to mypy
    """Attributes or capacities by domain; one that the device does not have reads as empty, though `in` says no."""

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if key in self else celtypes.MapType()


def present(driver: str, device: Device) -> celtypes.MapType:
    """The device as selectors see it: bare names belong to the driver's domain."""
    return celtypes.MapType(
        {
            "driver": celtypes.StringType(driver),
            "attributes": _by_domain(driver, {name: _attribute(value) for name, value in device.attributes.items()}),
            "capacity": _by_domain(driver, {name: Quantity(Fraction(n)) for name, n in device.capacity.items()}),
            "allowMultipleAllocations": celtypes.BoolType(False),  # noqa: FBT003
        }
    )


def _by_domain(driver: str, values: Mapping[str, Any]) -> _Domains:
    domains: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        domain, _, short = name.rpartition("/")
        domains.setdefault(domain or driver, {})[short] = value
    return _Domains({celtypes.StringType(name): to_cel(entries) for name, entries in domains.items()})


def is_bool(value: object) -> bool:
    return isinstance(value, celtypes.BoolType)


def _attribute(value: Attribute) -> Any:
    return Semver(value.text) if isinstance(value, Version) else to_cel(value)


def to_cel(value: Any) -> Any:
    """A plain value as the engine's; one that is the engine's already stays as it is."""
    if isinstance(value, list | tuple):
        return celtypes.ListType([to_cel(item) for item in value])
    if isinstance(value, dict):
        return celtypes.MapType({to_cel(key): to_cel(item) for key, item in value.items()})
    # By exact type: the engine's types are subclasses of these, and bool is one of int.
    kind = _PLAIN.get(type(value))
    return value if kind is None else kind(value)


@lru_cache(maxsize=1)
def functions() -> dict[str, Callable[..., Any]]:
    patterns = {"matches": _matches, "find": _find, "findAll": _find_all}
    ours = {name: _adapted(function) for name, function in {**METHODS, **FUNCTIONS, **patterns}.items()}
    operators = {"_==_": _equal, "_!=_": _unequal, "_in_": _is_in, "_+_": _add}
    signs = {"_<_": operator.lt, "_<=_": operator.le, "_>_": operator.gt, "_>=_": operator.ge}
    ordered = {name: _ordered(compare) for name, compare in signs.items()}
    return {**ours, **operators, **ordered}


def _adapted(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def adapted(*given: Any) -> Any:
        problem = next((value for value in given if isinstance(value, CELEvalError)), None)
        return problem if problem is not None else to_cel(function(*given))

    return adapted


def _pattern(text: str) -> Any:
    """A compiled regular expression. re2 takes time in proportion to the text, whatever a stranger writes."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as problem:
        raise ValueError(f"{text!r} is no regular expression") from problem


def _matches(text: str, pattern: str) -> bool:
    return _pattern(pattern).search(text) is not None


def _find(text: str, pattern: str) -> str:
    found = _pattern(pattern).search(text)
    return str(found.group(0)) if found else ""


def _find_all(text: str, pattern: str) -> list[str]:
    return [str(found.group(0)) for found in _pattern(pattern).finditer(text)]


def _kind(value: Any) -> object:
    """Values of one kind can be equal: numbers compare whatever their type, other types only with themselves."""
    numeric = isinstance(value, celtypes.IntType | celtypes.UintType | celtypes.DoubleType)
    return "number" if numeric else next((kind for kind in (list, dict) if isinstance(value, kind)), type(value))


def _same(a: Any, b: Any) -> bool:
    if _kind(a) != _kind(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return bool(float(a) == float(b) if type(a) is not type(b) else a == b)


def _equal(a: Any, b: Any) -> Any:
    problem = next((value for value in (a, b) if isinstance(value, CELEvalError)), None)
    return problem if problem is not None else celtypes.BoolType(_same(a, b))


def _unequal(a: Any, b: Any) -> Any:
    value = _equal(a, b)
    return value if isinstance(value, CELEvalError) else celtypes.BoolType(not value)


def _is_in(item: Any, container: Any) -> Any:
    problem = next((value for value in (item, container) if isinstance(value, CELEvalError)), None)
    if problem is not None:
        return problem
    if not isinstance(container, list | dict):
        raise TypeError("in takes a list or a map")
    return celtypes.BoolType(any(_same(item, other) for other in container))


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    def ordered(a: Any, b: Any) -> Any:
        problem = next((value for value in (a, b) if isinstance(value, CELEvalError)), None)
        if problem is not None:
            return problem
        if _kind(a) == _kind(b) == "number" and type(a) is not type(b):
            a, b = celtypes.DoubleType(a), celtypes.DoubleType(b)
        return celtypes.BoolType(compare(a, b))

    return ordered


def _add(a: Any, b: Any) -> Any:
    if isinstance(a, str | list) and isinstance(b, str | list) and len(a) + len(b) > LIMIT:
        raise RuntimeError(f"a value would have more than {LIMIT} characters or items")
    return base_functions["_+_"](a, b)
