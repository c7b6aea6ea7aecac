"""PCI addresses: every spelling that a machine has for one comes out as the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_dra.pci import PciAddress

WIDE = st.builds(PciAddress, st.integers(0, 0xFFFFFFFF), st.integers(0, 0xFF), st.integers(0, 0x1F), st.integers(0, 7))
ADDRESSES = st.builds(PciAddress, st.integers(0, 0xFFFF), st.integers(0, 0xFF), st.integers(0, 0x1F), st.integers(0, 7))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0000:1b:00.0", PciAddress(0, 0x1B, 0)),
        ("00000000:1B:00.0", PciAddress(0, 0x1B, 0)),
        ("0000001a:1B:1F.7", PciAddress(0x1A, 0x1B, 0x1F, 7)),
        ("0000:1b:00", PciAddress(0, 0x1B, 0)),
        ("1b:00.1", PciAddress(0, 0x1B, 0, 1)),
        ("1b:00", PciAddress(0, 0x1B, 0)),
        (" ffff:FF:1f.7\n", PciAddress(0xFFFF, 0xFF, 0x1F, 7)),
        ("00010000:01:00.0", PciAddress(0x10000, 1, 0, 0)),
    ],
    ids=["sysfs", "NVML", "NVML with a domain", "kernel log", "lspci", "shortest", "blanks", "behind VMD"],
)
def test_usual_spellings(text: str, expected: PciAddress) -> None:
    assert PciAddress.parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1b",
        "gpu-0",
        "0000:1b:00.8",
        "0000:1b:20.0",
        "000000000:1b:00.0",
        "000:1b:00.0",
        "0000:1b:00.",
        "0000:1b:00.00",
        "0000:1g:00.0",
        "0000-1b-00-0",
        "0000:1b:00.0 x",
        "0000:1b: 0.0",
        "٠٠٠٠:١٢:٠٠.٠",
    ],
)
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="is not a PCI address") as caught:
        PciAddress.parse(text)
    assert str(caught.value).startswith(repr(text))


def test_normal_form_and_label() -> None:
    address = PciAddress.parse("0000000A:C1:1F.3")
    assert (str(address), address.label) == ("000a:c1:1f.3", "000a-c1-1f-3")


@given(WIDE)
def test_round_trip_through_every_spelling(address: PciAddress) -> None:
    long = f"{address.domain:08X}:{address.bus:02X}:{address.device:02X}.{address.function}"
    assert PciAddress.parse(str(address)) == PciAddress.parse(long) == address


@given(ADDRESSES, ADDRESSES)
def test_orders_as_its_text_does(one: PciAddress, two: PciAddress) -> None:
    assert (one < two) == (str(one) < str(two))


@given(WIDE, WIDE)
def test_labels_are_as_distinct_as_addresses(one: PciAddress, two: PciAddress) -> None:
    assert (one.label == two.label) == (one == two)


@given(st.text(alphabet="0123456789abcdefABCDEFg:. ", max_size=16) | st.text(max_size=16))
def test_any_text_is_an_address_or_a_value_error(text: str) -> None:
    try:
        address = PciAddress.parse(text)
    except ValueError:
        return
    assert PciAddress.parse(str(address)) == address
    assert len(str(address)) == len("0000:00:00.0")
