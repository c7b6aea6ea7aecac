"""Read plain JSON or YAML data strictly: every problem is collected with its path, none stops the reading.

    root = Reader.root(data)
    name = root.text("name")
    for gpu in root.items("gpus"):
        minor = gpu.integer("minor", minimum=0)
    root.finish("fleet.yaml")      # raises InputError with everything found, unknown keys included

A wrong value is reported and replaced by an empty one of the right type, so that the rest is still checked; nothing read
may be used before finish(). The agent reads its profiles and kept files with this and not with pydantic, which costs a
fifth of its memory (docs/decisions).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar, overload

from gpu_dra.errors import InputError

T = TypeVar("T")

_LEAST: Final = -(1 << 63)
_MOST: Final = (1 << 63) - 1


class Reader:
    """One mapping of the data being read, and where it is."""

    def __init__(self, data: object, path: str, problems: list[str], owners: list[Reader]) -> None:
        self._path = path
        self._problems = problems
        self._owners = owners
        self._seen: set[str] = set()
        if not isinstance(data, dict):
            self._problem("", f"is {_kind(data)}, and a mapping of names to values is wanted")
        self._data: dict[str, Any] = {}
        for key, value in data.items() if isinstance(data, dict) else ():
            if isinstance(key, str):
                self._data[key] = value
            else:
                self._problem("", f"has the name {shown(key)}, which is no text; put it in quotes")
        owners.append(self)

    @classmethod
    def root(cls, data: object) -> Reader:
        return cls(data, "", [], [])

    def finish(self, where: str) -> None:
        """Raise InputError with every problem found so far, keys that nobody asked for included."""
        for owner in self._owners:
            owner.report_unknown()
        if self._problems:
            raise InputError(where, self._problems)

    def fail(self, key: str, problem: str) -> None:
        """Add a problem that the caller found."""
        self._problem(key, problem)

    def has(self, key: str) -> bool:
        self._seen.add(key)
        return self._data.get(key) is not None

    @overload
    def text(self, key: str) -> str: ...
    @overload
    def text(self, key: str, default: T) -> str | T: ...
    def text(self, key: str, default: object = ...) -> object:
        """A non-empty string."""
        value = self._get(key, str, "a text", default, "")
        if value == "":
            if self._data.get(key) == "":
                self._problem(key, "is empty; leave it out or give a text")
            return "" if default is ... else default
        if isinstance(value, str) and not _is_unicode(value):
            self._problem(key, "holds half a character (a lone surrogate)")
        return value

    @overload
    def integer(self, key: str, *, minimum: int | None = None, maximum: int | None = None) -> int: ...
    @overload
    def integer(self, key: str, default: T, *, minimum: int | None = None, maximum: int | None = None) -> int | T: ...
    def integer(
        self, key: str, default: object = ..., *, minimum: int | None = None, maximum: int | None = None
    ) -> object:
        """A whole number within the bounds given, and those of 64 bits: the API has no larger ones."""
        value = self._get(key, int, "a whole number", default, 0)
        if value is self._data.get(key) and isinstance(value, int):
            least, most = _LEAST if minimum is None else minimum, _MOST if maximum is None else maximum
            if value < least:
                self._problem(key, f"is {shown(value)}, and the least allowed is {least}")
            if value > most:
                self._problem(key, f"is {shown(value)}, and the most allowed is {most}")
        return value

    @overload
    def boolean(self, key: str) -> bool: ...
    @overload
    def boolean(self, key: str, default: T) -> bool | T: ...
    def boolean(self, key: str, default: object = ...) -> object:
        return self._get(key, bool, "true or false", default, False)  # noqa: FBT003 - the stand-in value

    def parsed(self, key: str, parse: Callable[[str], T], fallback: T) -> T:
        """A text that `parse` understands; its ValueError becomes the problem, and `fallback` stands in."""
        text = self.text(key)
        if not text:
            return fallback
        try:
            return parse(text)
        except ValueError as problem:
            self._problem(key, str(problem))
            return fallback

    def items(self, key: str, *, required: bool = True) -> Iterator[Reader]:
        """The mappings of a list."""
        values = self._get(key, list, "a list", ... if required else [], [])
        for number, value in enumerate(values if isinstance(values, list) else []):
            yield Reader(value, f"{self._at(key)}[{number}]", self._problems, self._owners)

    def child(self, key: str) -> Reader:
        """A mapping inside this one; reads as empty where it is left out."""
        self._seen.add(key)
        value = self._data.get(key)
        return Reader({} if value is None else value, self._at(key), self._problems, self._owners)

    def raw(self, key: str) -> Any:
        """Whatever stands there, unread."""
        self._seen.add(key)
        return self._data.get(key)

    def report_unknown(self) -> None:
        """Add a problem for each key that nobody asked for."""
        for key in self._data:
            if key not in self._seen:
                self._problem(
                    key or '""', f"is not a known field; known here are {', '.join(sorted(self._seen)) or 'none'}"
                )

    def ignore_unknown(self) -> None:
        """Accept further keys: the data may come from a newer version."""
        self._seen.update(self._data)

    def _get(self, key: str, wanted: type, words: str, default: object, fallback: object) -> object:
        self._seen.add(key)
        value = self._data.get(key)
        if value is None:
            if default is ...:
                self._problem(key, f"is missing; {words} is wanted")
                return fallback
            return default
        # bool is an int in Python, and `minor: true` must not read as 1.
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            self._problem(key, f"is {_kind(value)}, and {words} is wanted")
            return fallback
        return value

    def _problem(self, key: str, problem: str) -> None:
        self._problems.append(f"{self._at(key) or 'the document'} {problem}")

    def _at(self, key: str) -> str:
        return ".".join(part for part in (self._path, key if key.isprintable() else shown(key)) if part)


def shown(value: object) -> str:
    """A value of a file as part of a sentence: short, on one line, and never an error of its own."""
    match value:
        case None:
            return "empty"
        case bool():
            return str(value).lower()
        case str():
            text = value if len(value) <= 40 else f"{value[:37]}..."
            return repr(text) if _is_unicode(text) else ascii(text)
        case int() if value.bit_length() > 128:
            return f"a number of {value.bit_length()} bits"
        case int() | float():
            return str(value)
        case _:
            return {"list": "a list", "dict": "a mapping"}.get(type(value).__name__, f"a {type(value).__name__}")


def _kind(value: object) -> str:
    match value:
        case bool():
            return shown(value)
        case str():
            return f"the text {shown(value)}"
        case int() | float():
            return f"the number {shown(value)}"
        case _:
            return shown(value)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
