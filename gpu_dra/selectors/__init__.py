"""CEL selectors of claims and classes: compile one, and ask whether it matches a device. The only door to the CEL engine.

cel-python knows the language; what Kubernetes adds comes from here: optionals (`.?name`), cel.bind, comparison across
types, the functions of `functions`, and a device as the scheduler shows it. tests/data/cel_verdicts.json holds what a
real API server says; tests/unit/test_selectors.py lists by name what this cannot carry.

A selector is a stranger's text: its length, its steps and its values are bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from gpu_dra.device import Device
from gpu_dra.errors import InputError
from gpu_dra.selectors import check, evaluator, grammar, values

_MAX_LENGTH: Final = 10 * 1024
"""The API server's limit for an expression, in bytes."""


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled expression."""

    expression: str
    tree: Any = field(repr=False, compare=False)

    def matches(self, driver: str, device: Device) -> bool:
        """Whether the device is one that is asked for. InputError where it fails on this device, as in the scheduler."""
        try:
            value = evaluator.evaluate(self.tree, {"device": values.present(driver, device)})
        except RecursionError as problem:
            raise InputError(self._where(device), ["it is nested too deeply"]) from problem
        except Exception as problem:  # the engine raises what it likes on text that it did not expect
            raise InputError(self._where(device), [str(problem.args[0] if problem.args else problem)]) from problem
        if not values.is_bool(value):
            kind = type(value).__name__.removesuffix("Type").lower()
            raise InputError(self._where(device), [f"the result is of type {kind}, and a selector must give a bool"])
        return bool(value)

    def _where(self, device: Device) -> str:
        return f"{_quoted(self.expression)} on device {device.name}"


@lru_cache(maxsize=1024)
def compile_selector(expression: str) -> Selector:
    """Check an expression; InputError says where it is wrong (line:column) and how."""
    where = _quoted(expression)
    if len(expression.encode(errors="replace")) > _MAX_LENGTH:
        raise InputError(where, [f"it is longer than {_MAX_LENGTH} bytes"])
    try:
        tree = grammar.parse(expression)
        fault = check.first_fault(tree)
    except grammar.SyntaxFault as problem:
        raise InputError(where, [f"{problem.line}:{problem.column}: syntax error"]) from problem
    except RecursionError as problem:
        raise InputError(where, ["it is nested too deeply"]) from problem
    if fault is not None:
        raise InputError(where, [f"{fault.line}:{fault.column}: {fault.text}"])
    return Selector(expression, tree)


def matches(expression: str, driver: str, device: Device) -> bool:
    """Compile (once) and evaluate: the form in which gpu_dra.allocator takes a selector engine."""
    return compile_selector(expression).matches(driver, device)


def _quoted(expression: str) -> str:
    return f"the selector {expression}" if len(expression) <= 200 else f"the selector {expression[:197]}..."
