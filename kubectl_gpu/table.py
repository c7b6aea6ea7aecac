"""Rows -> columns as wide as they have to be, and text that is safe to show on a terminal. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence


def printable(text: str) -> str:
    """Names come from other machines: control characters would move the cursor of whoever reads them."""
    return "".join(char if char.isprintable() else "?" for char in text)


def columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> Iterator[str]:
    """A line for each row; the columns of `right` are flush right, as numbers are."""
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = [
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "   ".join(cells).rstrip()


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 GPU`, `2 GPUs`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def ranges(numbers: Sequence[int]) -> str:
    """`0-3,5`: runs of two stay apart."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs]
    return ",".join(parts)
