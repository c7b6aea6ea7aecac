"""What can be said against a selector before it meets a device: unknown names, fields, functions, plain type clashes. Pure.

The API server checks every type when it takes a claim. This looks at what goes wrong in practice and lets pass what it
cannot tell: an attribute may hold any type, so only literals, capacities and `device.driver` have one. It walks the
engine's syntax tree, whose single-child levels are gone (grammar.py), and gives positions as the API server does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from gpu_dra.selectors.functions import FUNCTIONS, METHODS, PATTERNS


class Tree(Protocol):
    """A node of the engine's syntax tree: a rule, or a token (whose `data` is missing)."""

    data: str
    children: Sequence[Any]
    meta: Any


@dataclass(frozen=True, slots=True)
class Fault:
    """Where and what. Lines and columns start at 1."""

    line: int
    column: int
    text: str


MACROS: Final = frozenset(
    {"all", "exists", "exists_one", "existsOne", "map", "filter", "transformList", "transformMap", "optMap"}
)
_FIELDS: Final = {"driver": "string", "attributes": "map", "capacity": "map", "allowMultipleAllocations": "bool"}
_TYPES: Final = frozenset({"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint", "type"})
_CORE: Final = frozenset({"size", "contains", "startsWith", "endsWith", *PATTERNS})
_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "int", "string", "uint", "dyn", "type", "duration", "timestamp"}
)
_LITERALS: Final = {
    "INT_LIT": "int",
    "UINT_LIT": "uint",
    "FLOAT_LIT": "double",
    "STRING_LIT": "string",
    "MLSTRING_LIT": "string",
    "BOOL_LIT": "bool",
}
_OPERATORS: Final = {
    "relation_lt": "_<_",
    "relation_le": "_<=_",
    "relation_gt": "_>_",
    "relation_ge": "_>=_",
    "relation_eq": "_==_",
    "relation_ne": "_!=_",
    "addition_add": "_+_",
    "addition_sub": "_-_",
}
_RESULTS: Final = {"quantity": "kubernetes.Quantity", "semver": "kubernetes.Semver", "compareTo": "int", "size": "int"}
_DYN: Final = "dyn"


def first_fault(tree: Tree) -> Fault | None:
    """The first thing wrong with a selector, reading left to right."""
    fault = next(_faults(tree, frozenset({"device"})), None)
    if fault is None and _kind(tree) not in ("bool", _DYN):
        return Fault(1, 1, f"the result is of type {_kind(tree)}, and a selector must give a bool")
    return fault


def namespaced(tree: Tree) -> str | None:
    """The full name of a call such as sets.contains(...) or cel.bind(...); None where the dot selects a method."""
    target, name = tree.children[0], tree.children[1]
    root = _ident(target)
    full = f"{root}.{name}"
    return full if full in FUNCTIONS or full == "cel.bind" else None


def arguments(tree: Tree, at: int) -> Sequence[Tree]:
    """The arguments of a call whose list, if there is one, is the child at this place."""
    return tree.children[at].children if len(tree.children) > at else ()


def _faults(tree: Tree, scope: frozenset[str]) -> Iterator[Fault]:
    match tree.data:
        case "ident":
            name = tree.children[0]
            if name not in scope and name not in _TYPES:
                yield Fault(name.line, name.column, f"undeclared reference to '{name}'")
        case "ident_arg":
            yield from _call(tree, scope)
        case "member_dot_arg":
            yield from _method(tree, scope)
        case "member_dot" | "member_opt_dot" if _ident(tree.children[0]) == "device":
            name = tree.children[1]
            if name not in _FIELDS:
                yield Fault(name.line, name.column - 1, f"undefined field '{name}'; a device has {', '.join(_FIELDS)}")
        case "member_object" | "dot_ident" | "dot_ident_arg":
            yield Fault(tree.meta.line, tree.meta.column, "messages and absolute names have no use in a selector")
        case _:
            yield from _inside(tree.children, scope)
            yield from _clash(tree)


def _inside(children: Sequence[Any], scope: frozenset[str]) -> Iterator[Fault]:
    for child in children:
        if hasattr(child, "data"):
            yield from _faults(child, scope)


def _call(tree: Tree, scope: frozenset[str]) -> Iterator[Fault]:
    name, given = tree.children[0], arguments(tree, 1)
    if str(name) == "has":
        if len(given) != 1 or given[0].data != "member_dot":
            at = given[0].children[0].meta.end_column if given and given[0].children else name.end_column
            yield Fault(name.line, at, "invalid argument to has(): it takes one field, such as has(a.b)")
            return
    elif name not in FUNCTIONS and name not in _CONVERSIONS and name not in _CORE:
        yield Fault(name.line, name.end_column, f"undeclared reference to '{name}'")
    yield from _inside(given, scope)


