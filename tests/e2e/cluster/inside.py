"""Paths inside another root: links that are absolute there must not lead into this machine's root."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from tests.e2e.cluster.errors import ClusterError

MAX_LINKS = 40


def resolve(root: Path, inside: str) -> Path:
    """Where `inside` is below root, with every link followed as a process with that root would; it need not exist."""
    todo = list(PurePosixPath(inside).parts)
    current: list[str] = []
    links = 0
    while todo:
        part = todo.pop(0)
        if part == "/":
            current = []
        elif part == "..":
            current = current[:-1]
        else:
            here = root.joinpath(*current, part)
            if here.is_symlink():
                links += 1
                if links > MAX_LINKS:
                    raise ClusterError(f"{inside} below {root} leads through more than {MAX_LINKS} links")
                todo = [*PurePosixPath(here.readlink()).parts, *todo]
            else:
                current.append(part)
    return root.joinpath(*current)
