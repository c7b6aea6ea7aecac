"""Locks between commands that run at the same time, as files that do not stay behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Generator
from pathlib import Path


@contextlib.contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the lock; waits for others. The file is removed while it is held, so a waiter looks whether it has the one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(held, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(held).st_ino:
                break
        os.close(held)
    try:
        yield
    finally:
        path.unlink()
        os.close(held)
