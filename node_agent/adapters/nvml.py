"""NVML asked through a process of its own, each question with a deadline.

A call into the driver can hang for ever and cannot be interrupted, only its process can be killed; one in D state not even
that. So: an answer that does not come in time ends the worker, and the next question starts another. A worker that outlives
SIGKILL is left behind, and after a few of them nobody is started any more, since the next would end the same way.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Self

from gpu_dra.errors import GpuDraError

_log = logging.getLogger(__name__)

DEADLINE: Final = 10.0
"""Seconds for one question: a GPU without persistence mode takes some to wake."""
OPEN_DEADLINE: Final = 60.0
"""Seconds for attaching to the driver, which initialises every GPU of the node."""
_DIES_WITHIN: Final = 2.0
_CLOSING_SEEN: Final = 0.25
_MAX_ABANDONED: Final = 3
_MAX_ANSWER: Final = 1 << 20


class NvmlError(GpuDraError):
    """NVML answered with an error; `code` is its number."""

    def __init__(self, message: str, code: int) -> None:
        self.code = code
        super().__init__(message)


class NvmlSilent(GpuDraError):
    """NVML did not answer, or its process died: the GPU that was asked about is to blame."""


class NvmlClient:
    """Asks NVML. Blocks the calling thread for at most the deadline; `close` from another thread ends a wait at once."""

    def __init__(
        self,
        library: str | Callable[[], str | None] | None,
        *,
        deadline: float = DEADLINE,
        open_deadline: float = OPEN_DEADLINE,
    ) -> None:
        """`library` is its path, or finds it each time NVML is opened (and may raise NvmlError); None: the loader's."""
        self._library = library
        self._deadline = deadline
        self._open_deadline = open_deadline
        self._worker: subprocess.Popen[bytes] | None = None
        self._abandoned: list[subprocess.Popen[bytes]] = []
        self._asking = threading.Lock()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        self.close()

    @property
    def abandoned(self) -> int:
        """Workers that hang in the kernel now."""
        self._abandoned = [worker for worker in self._abandoned if worker.poll() is None]
        return len(self._abandoned)

    def open(self) -> dict[str, Any]:
        """Versions and count, asked anew. NvmlError where there is no driver, NvmlSilent where it does not answer."""
        with self._asking:
            self._end()
            return self._start()

    def ask(self, do: str, **request: Any) -> Any:
        """The worker's answer; a new worker is started where there is none."""
        with self._asking:
            if self._worker is None or self._worker.poll() is not None:
                self._end()
                self._start()
            return self._exchange({"do": do, **request}, self._deadline)

    def release(self) -> None:
        """Let go of the driver; the next question takes hold of it again."""
        with self._asking:
            self._end()

    def close(self) -> None:
        """End the worker. Whoever waits for an answer gets NvmlSilent."""
        self._closed = True
        worker = self._worker
        if worker is not None:
            with contextlib.suppress(ProcessLookupError):
                worker.kill()
        with self._asking:
            self._end()

    def _start(self) -> dict[str, Any]:
        if self._closed:
            raise NvmlSilent("the agent is ending")
        if self.abandoned >= _MAX_ABANDONED:
            raise NvmlSilent(
                f"{self.abandoned} processes hang in the NVIDIA driver and cannot be killed, so no other is started;"
                " the node has to be rebooted"
            )
        library = self._library() if callable(self._library) else self._library
        command = [sys.executable, "-m", "node_agent.nvml_worker", *([library] if library else [])]
        self._worker = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
        )
        return dict(self._exchange({"do": "open"}, self._open_deadline))

    def _exchange(self, request: dict[str, Any], within: float) -> Any:
        worker = self._worker
        assert worker is not None
        assert worker.stdin is not None
        try:
            worker.stdin.write(json.dumps(request).encode() + b"\n")
            answer = json.loads(self._line(worker, within))
        except TimeoutError:
            self._end()
            raise NvmlSilent(f"NVML did not answer {request['do']!r} within {within:g} s") from None
        except (OSError, ValueError) as problem:
            code = self._end()
            how = f"was ended by signal {signal.Signals(-code).name}" if code and code < 0 else f"ended with {code}"
            raise NvmlSilent(f"the process that asks NVML {how} at {request['do']!r}") from problem
        if "error" in answer:
            raise NvmlError(f"NVML: {answer['error']}", int(answer["code"]))
        return answer["ok"]

    def _end(self) -> int | None:
        """Kill the worker; its exit code, or None where it does not die."""
        worker, self._worker = self._worker, None
        if worker is None:
            return None
        for pipe in (worker.stdin, worker.stdout):
            if pipe is not None:
                pipe.close()
        ended_itself = worker.poll()
        if ended_itself is not None:
            return ended_itself
        try:
            # It may just be dying by itself, and how it did is worth knowing.
            return worker.wait(0.2)
        except subprocess.TimeoutExpired:
            worker.kill()
        try:
            return worker.wait(_DIES_WITHIN)
        except subprocess.TimeoutExpired:
            _log.error("a process hangs in the NVIDIA driver and is left behind", extra={"pid": worker.pid})
            self._abandoned.append(worker)
            return None

    def _line(self, worker: subprocess.Popen[bytes], within: float) -> bytes:
        """One line of the worker's answers; TimeoutError, or ValueError where they end."""
        assert worker.stdout is not None
        descriptor, end, text = worker.stdout.fileno(), time.monotonic() + within, b""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while not text.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError
            # A worker that cannot be killed does not end the wait when the agent ends.
            if self._closed:
                raise ValueError("the agent is ending")
            if not poll.poll(min(left, _CLOSING_SEEN) * 1000):
                continue
            part = os.read(descriptor, 1 << 16)
            text += part
            if not part or len(text) > _MAX_ANSWER:
                raise ValueError("no answer")
        return text
