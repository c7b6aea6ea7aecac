"""The error tree, cut by who must act.

    GpuDraError
    ├── InputError         a person must change a file, a flag or an object; lists every problem found
    ├── ClaimError         this claim cannot be prepared or released; the text goes to the kubelet and into an event
    ├── Unavailable        try again: an API server, a lock or a disk did not answer as it should
    └── HostError          the node is broken or set up wrong: a folder, a device node, a socket

Foreign errors (aiohttp, grpc, OSError) are mapped to these where they arise, so that no caller needs to know a library.
Every text is a sentence that says what is wrong, where, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable


class GpuDraError(Exception):
    """Root of all errors of this project."""


class InputError(GpuDraError):
    """Something a person wrote is wrong. `problems` holds one sentence each, `where` names the file or object."""

    def __init__(self, where: str, problems: Iterable[str]) -> None:
        self.where = where
        self.problems = tuple(problems)
        super().__init__(f"{where}: " + "; ".join(self.problems))


class ClaimError(GpuDraError):
    """A claim cannot be served as it stands."""


class Unavailable(GpuDraError):
    """Something did not answer; the same call may succeed later."""


class HostError(GpuDraError):
    """The node is not in a state to serve; a person has to look at it."""
