"""An agent that is killed, or overtaken, before its Nth file-system operation: `python -m tests.component.crashing`.

Each line of JSON on stdin is one run, in a fork of its own; its exit code is answered on stdout.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from gpu_dra.errors import GpuDraError, Unavailable
from gpu_dra.names import ClaimUid
from node_agent.adapters.locks import FileLocks
from tests.component.agents import CLAIMS, files, started
from tests.fakes.claims import NODE, example

INTERRUPTED: Final = 137
REFUSED: Final = 3
_OPERATIONS: Final = ("open", "fsync", "fchmod", "rename", "replace", "link", "symlink", "unlink", "mkdir", "rmdir")


@dataclass(frozen=True, slots=True)
class Run:
    """What one process does. It starts as the agent does; `action` is start, prepare or unprepare.

    Before the operation `step`, or in the middle of it if it writes, it is killed; if `overtaken` it goes on then, after
    another agent has released claim `one` and prepared `two`.
    """

    folder: str
    action: str
    claim: str = ""
    boot: int = 1
    unknown: tuple[str, ...] = ()
    step: int = 0
    overtaken: bool = False


class Crasher:
    """The process that forks agents. Use as a context manager."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.component.crashing"],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def run(self, what: Run) -> bool:
        """Whether it came to its end without being interrupted, its claim prepared, refused or released."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(asdict(what)), file=self._process.stdin, flush=True)
        code = int(self._process.stdout.readline())
        assert code in {0, REFUSED, INTERRUPTED}, f"{what} ended with {code}; see its stderr"
        return code != INTERRUPTED


def _interrupt(step: int, interruption: Callable[[], None]) -> None:
    """Only in a fork: count operations, and call `interruption` before the Nth, or in the middle of it if it writes."""
    count = 0

    def is_it() -> bool:
        nonlocal count
        count += 1
        return count == step

    def counted(operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_it():
                interruption()
            return operation(*args, **kwargs)

        return call

    class Torn(io.FileIO):
        def write(self, data: Any, /) -> int:
            half = len(data) // 2 if is_it() else 0
            if half:
                super().write(data[:half])
                interruption()
            return half + (super().write(data[half:]) or 0)

    for name in _OPERATIONS:
        setattr(os, name, counted(getattr(os, name)))
    os.fdopen = Torn  # type: ignore[assignment]


def _overtake(folder: Path) -> None:
    names = ["claim uid-of-one", *(f"device {device}" for device in CLAIMS["one"])]
    try:
        with FileLocks(folder / "state/lock", timeout=0).hold(names):
            pass
    except Unavailable:
        # The other agent would wait for this one, which it cannot in the same thread.
        return
    store, wanted = files(folder), threading.Event()
    wanted.set()
    store.release(ClaimUid("uid-of-one"))
    store.commit(example(NODE, "two", *CLAIMS["two"]), {"devices": []}, wanted)


async def _act(what: Run) -> int:
    agent = await started(Path(what.folder), what.boot, what.unknown)
    try:
        if what.action == "prepare":
            await agent.prepare(what.claim)
        elif what.action == "unprepare":
            await agent.unprepare(what.claim)
    except GpuDraError:
        return REFUSED
    return 0


def _forked(what: Run) -> None:
    code, interrupted = 1, False

    def interruption() -> None:
        nonlocal interrupted
        if not what.overtaken:
            os._exit(INTERRUPTED)
        interrupted = True
        _overtake(Path(what.folder))

    try:
        if what.step:
            _interrupt(what.step, interruption)
        code = asyncio.run(_act(what))
    except BaseException:  # noqa: BLE001 - whatever it is, the fork must not go on as its parent
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(INTERRUPTED if interrupted and not code else code)


def main() -> None:
    for line in sys.stdin:
        what = Run(**json.loads(line))
        child = os.fork()
        if child == 0:
            _forked(what)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
