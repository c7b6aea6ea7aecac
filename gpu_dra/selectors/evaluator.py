"""The engine's evaluator with what Kubernetes adds: optionals, cel.bind, namespaces, all macros, and a bound on steps.

Errors are values while an expression is evaluated, so that && and || can absorb them as CEL wants it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import lark
from celpy import celtypes
from celpy.evaluation import Activation, CELEvalError, Evaluator

from gpu_dra.selectors import check, values
from gpu_dra.selectors.kinds import Maybe

_MAX_STEPS: Final = 20_000
"""Some tenths of a second of work; a selector takes some tens of steps."""


def evaluate(tree: Any, variables: Mapping[str, Any]) -> Any:
    """The value of an expression; raises what went wrong (CELEvalError and whatever the engine did not expect)."""
    return _Evaluator(tree, Activation(functions=values.functions()), variables, [0]).evaluate()


class _Evaluator(Evaluator):  # type: ignore[misc] # untyped to mypy
    """The engine's evaluator with what Kubernetes adds. Errors are values here, so that && and || can absorb them."""

    def __init__(self, tree: Any, activation: Activation, variables: Mapping[str, Any], steps: list[int]) -> None:
        super().__init__(tree, activation)
        self._variables = variables
        self._steps = steps

    def ident_value(self, name: str, root_scope: bool = False) -> Any:  # noqa: FBT001, FBT002 - the engine's
        """A variable; else a type, which the engine knows. (It finds variables, too, but a hundred times slower.)"""
        return self._variables[name] if name in self._variables else super().ident_value(name, root_scope)

    def visit(self, tree: Any) -> Any:
        self._count(1)
        return super().visit(tree)

    def visit_children(self, tree: Any) -> Any:
        self._count(len(tree.children))
        return super().visit_children(tree)

    def _count(self, steps: int) -> None:
        self._steps[0] += steps
        if self._steps[0] > _MAX_STEPS:
            # No error value: those could be absorbed, and the work would go on.
            raise RuntimeError("it takes too many steps")

    def conditionalor(self, tree: Any) -> Any:
        return self._chain(tree, "_||_", decisive=True)

    def conditionaland(self, tree: Any) -> Any:
        return self._chain(tree, "_&&_", decisive=False)

    def member_dot(self, tree: Any) -> Any:
        return self._select(self.visit(tree.children[0]), str(tree.children[1]), tree)

    def member_opt_dot(self, tree: Any) -> Any:
        return self._optional(self.visit(tree.children[0]), celtypes.StringType(tree.children[1]), tree)

    def member_opt_index(self, tree: Any) -> Any:
        return self._optional(self.visit(tree.children[0]), self.visit(tree.children[1]), tree)

    def macro_has_eval(self, exprlist: Any) -> Any:
        target = self.visit(exprlist.children[0].children[0])
        if isinstance(target, CELEvalError):
            return target
        selected = self._optional(target, celtypes.StringType(exprlist.children[0].children[1]), exprlist)
        return selected if isinstance(selected, CELEvalError) else celtypes.BoolType(selected.has)

    def member_dot_arg(self, tree: Any) -> Any:
        full = check.namespaced(tree)
        if full == "cel.bind":
            (name,), (value, body) = check.variables_of(tree)
            bound = self.visit(value)
            return bound if isinstance(bound, CELEvalError) else self._with({name: bound}, body)
        if full is not None:
            given = [self.visit(argument) for argument in check.arguments(tree, 2)]
            return self.function_eval(lark.Token("IDENT", full), given)
        if tree.children[1] in check.MACROS:
            return self._macro(tree)
        return super().member_dot_arg(tree)

    def _macro(self, tree: Any) -> Any:
        macro = str(tree.children[1])
        target = self.visit(tree.children[0])
        names, bodies = check.variables_of(tree)
        if isinstance(target, CELEvalError):
            return target
        if macro == "optMap":
            result = self._with({names[0]: target.content}, bodies[0]) if target.has else None
            return Maybe.of(result) if target.has and not isinstance(result, CELEvalError) else result or target
        if not isinstance(target, list | dict):
            return CELEvalError(f"no such overload: {macro} of {type(target).__name__}", tree=tree)
        if len(names) == 1:
            rounds = [{names[0]: item} for item in target]
        else:
            numbered = target.items() if isinstance(target, dict) else enumerate(target)
            rounds = [{names[0]: values.to_cel(key), names[1]: item} for key, item in numbered]
        results = [self._round(variables, bodies) for variables in rounds]
        if macro in ("all", "exists"):
            return _quantified([result for (result,) in results], wanted=macro == "exists")
        failed = next((value for result in results for value in result if isinstance(value, CELEvalError)), None)
        return failed or _collected(macro, [v[names[0]] for v in rounds], results, len(bodies))

    def _round(self, variables: Mapping[str, Any], bodies: Sequence[Any]) -> list[Any]:
        """One turn of a macro. Of two expressions the first is a condition, and the second counts where it holds."""
        first = self._with(variables, bodies[0])
        holds = len(bodies) == 2 and isinstance(first, celtypes.BoolType) and first
        return [first, self._with(variables, bodies[1])] if holds else [first]

    def _with(self, variables: Mapping[str, Any], body: Any) -> Any:
        """The value of an expression with variables of its own, or the error."""
        return _Evaluator(body, self.activation, {**self._variables, **variables}, self._steps).visit(body)

    def _chain(self, tree: Any, operator: str, *, decisive: bool) -> Any:
        """a && b && c, from left to right until one decides; by a loop, as a long chain would be nested too deeply."""
        terms, rest = [], tree
        while rest.data == tree.data and len(rest.children) == 2:
            terms.append(rest.children[1])
            rest = rest.children[0]
        value = self.visit(rest)
        for term in reversed(terms):
            if isinstance(value, celtypes.BoolType) and bool(value) is decisive:
                break
            try:
                value = self.activation.resolve_function(operator)(value, self.visit(term))
            except TypeError:
                value = CELEvalError(f"no such overload: {operator} takes two bools", tree=tree)
        return value

    def _select(self, target: Any, name: str, tree: Any) -> Any:
        if isinstance(target, CELEvalError):
            return target
        if isinstance(target, Maybe):
            return self._optional(target, celtypes.StringType(name), tree)
        if not isinstance(target, dict):
            return CELEvalError(f"no such overload: nothing can be selected from {type(target).__name__}", tree=tree)
        try:
            return target[celtypes.StringType(name)]
        except KeyError:
            return CELEvalError(f"no such key: {name}; ask first, as in has(a.{name}) && ...", tree=tree)

    @staticmethod
    def _optional(target: Any, key: Any, tree: Any) -> Any:
        for value in (target, key):
            if isinstance(value, CELEvalError):
                return value
        try:
            return Maybe.select(target, key)
        except TypeError as problem:
            return CELEvalError(f"no such overload: {problem}", tree=tree)


def _quantified(results: Sequence[Any], *, wanted: bool) -> Any:
    """`exists` (true is wanted) and `all` (false): one result that decides makes up for errors in others."""
    if any(isinstance(value, celtypes.BoolType) and bool(value) is wanted for value in results):
        return celtypes.BoolType(wanted)
    undecided = (value for value in results if not isinstance(value, celtypes.BoolType))
    return next(undecided, celtypes.BoolType(not wanted))


def _collected(macro: str, firsts: Sequence[Any], results: Sequence[Sequence[Any]], wanted: int) -> Any:
    """What the other macros make of the results. Fewer than `wanted` in one mean that its condition did not hold."""
    if macro in ("exists_one", "existsOne"):
        return celtypes.BoolType(sum(bool(value) for (value,) in results) == 1)
    if macro == "filter":
        return celtypes.ListType([item for item, (keep,) in zip(firsts, results, strict=True) if keep])
    chosen = [(key, result[-1]) for key, result in zip(firsts, results, strict=True) if len(result) == wanted]
    return celtypes.MapType(chosen) if macro == "transformMap" else celtypes.ListType([value for _, value in chosen])
