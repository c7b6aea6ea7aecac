"""The first process of a PID namespace: starts and stops named programs on request, and reaps what they leave.

It runs twice over: for the cluster (whose programs are the control plane and the nodes) and in each node (containerd,
kubelet, kube-proxy). It decides nothing; what to run comes over its socket, one JSON object a connection:

    {"do": "start", "name": ..., "argv": [...], "env": {...}, "log": PATH, "keep_fd": N or null}
    {"do": "stop", "name": ..., "signal": N}      (returns at once; "list" tells when the program is gone)
    {"do": "list"}

SIGTERM does nothing to it, as to any first process without a handler: it ends by SIGKILL, and its namespace with it.
One thread only, because a program's parent-death signal follows the thread that started it.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.e2e.cluster import mounts

# The listening socket of the forwarder, handed down from the supervisor; nobody else may hold it open.
HANDED_DOWN = 3


class Init:
    """Named programs and how those that ended did so."""

    def __init__(self) -> None:
        self.running: dict[str, int] = {}
        self.ended: dict[str, int] = {}

    def serve(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(16)
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, _only_wake)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        selector = selectors.DefaultSelector()
        selector.register(listener, selectors.EVENT_READ)
        selector.register(wake_read, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if wake_read in ready:
                os.read(wake_read, 4096)
                self.reap()
            if listener.fileno() in ready:
                connection, _ = listener.accept()
                with connection:
                    self.answer(connection)

    def answer(self, connection: socket.socket) -> None:
        connection.settimeout(5)
        try:
            request = json.loads(connection.makefile("rb").readline())
            reply = self.obey(request)
        except (OSError, ValueError, KeyError, TypeError) as problem:
            reply = {"error": f"{type(problem).__name__}: {problem}"}
        try:
            connection.sendall(json.dumps(reply).encode() + b"\n")
        except OSError:
            return

    def obey(self, request: dict[str, Any]) -> dict[str, Any]:
        self.reap()
        match request["do"]:
            case "start":
                if request["name"] in self.running:
                    return {"error": f"{request['name']} runs already"}
                self.start(**{key: value for key, value in request.items() if key != "do"})
            case "stop":
                if pid := self.running.get(request["name"]):
                    os.kill(pid, request["signal"])
            case "list":
                pass
            case other:
                return {"error": f"{other!r} is not a request"}
        return {"running": self.running, "ended": self.ended}

    def start(self, name: str, argv: list[str], env: dict[str, str], log: str, keep_fd: int | None) -> None:
        whole = {**os.environ, **env}
        program = shutil.which(argv[0], path=whole.get("PATH"))
        if program is None:
            raise FileNotFoundError(f"{argv[0]} is not on the node's PATH")
        actions: list[tuple[Any, ...]] = [
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        if keep_fd is None:
            actions.append((os.POSIX_SPAWN_CLOSE, HANDED_DOWN))
        self.ended.pop(name, None)
        self.running[name] = os.posix_spawn(
            program, argv, whole, file_actions=actions, setsid=True, setsigdef=[signal.SIGPIPE]
        )

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for name in [name for name, running in self.running.items() if running == pid]:
                del self.running[name]
                self.ended[name] = os.waitstatus_to_exitcode(status)


def _only_wake(_number: int, _frame: object) -> None:
    """For SIGCHLD: the wakeup descriptor tells the loop, and without a handler no signal would reach it."""


def main(arguments: Sequence[str]) -> None:
    """SOCKET cluster | SOCKET node FOLDER CGROUP."""
    path, kind, *rest = arguments
    if kind == "node":
        mounts.prepare_node(Path(rest[0]), rest[1])
    else:
        mounts.prepare_cluster()
    Init().serve(Path(path))


if __name__ == "__main__":
    main(sys.argv[1:])
