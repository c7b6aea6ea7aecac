"""Text -> syntax tree: the engine's grammar with the optional selection that Kubernetes adds."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources
from typing import Any, Final

import lark
from celpy.celparser import CELParser

_MEMBERS: Final = "member         : member_dot |"
_LEVELS: Final = frozenset(
    {"expr", "conditionalor", "conditionaland", "relation", "addition", "multiplication", "unary", "member"}
)


class SyntaxFault(Exception):
    """The text is no expression; `line` and `column` say from where on."""

    def __init__(self, line: int, column: int) -> None:
        super().__init__("syntax error")
        self.line = line
        self.column = column


def parse(expression: str) -> Any:
    """The tree of an expression, without levels that say nothing. SyntaxFault where it is none."""
    try:
        return _flat(_parser().parse(expression))
    except lark.UnexpectedInput as problem:
        if getattr(getattr(problem, "token", None), "type", "") == "$END":
            # The engine points at the last character, and the API server behind it.
            lines = expression.splitlines() or [""]
            raise SyntaxFault(len(lines), len(lines[-1]) + 1) from problem
        raise SyntaxFault(problem.line, problem.column) from problem


@lru_cache(maxsize=1)
def _parser() -> lark.Lark:
    """The engine's grammar with optional selection. A parser of our own: the engine's is shared by the whole process."""
    grammar = (resources.files("celpy") / "cel.lark").read_text()
    if _MEMBERS not in grammar:
        raise RuntimeError("this cel-python has another grammar than the one that gpu_dra.selectors extends")
    grammar = grammar.replace(_MEMBERS, f"{_MEMBERS} member_opt_dot | member_opt_index |")
    grammar += '\nmember_opt_dot : member ".?" IDENT\nmember_opt_index : member "[?" expr "]"\n'
    return lark.Lark(
        grammar,
        parser="lalr",
        start="expr",
        g_regex_flags=re.MULTILINE,
        lexer_callbacks={"IDENT": CELParser.ambiguous_literals},
        propagate_positions=True,
        maybe_placeholders=False,
        priority="invert",
    )


def _flat(tree: Any) -> Any:
    """The tree without levels of precedence that only pass one value on: less deep and several times as fast."""

    def only(node: Any) -> Any:
        while isinstance(node, lark.Tree) and len(node.children) == 1:
            inner = node.children[0]
            if node.data == "primary" and isinstance(inner, lark.Tree) and inner.data == "paren_expr":
                node = inner.children[0]
            elif node.data in _LEVELS and isinstance(inner, lark.Tree):
                node = inner
            else:
                break
        return node

    for subtree in tree.iter_subtrees():
        subtree.children = [only(child) for child in subtree.children]
    return only(tree)
