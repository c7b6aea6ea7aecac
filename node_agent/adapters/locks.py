"""Named locks that hold across processes: two agent pods share a node while one replaces the other.

Open-file-description locks on byte ranges of one file: no file a name, nothing to clean up, and the kernel releases them
when the holder dies, however it dies. A name's place is a hash; two names in one place only wait for each other.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import struct
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from gpu_dra.errors import HostError, Unavailable

# struct flock of Linux on 64-bit machines: type, whence, start, length, pid.
_FLOCK = struct.Struct("hhqqi4x")
_POLL = 0.005


class FileLocks:
    """Locks below one file, which is made when it is first used."""

    def __init__(self, path: Path, *, timeout: float = 10.0) -> None:
        self._path = path
        self._timeout = timeout

    @contextmanager
    def hold(self, names: Iterable[str]) -> Generator[None]:
        """Hold all of the names (taken in one order, so that two holders never wait for each other). Blocks the thread.

        Unavailable after the timeout: another process holds one of them.
        """
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise HostError(f"cannot open the lock file {self._path}: {problem.strerror}") from problem
        deadline = time.monotonic() + self._timeout
        try:
            for start, name in sorted((_place(name), name) for name in names):
                while not _try(descriptor, start):
                    if time.monotonic() > deadline:
                        raise Unavailable(
                            f"{name} is locked by another agent process on this node for more than"
                            f" {self._timeout:g} s; kubelet will try again. If it stays, restart the agent's pods there."
                        )
                    time.sleep(_POLL)
            yield
        finally:
            # Closing releases every lock of this descriptor.
            os.close(descriptor)


def _place(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=7).digest())


def _try(descriptor: int, start: int) -> bool:
    request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, 1, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)
    except OSError as problem:
        if problem.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise HostError(f"cannot lock: {problem.strerror}") from problem
    return True
