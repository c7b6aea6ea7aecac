"""The program gpu-dra-node-agent."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

from gpu_dra import logs
from gpu_dra.errors import GpuDraError, InputError
from node_agent import app, settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0 after SIGTERM, 2 where a person has to change a flag or a file, 1 where the node is not in order."""
    try:
        chosen = settings.read(sys.argv[1:] if arguments is None else arguments, os.environ)
        logs.configure(chosen.log_level, chosen.log_format)
        asyncio.run(app.run(chosen))
    except GpuDraError as problem:
        print(problem, file=sys.stderr)
        return 2 if isinstance(problem, InputError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
