"""Files that appear whole or not at all, and sentences for what the file system refuses."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from gpu_dra.errors import HostError

_PREFIX: Final = ".tmp-"
_SUFFIX: Final = ".new"


def temporary(path: Path) -> Path:
    """Where a file or link is made before it is renamed to `path`. One writer at a time: the caller sees to that."""
    # The suffix keeps readers of CDI folders from taking it for a specification.
    return path.with_name(f"{_PREFIX}{path.name}{_SUFFIX}")


def is_temporary(path: Path) -> bool:
    """Whether a crash may have left it."""
    return path.name.startswith(_PREFIX)


def final_name(name: str) -> str:
    """The name that a temporary one would have got; any other name as it is."""
    return name.removeprefix(_PREFIX).removesuffix(_SUFFIX)


def write_whole(path: Path, content: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Write a file so that readers see the old one or the new one, never half of it.

    A temporary name in the same folder, then a rename; the caller keeps other writers of the file away. A durable one
    survives a power cut once this returns: its content is synced before the rename, its name after.
    HostError names the path and the reason; nothing is left over then.
    """
    unfinished = temporary(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fchmod(file.fileno(), mode)
                if durable:
                    os.fsync(file.fileno())
            unfinished.rename(path)
            if durable:
                _sync_folder(path.parent)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise
    except OSError as problem:
        hint = {
            errno.ENOSPC: "the disk is full; free some space",
            errno.EROFS: "the file system is read-only; mount it read-write into the agent",
            errno.EACCES: "permission is denied; the agent must run as root",
        }.get(problem.errno or 0, problem.strerror)
        raise HostError(f"cannot write {path}: {hint}") from problem


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def listing(folder: Path) -> list[Path]:
    """What is in it, by name; HostError where it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError as problem:
        raise HostError(f"cannot list {folder}: {problem.strerror}") from problem


def remove(path: Path) -> bool:
    """Remove a file or link; False where there was none, HostError where it stays."""
    try:
        path.unlink()
    except OSError as problem:
        # A read-only file system refuses even to remove what is not there.
        if not os.path.lexists(path):
            return False
        raise HostError(f"cannot remove {path}: {problem.strerror}") from problem
    return True
