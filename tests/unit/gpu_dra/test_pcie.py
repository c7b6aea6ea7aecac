"""The words for how two devices are connected."""

from __future__ import annotations

import pytest

from gpu_dra.pcie import Place, connection

SWITCH = ("0000:16:01.0", "0000:17:00.0")


def place(root: str | None = "pci0000:16", numa: int | None = 0, path: tuple[str, ...] = ()) -> Place:
    return Place(root, numa, path)


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [
        # Two ports of one switch, and two functions of one card.
        (place(path=(*SWITCH, "0000:18:00.0")), place(path=(*SWITCH, "0000:18:01.0")), "PIX"),
        (place(path=(*SWITCH, "0000:18:00.0")), place(path=(*SWITCH, "0000:18:00.0")), "PIX"),
        (place(path=("0000:16:01.0",)), place(path=("0000:16:01.0",)), "PIX"),
        # Switches behind one another.
        (
            place(path=(*SWITCH, "0000:18:00.0", "0000:19:00.0", "0000:1a:00.0")),
            place(path=(*SWITCH, "0000:18:01.0", "0000:29:00.0", "0000:2a:00.0")),
            "PXB",
        ),
        (place(path=(*SWITCH, "0000:18:00.0", "0000:19:00.0", "0000:1a:00.0")), place(path=(*SWITCH, "0000:18:01.0")), "PXB"),
        # Two root ports of one host bridge, or a machine that does not say.
        (place(path=("0000:16:01.0",)), place(path=("0000:16:03.0",)), "PHB"),
        (place(), place(), "PHB"),
        (place(), place(root="pci0000:97"), "NODE"),
        (place(), place(root="pci0000:97", numa=1), "SYS"),
        (place(root=None), place(root=None), "NODE"),
        (place(root=None, numa=None), place(root=None, numa=None), "SYS"),
    ],
)  # fmt: skip
def test_connection(first: Place, second: Place, word: str) -> None:
    assert connection(first, second) == word
    assert connection(second, first) == word
