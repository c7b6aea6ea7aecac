"""Flags and their environment twins: what goes first, and every mistake at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_dra.errors import InputError
from gpu_dra.settings import Address, Flags, Given, absolute_path, dns_name, one_of, twin


def parse(arguments: Sequence[str], environ: Mapping[str, str] | None = None) -> Given:
    flags = Flags("prog", "Does 100% of it.")
    flags.add("node-name", "NAME", "the node")
    flags.add("root", "DIR", "the root")
    flags.add("port", "N", "a number")
    flags.add("taint", "NAME", "what to taint", repeated=True)
    flags.switch("dry-run", "change nothing")
    return flags.parse(arguments, environ or {})


def problems(given_: Given) -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        given_.finish()
    assert caught.value.where == "prog"
    return caught.value.problems


def test_a_flag_goes_before_its_twin() -> None:
    environ = {"GPU_DRA_NODE_NAME": "from-twin", "GPU_DRA_PORT": "7", "NODE_NAME": "nobodys"}
    read = parse(["--node-name=from-flag"], environ)
    assert (read.value("node-name", dns_name), read.value("port", int)) == ("from-flag", 7)
    read.finish()


def test_an_empty_twin_counts_as_not_set_and_an_empty_flag_does_not() -> None:
    assert parse([], {"GPU_DRA_NODE_NAME": ""}).value("node-name", dns_name, "default") == "default"
    read = parse(["--node-name="])
    read.value("node-name", dns_name, "default")
    assert problems(read)[0].startswith("--node-name='': this must be a DNS name")


def test_what_is_missing_is_named_with_its_twin() -> None:
    read = parse([])
    read.value("node-name", dns_name)
    assert read.value("root", absolute_path, optional=True) is None
    assert problems(read) == ("--node-name (or GPU_DRA_NODE_NAME) is missing",)


def test_every_mistake_at_once_each_with_where_it_stands() -> None:
    environ = {"GPU_DRA_ROOT": "relative", "GPU_DRA_DRY_RUN": "perhaps", "GPU_DRA_TAINT": "ok,BAD,,Worse"}
    read = parse(["--node-name", "N_1", "--nope", "3"], environ)
    read.value("node-name", dns_name)
    read.value("root", absolute_path)
    read.value("port", int)
    assert read.values("taint", dns_name) == ()
    read.flag("dry-run", default=False)
    read.fail("--a and --b do not go together")
    dns = "this must be a DNS name: lower-case letters, digits, - and ., at most 253 characters"
    assert problems(read) == (
        "--nope 3: there is no such flag (see prog --help)",
        f"--node-name='N_1': {dns}",
        "GPU_DRA_ROOT='relative': this must be an absolute path",
        "--port (or GPU_DRA_PORT) is missing",
        f"GPU_DRA_TAINT='BAD': {dns}",
        f"GPU_DRA_TAINT='Worse': {dns}",
        "GPU_DRA_DRY_RUN='perhaps': this must be one of true, 1, yes, false, 0, no",
        "--a and --b do not go together",
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--node-name"], "--node-name: expected one argument"),
        (["--dry-run", "--no-dry-run"], "not allowed with argument --dry-run"),
        (["--dry-run=true"], "ignored explicit argument 'true'"),
    ],
)
def test_what_cannot_be_told_apart_is_refused_at_once(arguments: list[str], words: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(arguments)
    (problem,) = caught.value.problems
    assert words in problem
    assert "see prog --help" in problem


@pytest.mark.parametrize("arguments", [["--node=n"], ["stray"], ["-n"]])
def test_no_abbreviations_and_nothing_besides_flags(arguments: list[str]) -> None:
    assert "there is no such flag" in problems(parse(arguments))[0]


@pytest.mark.parametrize(
    ("arguments", "environ", "expected"),
    [
        ([], {}, ()),
        (["--taint=a", "--taint", "b"], {"GPU_DRA_TAINT": "c"}, ("a", "b")),
        (["--taint=a,b"], {}, ("a,b",)),
        ([], {"GPU_DRA_TAINT": "a,b"}, ("a", "b")),
        ([], {"GPU_DRA_TAINT": ","}, ()),
    ],
)
def test_repeated(arguments: list[str], environ: dict[str, str], expected: tuple[str, ...]) -> None:
    assert parse(arguments, environ).values("taint", str) == expected


@pytest.mark.parametrize(
    ("arguments", "environ", "expected"),
    [
        ([], {}, None),
        (["--dry-run"], {"GPU_DRA_DRY_RUN": "false"}, True),
        (["--no-dry-run"], {"GPU_DRA_DRY_RUN": "true"}, False),
        *(([], {"GPU_DRA_DRY_RUN": text}, True) for text in ("true", "True", "1", "YES")),
        *(([], {"GPU_DRA_DRY_RUN": text}, False) for text in ("false", "0", "No")),
    ],
)
def test_switches(arguments: list[str], environ: dict[str, str], expected: bool | None) -> None:
    read = parse(arguments, environ)
    for default in (True, False):
        assert read.flag("dry-run", default=default) is (default if expected is None else expected)
    read.finish()


def test_help_names_every_flag_with_its_twin(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(["--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    for flag in ("node-name", "root", "port", "taint", "dry-run"):
        assert f"--{flag}" in shown
        assert f"[{twin(flag)}]" in shown


@pytest.mark.parametrize("text", ["a", "0", "a.b", "gpu.nvidia.com", "a-b--c.d", "a" * 253])
def test_dns_names(text: str) -> None:
    assert dns_name(text) == text


@pytest.mark.parametrize("text", ["", "A", "a_b", "-a", "a-", "a..b", ".a", "a.", "a b", "ä", "a\n", "a/b", "a" * 254])
def test_no_dns_names(text: str) -> None:
    with pytest.raises(ValueError, match="must be a DNS name"):
        dns_name(text)


def test_paths_and_words() -> None:
    assert absolute_path("/var/lib") == Path("/var/lib")
    for text in ("", ".", "var/lib", "~/x"):
        with pytest.raises(ValueError, match="must be an absolute path"):
            absolute_path(text)
    assert one_of({"json": 1, "text": 2})("JSON") == 1
    with pytest.raises(ValueError, match="this must be one of json, text"):
        one_of({"json": 1, "text": 2})("xml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":8080", Address("", 8080)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("localhost:65535", Address("localhost", 65535)),
        ("[::1]:80", Address("::1", 80)),
        ("[::]:80", Address("::", 80)),
    ],
)
def test_addresses(text: str, expected: Address) -> None:
    assert Address.parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "8080", ":", "host", "host:", "host:http", ":-1", ":65536", ":+1", ": 1", ":1 ", ":٣", ":" + "9" * 5000),
        *("::1:80", "[::1:80", "::1]:80", "[[::1]]:80", "[::1]", "[]:80", "a]:80", "http://host:80", "host:80/metrics"),
    ],
)
def test_no_addresses(text: str) -> None:
    with pytest.raises(ValueError, match="this must be HOST:PORT or :PORT, with a port of at most 65535"):
        Address.parse(text)


@given(st.from_regex(r"[a-z0-9.-]*|[0-9.]+|\[[0-9a-f:]+\]", fullmatch=True), st.integers(0, 65535))
def test_address_round_trip(host: str, port: int) -> None:
    assert Address.parse(f"{host}:{port}") == Address(host.removeprefix("[").removesuffix("]"), port)
