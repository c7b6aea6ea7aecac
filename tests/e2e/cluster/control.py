"""Talks to the first process of a namespace (init.py): which process it is, and what it shall run.

No PID is ever read from a file: the kernel tells, in this side's numbers, who listens on the socket, and a pidfd holds
that process, so that a recycled number cannot be hit.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.cluster.errors import ClusterError
from tests.e2e.cluster.process import kill_and_wait, tail_of, wait_until

PEER = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class Program:
    """A program for an init to run: its name there, its command, what its environment has besides, and its log."""

    name: str
    argv: tuple[str, ...]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    keep_fd: int | None = None


@dataclass(frozen=True, slots=True)
class Control:
    """The way to one init."""

    path: Path

    def alive(self) -> bool:
        try:
            self._connect().close()
        except OSError:
            return False
        return True

    def pid(self) -> int:
        """The init's process id as this machine counts."""
        try:
            with self._connect() as connection:
                return _peer(connection)
        except OSError as problem:
            raise ClusterError(
                f"nothing runs behind {self.path}: {problem}; is the cluster up, the node booted?"
            ) from problem

    def kill(self) -> None:
        """SIGKILL the init, and with it everything in its namespace; nothing where it does not run."""
        try:
            connection = self._connect()
        except OSError:
            return
        with connection:
            pid = _peer(connection)
            try:
                pidfd = os.pidfd_open(pid)
            except ProcessLookupError:
                return
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            # The number could have gone to another process between the two calls; the command tells.
            if str(self.path).encode() in command:
                kill_and_wait(pidfd)
        except FileNotFoundError:
            return
        finally:
            os.close(pidfd)

    def start(self, program: Program) -> None:
        self._ask(
            do="start",
            name=program.name,
            argv=program.argv,
            env=dict(program.env),
            log=str(program.log),
            keep_fd=program.keep_fd,
        )

    def stop(self, name: str, *, how: signal.Signals = signal.SIGTERM, within: float = 20) -> None:
        """Signal a program and wait for its end; SIGKILL after the time. Nothing where it does not run."""
        self._ask(do="stop", name=name, signal=int(how))
        deadline = time.monotonic() + within
        while name in self.running():
            if time.monotonic() > deadline:
                self._ask(do="stop", name=name, signal=int(signal.SIGKILL))
            time.sleep(0.05)

    def running(self) -> dict[str, int]:
        """Programs that run, with their process ids inside the namespace."""
        return dict(self._ask(do="list")["running"])

    def expect(self, program: Program) -> None:
        """Raise if the program has ended, with the end of its log."""
        ended = self._ask(do="list")["ended"]
        if program.name in ended:
            raise ClusterError(
                f"{program.name} ended with {ended[program.name]}; its log {program.log} ends:\n{tail_of(program.log)}"
            )

    def wait_alive(self, log: Path) -> None:
        wait_until(
            self.alive, f"the first process behind {self.path}", within=20, every=0.02, hint=lambda: tail_of(log)
        )

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(10)
        try:
            connection.connect(str(self.path))
        except OSError:
            connection.close()
            raise
        return connection

    def _ask(self, **request: object) -> dict[str, Any]:
        try:
            with self._connect() as connection:
                connection.sendall(json.dumps(request).encode() + b"\n")
                with connection.makefile("rb") as reader:
                    reply = json.loads(reader.readline() or b'{"error": "no answer"}')
        except OSError as problem:
            raise ClusterError(
                f"{self.path} does not answer ({problem}); is the cluster up, the node booted?"
            ) from problem
        if "error" in reply:
            raise ClusterError(f"{self.path} refused {request}: {reply['error']}")
        return dict(reply)


def _peer(connection: socket.socket) -> int:
    """The process that listens at the other end, numbered in this process's PID namespace."""
    return int(PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))[0])
