"""`python -m node_agent.demo [EXAMPLE] [--profile PROFILE]`.

Exit code 2 where the input is wrong, 1 where a pod does not fit the node.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gpu_dra.errors import GpuDraError, InputError


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m node_agent.demo",
        description="Run the agent's own code on a simulated node: publish devices, give them to a claim, prepare it.",
    )
    parser.add_argument(
        "example",
        nargs="?",
        default="one-mesh",
        help="an example of examples/resourceclaims, or a file (default: %(default)s)",
    )
    parser.add_argument(
        "--profile", default="split-4x4", help="the node: the name of a profile, or a file (default: %(default)s)"
    )
    options = parser.parse_args(argv)
    try:
        asyncio.run(_run(options.example, options.profile))
    except ModuleNotFoundError as problem:
        print(
            f"The demo needs the package that provides {problem.name}: install gpu-dra with the extra `demo`.",
            file=sys.stderr,
        )
        return 2
    except InputError as problem:
        print(problem, file=sys.stderr)
        return 2
    except GpuDraError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


async def _run(name: str, profile: str) -> None:
    # Here, so that a missing library is told in a sentence: the agent alone is installed without the CEL engine.
    from node_agent.demo import example, machine, story  # noqa: PLC0415

    loaded = example.load(name, machine.CLASSES)
    with tempfile.TemporaryDirectory(prefix="gpu-dra-demo-") as folder:
        async with machine.start(profile, Path(folder)) as started:
            await story.Story(started, loaded, profile, print).tell()


if __name__ == "__main__":
    sys.exit(main())
