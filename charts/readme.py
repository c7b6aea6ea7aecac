# ruff: noqa: INP001 - a script, which nothing imports
"""Write the table of values into the chart's README, from values.yaml and the comments above each key.

Run as `python3 charts/readme.py`; with --check it changes nothing and fails where the table is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

CHART = Path(__file__).resolve().parent / "gpu-dra"
BEGIN = "<!-- values: made by charts/readme.py -->"
END = "<!-- end of values -->"


@dataclass(frozen=True, slots=True)
class Value:
    """One value: its path, its default as YAML, and what the comment above it says."""

    path: str
    default: str
    words: str


def values(text: str) -> Iterator[Value]:
    """Every value of a values.yaml. A mapping written in one line, such as `{cpu: 20m}`, is one value."""
    root = yaml.compose(text)
    if not isinstance(root, yaml.MappingNode):
        raise TypeError("values.yaml holds no mapping")
    yield from _walk(root, text.splitlines(), "")


def _walk(node: yaml.MappingNode, lines: Sequence[str], prefix: str) -> Iterator[Value]:
    for key, value in node.value:
        path = f"{prefix}{key.value}"
        if isinstance(value, yaml.MappingNode) and not value.flow_style:
            yield from _walk(value, lines, f"{path}.")
        else:
            yield Value(path, _source(value), _comment(lines, key.start_mark.line))


def _source(node: yaml.Node) -> str:
    if isinstance(node, yaml.SequenceNode) and not node.flow_style:
        return f"[{', '.join(_source(item) for item in node.value)}]"
    text = node.start_mark.buffer[node.start_mark.pointer : node.end_mark.pointer] if node.start_mark.buffer else ""
    return " ".join(text.split("\x00")[0].split())


def _comment(lines: Sequence[str], line: int) -> str:
    words: list[str] = []
    indent = len(lines[line]) - len(lines[line].lstrip())
    while line > 0 and lines[line - 1].startswith(" " * indent + "#"):
        line -= 1
        words.insert(0, lines[line].strip().removeprefix("#").strip())
    return " ".join(words)


def table(text: str) -> str:
    """The table in Markdown."""
    rows = ["| value | default | meaning |", "| --- | --- | --- |"]
    rows += [f"| `{item.path}` | `{item.default}` | {_cell(item.words)} |" for item in values(text)]
    return "\n".join(rows)


def _cell(words: str) -> str:
    return words.replace("|", "\\|").replace("<", "&lt;")


def with_table(readme: str, text: str) -> str:
    """The README with the table between the two marks made anew."""
    before, _, rest = readme.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"the README has no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{table(text)}\n{END}{after}"


def main(arguments: Sequence[str] | None = None) -> int:
    readme = CHART / "README.md"
    before = readme.read_text()
    after = with_table(before, (CHART / "values.yaml").read_text())
    if "--check" in (sys.argv[1:] if arguments is None else arguments):
        if after != before:
            print("the table of values in charts/gpu-dra/README.md is stale; run: python3 charts/readme.py")
        return int(after != before)
    readme.write_text(after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
