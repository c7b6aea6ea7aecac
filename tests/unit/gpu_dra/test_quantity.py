"""Quantities: exact, as apimachinery reads them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_dra import quantity

POWERS = {
    **{suffix: Fraction(10) ** power for suffix, power in (("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3))},
    **{suffix: Fraction(10) ** power for suffix, power in (("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18))},
    **{suffix: Fraction(2) ** power for suffix, power in (("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40))},
    **{suffix: Fraction(2) ** power for suffix, power in (("Pi", 50), ("Ei", 60))},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("80Gi", 80 << 30),
        ("81559Mi", 85520809984),
        ("0.5Gi", 1 << 29),
        (".5Gi", 1 << 29),
        ("5.", 5),
        ("+5k", 5000),
        ("-1Ki", -1024),
        ("2e3", 2000),
        ("2E3", 2000),
        ("2E+3", 2000),
        ("2E", 2 * 10**18),
        ("1Ei", 1 << 60),
        ("1500m", Fraction(3, 2)),
        ("1e-3", Fraction(1, 1000)),
        ("100n", Fraction(1, 10**7)),
        ("3u", Fraction(3, 10**6)),
        ("0.1", Fraction(1, 10)),
        ("9007199254740993", 9007199254740993),
    ],
)
def test_values(text: str, expected: Fraction | int) -> None:
    assert quantity.parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "Gi",
            ".",
            "-",
            "e3",
            "80GB",
            "80gi",
            "80 Gi",
            " 80Gi",
            "80Gi ",
            "80Gi\n",
            "1K",
            "1ki",
            "1mi",
            "1e",
            "1e+",
        ),
        *("1e3Gi", "1e1.5", "1,5", "1_000", "0x10", "--1", "1.2.3", "NaN", "inf", "٣", "1/2", "1e9999"),
    ],
)
def test_anything_else_is_refused_with_the_text_and_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity; write a number with a suffix such as 80Gi") as caught:
        quantity.parse(text)
    assert str(caught.value).startswith(repr(text))


@given(
    st.integers(-(10**20), 10**20), st.integers(0, 12), st.sampled_from(sorted(POWERS)), st.sampled_from(["", "-", "+"])
)
def test_number_times_suffix(number: int, places: int, suffix: str, sign: str) -> None:
    digits = f"{abs(number):013d}"
    text = f"{digits[: len(digits) - places]}.{digits[len(digits) - places :]}"
    value = Fraction(abs(number), 10**places) * POWERS[suffix]
    assert quantity.parse(f"{sign}{text}{suffix}") == (-value if sign == "-" else value)


@given(st.integers(-999, 999), st.integers(-99, 99), st.sampled_from("eE"))
def test_decimal_exponents(number: int, exponent: int, letter: str) -> None:
    assert quantity.parse(f"{number}{letter}{exponent}") == number * Fraction(10) ** exponent


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (1, "1"),
        (1023, "1023"),
        (1024, "1Ki"),
        (1025, "1025"),
        (81559 << 20, "81559Mi"),
        (80 << 30, "80Gi"),
        (1 << 60, "1Ei"),
        (1 << 70, "1024Ei"),
        (-2048, "-2Ki"),
    ],
)
def test_bytes_as_text(value: int, expected: str) -> None:
    assert quantity.format_bytes(value) == expected


@given(st.integers(-(1 << 63), 1 << 63), st.integers(0, 63))
def test_bytes_round_trip_in_the_shortest_binary_form(number: int, shift: int) -> None:
    value = number << shift
    text = quantity.format_bytes(value)
    assert quantity.parse(text) == value
    digits = text.removesuffix("i").rstrip("KMGTPE")
    assert value == 0 or text.endswith("Ei") or int(digits) % 1024 != 0


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP", max_size=10) | st.text(max_size=10))
def test_any_text_is_a_number_or_a_value_error(text: str) -> None:
    try:
        value = quantity.parse(text)
    except ValueError:
        return
    assert quantity.parse(f"-{text.lstrip('+-')}") == -abs(value)