def _method(tree: Tree, scope: frozenset[str]) -> Iterator[Fault]:
    target, name = tree.children[0], tree.children[1]
    given = arguments(tree, 2)
    full = namespaced(tree)
    if full is None:
        yield from _faults(target, scope)
    if full == "cel.bind" or (full is None and name in MACROS):
        count = _variables(full or str(name), len(given))
        variables = [_ident(argument) for argument in given[:count]]
        if not count or len(given) <= count or None in variables:
            yield Fault(name.line, name.end_column, f"'{name}' takes a variable's name and an expression")
            return
        inner = scope | {variable for variable in variables if variable is not None}
        # The value that is bound is read outside of the variable's reach.
        yield from _inside(given[1:2], scope if full == "cel.bind" else inner)
        yield from _inside(given[2:], inner)
        return
    if full is None and name not in METHODS and name not in _CORE:
        yield Fault(name.line, name.end_column, f"undeclared reference to '{name}'")
    yield from _inside(given, scope)


def _variables(macro: str, given: int) -> int:
    """How many of a macro's arguments name variables; 0 where so many arguments fit no form of it."""
    match macro:
        case "cel.bind":
            return 1 if given == 3 else 0
        case "map":
            return 1 if given in (2, 3) else 0
        case "filter" | "optMap":
            return 1 if given == 2 else 0
        case "transformList" | "transformMap":
            return 2 if given in (3, 4) else 0
        case _:
            return {2: 1, 3: 2}.get(given, 0)


def variables_of(tree: Tree) -> tuple[list[str], Sequence[Tree]]:
    """The variables and the expressions of a macro that has passed the check."""
    given = arguments(tree, 2)
    count = _variables(namespaced(tree) or str(tree.children[1]), len(given))
    return [str(_ident(argument)) for argument in given[:count]], given[count:]


def _clash(tree: Tree) -> Iterator[Fault]:
    if tree.data not in ("relation", "addition") or len(tree.children) != 2 or tree.children[0].data not in _OPERATORS:
        return
    operation, right = tree.children
    kinds = [_kind(operation.children[0]), _kind(right)]
    ordered = tree.data == "relation" and operation.data not in ("relation_eq", "relation_ne")
    wrong = kinds[0] != kinds[1] and _DYN not in kinds
    # Quantities and versions have methods in place of operators.
    wrong = wrong or ((ordered or tree.data == "addition") and any(kind.startswith("kubernetes.") for kind in kinds))
    # Numbers of different types compare by size, though not for equality.
    numbers = ordered and all(kind in ("int", "uint", "double") for kind in kinds)
    if wrong and not numbers:
        name = _OPERATORS[operation.data]
        column = operation.meta.end_column - len(name.strip("_"))
        text = f"found no matching overload for '{name}' applied to '({', '.join(kinds)})'"
        if any(kind.startswith("kubernetes.") for kind in kinds):
            text += "; compare by isLessThan, isGreaterThan or compareTo"
        yield Fault(operation.meta.end_line, column, text)


def _kind(tree: Any) -> str:
    """The type of an expression, where it can only be one."""
    while tree.data == "primary":
        tree = tree.children[0]
    match tree.data:
        case "literal":
            return _LITERALS.get(tree.children[0].type, _DYN)
        case "relation" | "conditionalor" | "conditionaland":
            return "bool"
        case "member_dot" if _ident(tree.children[0]) == "device":
            return _FIELDS.get(tree.children[1], _DYN)
        case "member_dot" if _is_capacity(tree.children[0]):
            return "kubernetes.Quantity"
        case "ident_arg" | "member_dot_arg":
            return _RESULTS.get(tree.children[0 if tree.data == "ident_arg" else 1], _DYN)
        case _:
            return _DYN


def _is_capacity(tree: Any) -> bool:
    """Whether this is device.capacity["..."]."""
    if tree.data != "member_index" or tree.children[0].data != "member_dot":
        return False
    target, name = tree.children[0].children
    return bool(name == "capacity") and _ident(target) == "device"


def _ident(tree: Any) -> str | None:
    while getattr(tree, "data", None) == "primary":
        tree = tree.children[0]
    return str(tree.children[0]) if getattr(tree, "data", None) == "ident" else None
