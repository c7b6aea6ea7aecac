"""`gpu-dra-controller` and `python -m controller`."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Sequence

from controller import app, settings
from gpu_dra import logs
from gpu_dra.errors import GpuDraError, InputError

_log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 0 after SIGTERM, 2 where a person has to change the settings, 1 where a new start may help."""
    try:
        given = settings.parse(sys.argv[1:] if arguments is None else arguments, os.environ)
    except InputError as problem:
        for sentence in problem.problems:
            print(f"{settings.PROGRAM}: {sentence}", file=sys.stderr)
        return 2
    logs.configure(given.log_level, given.log_format)
    try:
        asyncio.run(app.run(given))
    except InputError as problem:
        _log.error("cannot start", extra={"problem": str(problem)})
        return 2
    except GpuDraError as problem:
        _log.error("ended", extra={"problem": str(problem)})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
