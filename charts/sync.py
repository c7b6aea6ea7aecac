# ruff: noqa: INP001 - a script, which nothing imports
"""Copy crds/*.yaml into the chart, which Helm packages alone; remove copies whose source is gone.

Run as `python3 charts/sync.py`; with --check it changes nothing and fails where a copy differs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "crds"
COPIES = ROOT / "charts" / "gpu-dra" / "files" / "crds"


def differences(source: Path = SOURCE, copies: Path = COPIES) -> dict[str, str | None]:
    """Names whose copy is missing, differs or has no source, each with the text it should have (None: no file)."""
    wanted = {path.name: path.read_text() for path in source.glob("*.yaml")}
    present = {path.name: path.read_text() for path in copies.glob("*.yaml")}
    return {name: wanted.get(name) for name in sorted(wanted | present) if wanted.get(name) != present.get(name)}


def sync(source: Path = SOURCE, copies: Path = COPIES) -> list[str]:
    """Make the copies what they should be; the names of those that were not."""
    changes = differences(source, copies)
    for name, text in changes.items():
        if text is None:
            (copies / name).unlink()
        else:
            (copies / name).write_text(text)
    return list(changes)


def main(arguments: Sequence[str] | None = None) -> int:
    if "--check" in (sys.argv[1:] if arguments is None else arguments):
        stale = list(differences())
        if stale:
            print(f"the chart's copies of {', '.join(stale)} are not those of crds/; run: python3 charts/sync.py")
        return 1 if stale else 0
    sync()
    return 0


if __name__ == "__main__":
    sys.exit(main())
