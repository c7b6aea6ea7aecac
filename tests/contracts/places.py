"""Two claims that want one device, and where claims are kept: the folders of a node, or the memory of the fake."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from node_agent.adapters.files import ClaimFiles, Sweep
from node_agent.ports import ClaimStore
from tests.fakes.claims import NODE, FakeClaimStore, FakeDisk, example

OURS = f"{NODE.driver}-claim_"
ONE = example(NODE, "one", "gpu-a", "gpu-b")
TWO = example(NODE, "two", "gpu-b", "gpu-c")
FILE = f"{ONE.uid}.json"
YES = threading.Event()
YES.set()


def spec(text: str = "first") -> dict[str, Any]:
    return {"cdiVersion": "0.5.0", "kind": f"{NODE.driver}/claim", "devices": [], "text": text}


def file_of(uid: str) -> str:
    return f"{OURS}{uid}.json"


class Store(ClaimStore, Protocol):
    def open(self) -> Sweep: ...


class Place(Protocol):
    """Where claims are kept, seen from outside. `store` is the view of a further process."""

    def store(self) -> Store: ...
    def claims(self) -> dict[str, bytes]: ...
    def cdi(self) -> dict[str, bytes]: ...
    def set_aside(self) -> list[bytes]: ...
    def put(self, name: str, content: bytes) -> None: ...
    def put_cdi(self, name: str, content: bytes) -> None: ...
    def opened(self, name: str) -> Callable[[], bytes]: ...
    def full(self) -> AbstractContextManager[None]: ...


class Folders:
    def __init__(self, root: Path) -> None:
        self._state, self._cdi = root / "state", root / "cdi"
        self.store().open()

    def store(self) -> Store:
        return ClaimFiles(NODE.driver, self._state, self._cdi)

    def claims(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self._state / "claims").iterdir()}

    def cdi(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self._cdi.iterdir()}

    def set_aside(self) -> list[bytes]:
        return [path.read_bytes() for path in (self._state / "set-aside").iterdir()]

    def put(self, name: str, content: bytes) -> None:
        (self._state / "claims" / name).write_bytes(content)

    def put_cdi(self, name: str, content: bytes) -> None:
        (self._cdi / name).write_bytes(content)

    def opened(self, name: str) -> Callable[[], bytes]:
        file = (self._cdi / name).open("rb")

        def read() -> bytes:
            with file:
                return file.read()

        return read

    @contextmanager
    def full(self) -> Generator[None]:
        """A file stands where the folder was, so that nothing can be written there."""
        aside = self._cdi.with_name("cdi-aside")
        self._cdi.rename(aside)
        self._cdi.touch()
        yield
        self._cdi.unlink()
        shutil.move(aside, self._cdi)


class Memory:
    def __init__(self) -> None:
        self._disk = FakeDisk()

    def store(self) -> Store:
        return FakeClaimStore(NODE.driver, self._disk)

    def claims(self) -> dict[str, bytes]:
        return dict(self._disk.claims)

    def cdi(self) -> dict[str, bytes]:
        return dict(self._disk.cdi)

    def set_aside(self) -> list[bytes]:
        return self._disk.set_aside

    def put(self, name: str, content: bytes) -> None:
        self._disk.claims[name] = content

    def put_cdi(self, name: str, content: bytes) -> None:
        self._disk.cdi[name] = content

    def opened(self, name: str) -> Callable[[], bytes]:
        content = self._disk.cdi[name]
        return lambda: content

    @contextmanager
    def full(self) -> Generator[None]:
        self._disk.full = True
        yield
        self._disk.full = False
