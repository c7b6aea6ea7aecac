"""The drawing: well formed, nothing outside or on top of another, every device once."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from xml.etree import ElementTree as ET

import pytest

from gpu_dra.gpu_node import GpuNode
from gpu_dra.pcie import Place
from kubectl_gpu import svg
from tests.unit.kubectl_gpu.nodes import TOPOLOGIES, large, pasted, split

SVG = "{http://www.w3.org/2000/svg}"
NAMES = sorted(path.name.removesuffix(".raw.txt") for path in TOPOLOGIES.glob("*.raw.txt"))
NODES = {**{name: pasted(name) for name in NAMES}, "split": split(), "large": large(100), "none": GpuNode("none")}


def tiles(root: ET.Element) -> list[tuple[int, int, int, int]]:
    """The edges of the GPUs' and NICs' boxes."""
    rects = [group.find(f"{SVG}rect") for group in root.iter(f"{SVG}g") if group.find(f"{SVG}title") is not None]
    return [
        (x := int(rect.attrib["x"]), y := int(rect.attrib["y"]), x + int(rect.attrib["width"]), y + int(rect.attrib["height"]))
        for rect in rects
        if rect is not None
    ]  # fmt: skip


@pytest.mark.parametrize("name", NODES)
def test_every_device_is_drawn_once_and_inside(name: str) -> None:
    node = NODES[name]
    root = ET.fromstring(svg.drawing(node))
    drawn = tiles(root)
    assert len(drawn) == len(node.gpus) + len(node.nics)
    for a, b in combinations(drawn, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], "two devices overlap"
    width, height = int(root.attrib["width"]), int(root.attrib["height"])
    for rect in root.iter(f"{SVG}rect"):
        assert int(rect.attrib.get("x", 0)) + int(rect.attrib["width"]) <= width
        assert int(rect.attrib.get("y", 0)) + int(rect.attrib["height"]) <= height
    assert not list(root.iter(f"{SVG}script"))
    shown = [element.text for element in root.iter(f"{SVG}text")]
    assert all(f"GPU {gpu.index}" in shown for gpu in node.gpus)
    assert width <= 1700


def test_the_split_is_seen() -> None:
    text = svg.drawing(split())
    assert ">mesh-0: GPU 0-3, NV6<" in text
    assert ">mesh-1: GPU 4-6, NV6<" in text
    assert text.count('fill-opacity="0.13"') == 2
    assert "! lost" in text


def test_gpus_without_nvlink_have_no_bar() -> None:
    assert "mesh-0:" not in svg.drawing(pasted("l40s-4"))


def test_mixed_meshes_have_bars_in_lanes_and_no_region() -> None:
    node = pasted("two-mesh-4x4-synthetic")
    mixed = replace(
        node,
        gpus=tuple(replace(gpu, mesh=f"mesh-{gpu.index % 2}", place=Place("pci0", 0)) for gpu in node.gpus),
        links=(),
    )
    text = svg.drawing(mixed)
    assert "fill-opacity" not in text
    assert ">mesh-1: GPU 1,3,5,7<" in text


def test_text_is_escaped() -> None:
    node = split()
    bad = '<script>alert("&")</script>\x00\x1b'
    gpus = (replace(node.gpus[0], model=bad, health=bad, mesh=bad, claims=(bad,), place=Place(bad, 0)), *node.gpus[1:])
    root = ET.fromstring(svg.drawing(replace(node, name=bad, gpus=gpus)))
    assert not list(root.iter(f"{SVG}script"))
