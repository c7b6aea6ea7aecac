"""The kubectl plugin: `kubectl gpu version`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import gpu_dra

USAGE = "usage: kubectl gpu version"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 2 with the usage for anything that it does not know."""
    match list(sys.argv[1:] if arguments is None else arguments):
        case ["version" | "--version"]:
            print(f"kubectl-gpu {gpu_dra.__version__}")
            return 0
        case ["-h" | "--help" | "help"]:
            print(USAGE)
            return 0
        case [] | [_, *_]:
            print(f"{USAGE}\nOther commands come with a later version.", file=sys.stderr)
            return 2
        case _:
            return 2


if __name__ == "__main__":
    sys.exit(main())
