"""Log lines: one a message whatever a stranger's text holds, with its objects as fields."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_dra import logs

TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12)


@pytest.fixture(autouse=True)
def root_logger_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def record(
    message: str = "claim prepared", *values: object, severity: int = logging.INFO, **fields: Any
) -> logging.LogRecord:
    made = logging.getLogger("agent").makeRecord("agent", severity, "f.py", 1, message, values, None, extra=fields)
    made.created = 1769850000.123
    return made


def text(made: logging.LogRecord) -> str:
    return logs.TextFormatter().format(made)


def document(made: logging.LogRecord) -> dict[str, Any]:
    line = logs.JsonFormatter().format(made)
    assert "\n" not in line
    read: dict[str, Any] = json.loads(line)
    return read


def failed(made: logging.LogRecord) -> logging.LogRecord:
    problem = ValueError("no such\nGPU")
    made.exc_info = (ValueError, problem, None)
    return made


def test_a_line_of_text() -> None:
    made = record("%s of %d", "claim", 2, claim="default/train", devices="gpu-1,gpu-2")
    assert text(made) == "2026-01-31T09:00:00.123Z INFO    claim of 2 claim=default/train devices=gpu-1,gpu-2"


def test_a_line_of_json() -> None:
    assert document(record("%s of %d", "claim", 2, severity=logging.WARNING, count=3, uid=None)) == {
        "time": "2026-01-31T09:00:00.123Z",
        "level": "warning",
        "logger": "agent",
        "message": "claim of 2",
        "count": 3,
        "uid": None,
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("", '""'),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ('say "x"', r'"say \"x\""'),
        ("a\nb", r'"a\nb"'),
        ("\x1b[31mred", r'"\u001b[31mred"'),
        ("a\u2028b", r'"a\u2028b"'),
        ("é", "é"),
        (None, "None"),
        (3, "3"),
        (["a"], "['a']"),
    ],
)
def test_values_as_text(value: object, shown: str) -> None:
    assert text(record(key=value)).endswith(f" claim prepared key={shown}")


def test_a_message_with_a_strangers_line_break_is_still_one_line() -> None:
    assert text(record("no %s", "x\n2026 ERROR forged\x1b[2J")).endswith(r"no x\n2026 ERROR forged\u001b[2J")


def test_a_traceback_follows_the_line() -> None:
    first, *below = text(failed(record(claim="a"))).splitlines()
    assert first.endswith("claim prepared claim=a")
    assert below == ["ValueError: no such", "GPU"]
    assert document(failed(record(claim="a")))["traceback"] == "ValueError: no such\nGPU"


def test_a_field_never_hides_what_every_line_has() -> None:
    read = document(record(time="never", level="silent", logger="nobody", claim="a"))
    assert read == {**document(record()), "claim": "a"}


def test_private_fields_and_those_of_the_library_are_no_fields() -> None:
    made = record(_secret="x", claim="a")
    made.taskName = "Task-1"
    assert text(made).endswith(" claim prepared claim=a")
    assert set(document(made)) == {"time", "level", "logger", "message", "claim"}


def test_json_takes_any_value() -> None:
    assert document(record(error=ValueError("x"), devices=("a", "b")))["error"] == "x"


@given(TEXTS, TEXTS)
def test_one_record_is_one_line_of_printable_text(message: str, value: str) -> None:
    line = text(record("%s", message, key=value))
    assert line.isprintable()
    shown = line.partition(" key=")[2] if "key=" not in message else ""
    assert shown in {"", value} or json.loads(shown) == value


@given(TEXTS, TEXTS)
def test_json_gives_every_text_back(message: str, value: str) -> None:
    read = document(record("%s", message, key=value))
    assert (read["message"], read["key"]) == (message, value)


@pytest.mark.parametrize(
    ("level", "kept"),
    [("debug", "diwe"), ("info", "iwe"), ("warning", "we"), ("error", "e")],
)
@pytest.mark.parametrize("form", logs.FORMS)
def test_configured_once_for_every_logger_below(level: str, kept: str, form: str) -> None:
    stream, forgotten = io.StringIO(), io.StringIO()
    logs.configure("debug", "text", forgotten)
    logs.configure(level, form, stream)
    below = logging.getLogger("gpu_dra.anything")
    below.debug("d")
    below.info("i")
    below.warning("w")
    below.error("e")
    lines = stream.getvalue().splitlines()
    messages = [json.loads(line)["message"] if form == "json" else line[-1] for line in lines]
    assert "".join(messages) == kept
    assert forgotten.getvalue() == ""


def test_every_level_that_is_offered_is_one() -> None:
    for level in logs.LEVELS:
        logs.configure(level, "text", io.StringIO())
        assert logging.getLevelName(logging.getLogger().level) == level.upper()
