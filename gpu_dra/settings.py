"""Settings of a program: flags, each with an environment twin, checked together so that one start names every mistake.

    flags = Flags("gpu-dra-node-agent", "Publishes ...")
    flags.add("node-name", "NAME", "the node that this is")
    given = flags.parse(arguments, environ)
    settings = Settings(node_name=given.value("node-name", dns_name))
    given.finish()

A flag goes before its twin, GPU_DRA_NODE_NAME for --node-name; an empty twin counts as not set.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, TypeVar, cast

from gpu_dra.errors import InputError

T = TypeVar("T")

_DNS_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_ADDRESS: Final = re.compile(r"(?:\[(?P<v6>[^\[\]]+)\]|(?P<host>[^\[\]:]*)):(?P<port>[0-9]{1,5})")
_SWITCH: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def twin(flag: str) -> str:
    """The environment variable of a flag."""
    return "GPU_DRA_" + flag.upper().replace("-", "_")


class Flags:
    """The flags that a program knows."""

    def __init__(self, program: str, description: str) -> None:
        self._program = program
        self._parser = _Parser(prog=program, description=description, allow_abbrev=False)
        self._names: list[str] = []

    def add(self, name: str, metavar: str, words: str, *, repeated: bool = False) -> None:
        """A flag with a value; a repeated one may be given several times (its twin: separated by commas)."""
        self._names.append(name)
        action = "append" if repeated else "store"
        self._parser.add_argument(f"--{name}", metavar=metavar, action=action, help=f"{words} [{twin(name)}]")

    def switch(self, name: str, words: str) -> None:
        """--NAME and --no-NAME; the twin says true or false."""
        self._names.append(name)
        group = self._parser.add_mutually_exclusive_group()
        help_text = f"{words} [{twin(name)}]"
        group.add_argument(f"--{name}", action="store_const", const="true", dest=name.replace("-", "_"), help=help_text)
        group.add_argument(f"--no-{name}", action="store_const", const="false", dest=name.replace("-", "_"))

    def parse(self, arguments: Sequence[str], environ: Mapping[str, str]) -> Given:
        """What was given; InputError where it cannot even be told apart."""
        problems: list[str] = []
        try:
            known, rest = self._parser.parse_known_args(list(arguments))
        except _UsageError as problem:
            raise InputError(self._program, [f"{problem} (see {self._program} --help)"]) from problem
        if rest:
            problems.append(f"{' '.join(rest)}: there is no such flag (see {self._program} --help)")
        values: dict[str, tuple[str, str | list[str]]] = {}
        for name in self._names:
            value = getattr(known, name.replace("-", "_"))
            if value is not None:
                values[name] = (f"--{name}", value)
            elif environ.get(twin(name)):
                values[name] = (twin(name), environ[twin(name)])
        return Given(self._program, values, problems)


@dataclass
class Given:
    """The texts that were given, each with where it stands; `value` and its like turn them into what they mean."""

    _program: str
    _values: Mapping[str, tuple[str, str | list[str]]]
    _problems: list[str]

    def value(self, name: str, parse: Callable[[str], T], default: T | None = None, *, optional: bool = False) -> T:
        """The parsed value; `parse` raises ValueError with what is wrong. Missing without a default is a mistake.

        After a mistake the value means nothing: `finish` raises before anybody can use it.
        """
        where, text = self._values.get(name, ("", ""))
        if not where:
            if default is None and not optional:
                self._problems.append(f"--{name} (or {twin(name)}) is missing")
            return cast("T", default)
        return self._parsed(where, str(text), parse)

    def values(self, name: str, parse: Callable[[str], T]) -> tuple[T, ...]:
        """All values of a repeated flag."""
        where, given = self._values.get(name, ("", []))
        texts = [part for part in given.split(",") if part] if isinstance(given, str) else given
        before = len(self._problems)
        parsed = tuple(self._parsed(where, text, parse) for text in texts)
        return parsed if len(self._problems) == before else ()

    def flag(self, name: str, *, default: bool) -> bool:
        """A switch."""
        return self.value(name, one_of(_SWITCH), default)

    def fail(self, problem: str) -> None:
        """Report what only several settings together show."""
        self._problems.append(problem)

    def finish(self) -> None:
        """InputError with every mistake, if there was one."""
        if self._problems:
            raise InputError(self._program, self._problems)

    def _parsed(self, where: str, text: str, parse: Callable[[str], T]) -> T:
        try:
            return parse(text)
        except ValueError as problem:
            self._problems.append(f"{where}={text!r}: {problem}")
            return cast("T", None)


def one_of(choices: Mapping[str, T]) -> Callable[[str], T]:
    """A parser for one of a few words."""

    def parse(text: str) -> T:
        if text.lower() not in choices:
            raise ValueError(f"this must be one of {', '.join(choices)}")
        return choices[text.lower()]

    return parse


def dns_name(text: str) -> str:
    """A name as Kubernetes has it for most objects (RFC 1123 subdomain)."""
    if len(text) > 253 or _DNS_NAME.fullmatch(text) is None:
        raise ValueError("this must be a DNS name: lower-case letters, digits, - and ., at most 253 characters")
    return text


def absolute_path(text: str) -> Path:
    """A path from the root."""
    path = Path(text)
    if not path.is_absolute():
        raise ValueError("this must be an absolute path")
    return path


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; an empty host means every address."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """`HOST:PORT`, `:PORT` or `[v6]:PORT`; port 0 lets the system choose."""
        match = _ADDRESS.fullmatch(text)
        if match is None or int(match["port"]) > 65535:
            raise ValueError("this must be HOST:PORT or :PORT, with a port of at most 65535")
        return cls(match["v6"] or match["host"] or "", int(match["port"]))


class _UsageError(Exception):
    pass


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _UsageError(message)
