"""Log lines of the programs: a constant message, and the objects it is about as fields (`extra=`).

    2026-01-31T09:00:00.123Z INFO  claim prepared claim=default/train uid=6f… devices=gpu-1,gpu-2

or the same as one JSON object a line. Configured once, by a program's main; libraries below only ask for a logger.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

LEVELS: Final = ("debug", "info", "warning", "error")
FORMS: Final = ("text", "json")

_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


def configure(level: str, form: str, stream: TextIO = sys.stderr) -> None:
    """Send everything from `level` (one of LEVELS) on to `stream`, in `form` (one of FORMS)."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


class TextFormatter(logging.Formatter):
    """Time, level, message, then key=value; values with blanks are quoted as JSON does it."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; a traceback follows below it."""
        fields = "".join(f" {key}={_text(value)}" for key, value in _fields(record).items())
        line = f"{_time(record)} {record.levelname:<7} {_one_line(record.getMessage())}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One object a line: time, level, logger, message and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """A field never hides one of the four."""
        document: dict[str, Any] = {
            **_fields(record),
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return json.dumps(document, default=str, ensure_ascii=False)


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    return {key: value for key, value in record.__dict__.items() if key not in _STANDARD and not key.startswith("_")}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _one_line(text: str) -> str:
    # A line break in a foreign text (an object's name, an error) must not look like a line of its own, nor may a
    # control character reach a terminal. Of blanks only the plain one is printable.
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


def _text(value: object) -> str:
    text = str(value)
    plain = text and text.isprintable() and not any(letter in ' "=' for letter in text)
    return text if plain else _one_line(json.dumps(text, ensure_ascii=False))
