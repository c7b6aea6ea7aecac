"""Strict reading of strangers' data: every problem with its place, and never another error than InputError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_dra.decode import Reader, shown
from gpu_dra.errors import InputError
from gpu_dra.pci import PciAddress

WHERE = "fleet.yaml"


def problems(data: object, read: Callable[[Reader], object]) -> tuple[str, ...]:
    root = Reader.root(data)
    read(root)
    try:
        root.finish(WHERE)
    except InputError as problem:
        return problem.problems
    return ()


def read_gpu(reader: Reader) -> tuple[object, ...]:
    return (
        reader.text("name"),
        reader.integer("minor", minimum=0, maximum=31),
        reader.boolean("mig", False),
        reader.parsed("pci", PciAddress.parse, PciAddress(0, 0, 0)),
        reader.text("model", None),
    )


def test_good_data_comes_back_as_it_is() -> None:
    root = Reader.root({"gpus": [{"name": "a", "minor": 3, "mig": True, "pci": "1b:00"}], "box": {"name": "b"}})
    gpus = [read_gpu(gpu) for gpu in root.items("gpus")]
    name = root.child("box").text("name")
    root.finish(WHERE)
    assert gpus == [("a", 3, True, PciAddress(0, 0x1B, 0), None)]
    assert name == "b"


def test_the_error_names_the_file() -> None:
    with pytest.raises(InputError, match=r"^fleet\.yaml: the document is empty, and a mapping") as caught:
        Reader.root(None).finish(WHERE)
    assert caught.value.where == WHERE


def test_every_problem_is_told_at_once_with_its_path() -> None:
    data = {"gpus": [{"name": "", "minor": "x", "mig": 1, "pci": "nowhere", "modle": "H100"}, 7], "box": []}

    def read(root: Reader) -> None:
        for gpu in root.items("gpus"):
            read_gpu(gpu)
        root.child("box").text("name")

    assert problems(data, read) == (
        "gpus[0].name is empty; leave it out or give a text",
        "gpus[0].minor is the text 'x', and a whole number is wanted",
        "gpus[0].mig is the number 1, and true or false is wanted",
        "gpus[0].pci 'nowhere' is not a PCI address; write it as 0000:1b:00.0",
        "gpus[1] is the number 7, and a mapping of names to values is wanted",
        "gpus[1].name is missing; a text is wanted",
        "gpus[1].minor is missing; a whole number is wanted",
        "gpus[1].pci is missing; a text is wanted",
        "box is a list, and a mapping of names to values is wanted",
        "box.name is missing; a text is wanted",
        "gpus[0].modle is not a known field; known here are mig, minor, model, name, pci",
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (-1, "n is -1, and the least allowed is 2"),
        (1, "n is 1, and the least allowed is 2"),
        (10, "n is 10, and the most allowed is 9"),
        (1 << 5000, "n is a number of 5001 bits, and the most allowed is 9"),
        (True, "n is true, and a whole number is wanted"),
        (2.0, "n is the number 2.0, and a whole number is wanted"),
        (None, "n is missing; a whole number is wanted"),
        ("5", "n is the text '5', and a whole number is wanted"),
    ],
)
def test_a_whole_number_has_one_problem_at_most(value: object, words: str) -> None:
    assert problems({"n": value}, lambda root: root.integer("n", minimum=2, maximum=9)) == (words,)


@pytest.mark.parametrize("value", [-(1 << 63), (1 << 63) - 1])
def test_whole_numbers_are_those_of_64_bits(value: int) -> None:
    assert problems({"n": value}, lambda root: root.integer("n")) == ()
    beyond = value - 1 if value < 0 else value + 1
    assert len(problems({"n": beyond}, lambda root: root.integer("n"))) == 1


def test_the_default_of_a_number_is_not_held_against_its_bounds_and_the_same_value_given_is() -> None:
    assert problems({}, lambda root: root.integer("n", 0, minimum=1)) == ()
    assert problems({"n": 0}, lambda root: root.integer("n", 0, minimum=1)) == ("n is 0, and the least allowed is 1",)


def test_left_out_and_null_are_the_same() -> None:
    for data in ({}, dict.fromkeys(("t", "n", "b", "l", "m"))):
        root = Reader.root(data)
        read = (
            root.text("t", "d"),
            root.integer("n", 4),
            root.boolean("b", None),
            list(root.items("l", required=False)),
        )
        assert not root.has("m")
        root.child("m").finish(WHERE)
        assert read == ("d", 4, None, [])


def test_a_list_that_is_wanted_is_missed() -> None:
    assert problems({}, lambda root: list(root.items("gpus"))) == ("gpus is missing; a list is wanted",)


def test_unknown_fields_may_be_let_pass() -> None:
    assert problems({"a": 1}, lambda _: None) == ("a is not a known field; known here are none",)
    assert problems({"a": 1}, lambda root: root.ignore_unknown()) == ()
    assert problems({"a": {"x": 1}}, lambda root: root.raw("a")) == ()


def test_a_callers_problem_stands_with_the_others() -> None:
    assert problems({"a": [{}]}, lambda root: next(root.items("a")).fail("b", "is odd")) == ("a[0].b is odd",)


def test_names_that_are_no_text_are_problems() -> None:
    assert problems({True: 1, 2: 3}, lambda _: None) == (
        "the document has the name true, which is no text; put it in quotes",
        "the document has the name 2, which is no text; put it in quotes",
    )


def test_half_a_character_is_no_text() -> None:
    (problem,) = problems({"t": "\ud800"}, lambda root: root.text("t"))
    assert problem == "t holds half a character (a lone surrogate)"


@pytest.mark.parametrize("key", ["\ud800", "a\nb", "\x1b[31m", "\u2028", ""])
def test_a_strangers_name_is_shown_on_one_line_and_can_be_printed(key: str) -> None:
    (problem,) = problems({key: 1}, lambda _: None)
    assert problem.isprintable()
    assert problem.encode()
    assert problem.split(" is not a known field")[0] in {repr(key), '""'}


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates()
KEYS = st.sampled_from(["name", "minor", "mig", "pci", "model", "gpus", "box"]) | st.text(max_size=4) | st.integers()
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)
SURROGATES = st.text(alphabet=st.characters(categories=["Cs", "Cc", "Ll"]), max_size=6)


@given(JSON | st.dictionaries(KEYS | SURROGATES, JSON | SURROGATES, max_size=5))
def test_whatever_stands_there_it_reads_or_is_input_error(data: Any) -> None:
    def read(root: Reader) -> None:
        read_gpu(root)
        for gpu in root.items("gpus"):
            read_gpu(gpu)
            read_gpu(gpu.child("box"))

    told = problems(data, read)
    assert all(problem.isprintable() and problem.encode() for problem in told)
    # Good data is always a mapping.
    assert told or isinstance(data, dict)


@given(JSON | SURROGATES | st.text(min_size=30) | st.integers(min_value=1 << 100))
def test_any_value_can_be_shown_short_and_on_one_line(value: object) -> None:
    text = shown(value)
    assert text.isprintable()
    assert len(text.encode()) <= 40 * len(r"\U0001f600") + 2
