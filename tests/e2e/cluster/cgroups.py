"""The cgroups of one cluster, as seen from the machine: the one thing that outlives its processes."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from tests.e2e.cluster.errors import ClusterError
from tests.e2e.cluster.mounts import hierarchies


def folders(name: str) -> list[Path]:
    return [root / f"gd-{name}" for root in hierarchies() if (root / f"gd-{name}").exists()]


def remove(name: str, *, within: float = 20) -> None:
    """Remove the cluster's cgroups, once its processes have ended; one that is still in there is killed."""
    deadline = time.monotonic() + within
    for top in folders(name):
        while top.exists():
            for pid in _processes(top):
                # In a folder that carries this cluster's name, so it is one of its containers.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
            if top.exists() and time.monotonic() > deadline:
                raise ClusterError(f"{top} cannot be removed; processes in it: {_processes(top) or 'none'}")
            time.sleep(0 if not top.exists() else 0.02)


def _processes(top: Path) -> list[int]:
    found: list[int] = []
    for path in top.rglob("cgroup.procs"):
        with contextlib.suppress(OSError):
            found += [int(line) for line in path.read_text().split()]
    return [pid for pid in found if pid > 0]
