"""Running the programs of the machine: with the output in the error where one fails."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.e2e.cluster.errors import ClusterError

TAIL_LINES = 15


def say(text: str) -> None:
    """Progress goes to stderr: stdout belongs to results such as the kubeconfig's path."""
    print(text, file=sys.stderr, flush=True)


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    text_in: str | None = None,
    timeout: float = 600,
) -> str:
    """Run a program and return its stdout; a failure is a ClusterError with the end of what it wrote."""
    try:
        done = subprocess.run(
            argv,
            env=None if env is None else {**os.environ, **env},
            cwd=cwd,
            input=text_in,
            stdin=subprocess.DEVNULL if text_in is None else None,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError as problem:
        raise ClusterError(f"{argv[0]} is not on this machine; `make packages` installs what is needed") from problem
    except subprocess.TimeoutExpired as problem:
        raise ClusterError(f"`{' '.join(argv)}` did not end within {timeout:.0f} s") from problem
    if done.returncode:
        written = tail((done.stderr + done.stdout).splitlines())
        raise ClusterError(f"`{' '.join(argv)}` failed with {done.returncode}; it wrote:\n{written}")
    return done.stdout


def tail(lines: Sequence[str], count: int = TAIL_LINES) -> str:
    """The last lines, indented for an error's text."""
    return "\n".join(f"  {line}" for line in lines[-count:]) or "  (nothing)"


def tail_of(path: Path, count: int = TAIL_LINES) -> str:
    """The last lines of a log file; also of one that is not there."""
    try:
        return tail(path.read_text(errors="replace").splitlines(), count)
    except OSError:
        return f"  ({path} cannot be read)"


def wait_until(
    happened: Callable[[], bool], what: str, *, within: float, every: float = 0.1, hint: Callable[[], str] = str
) -> None:
    """Poll until it happened; a timeout is a ClusterError that says what was awaited, with the hint's text."""
    deadline = time.monotonic() + within
    while not happened():
        if time.monotonic() > deadline:
            raise ClusterError(f"waited {within:.0f} s for {what}, in vain. {hint()}".rstrip())
        time.sleep(every)


def kill_and_wait(pidfd: int, *, within: float = 30) -> None:
    """SIGKILL the process that a pidfd holds, and wait until it is gone."""
    import select  # noqa: PLC0415 -- only here

    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    if not select.select([pidfd], [], [], within)[0]:
        raise ClusterError(f"a process of the cluster did not end within {within:.0f} s of SIGKILL")
