"""What the commands print, from a pasted table or from GpuNodes as values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from gpu_dra.gpu_node import GpuEntry, GpuNode
from kubectl_gpu import __main__ as program
from kubectl_gpu import status, svg, tree
from tests.unit.gpu_dra.test_gpu_node import NODE

FOLDER = Path(__file__).parents[2] / "data/topologies"
SPLIT = str(FOLDER / "two-mesh-4x4-synthetic.paste.txt")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert program.main(words) == 0
    return capsys.readouterr().out


def test_a_pasted_table_shows_its_split(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "topology", "--file", SPLIT)
    assert "2 meshes: mesh-0 = GPU 0-3, mesh-1 = GPU 4-7" in text
    assert "\x1b[" not in text
    assert "\x1b[" in printed(capsys, "topology", "--file", SPLIT, "--color", "always")


@pytest.mark.parametrize(("form", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_documents_list_meshes_as_numbers(
    capsys: pytest.CaptureFixture[str], form: str, load: Callable[[str], Any]
) -> None:
    data = load(printed(capsys, "topology", "--file", SPLIT, "-o", form))
    assert data["meshes"] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert data["links"][0][:5] == ["X", "NV6", "NV6", "NV6", "SYS"]
    assert len(data["gpus"]) == len(data["nics"]) == 8


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.raw.txt")), ids=lambda path: str(path.name))
def test_each_drawing_is_well_formed_and_names_every_gpu(capsys: pytest.CaptureFixture[str], path: Path) -> None:
    drawing = ET.fromstring(printed(capsys, "topology", "--file", str(path), "-o", "svg"))
    words = " ".join(text for text in drawing.itertext() if text)
    count = len(json.loads(printed(capsys, "topology", "--file", str(path), "-o", "json"))["gpus"])
    assert all(f"GPU {number}" in words for number in range(count))


def test_a_drawing_escapes_what_it_is_told() -> None:
    evil = GpuNode(
        "<script>&", (GpuEntry(0, "u", "0000:01:00.0", '"<b>', health="<i>", mesh="mesh-0", claims=("a/<u>",)),)
    )
    ET.fromstring(svg.drawing(evil))


def test_a_node_is_shown_with_claims_and_health() -> None:
    text = "\n".join([*tree.lines(NODE), *tree.meshes(NODE)])
    assert "lost" in text
    assert "a/b" in text
    assert "2 meshes: mesh-0 = GPU 0, mesh-1 = GPU 1,3" in text.replace("and ", "")


def test_the_fleet_is_a_table() -> None:
    text = "\n".join(status.lines([NODE, GpuNode("n2", reason="the NVIDIA kernel driver is not loaded")], wide=True))
    assert "n1" in text
    assert "1+2" in text
    assert "the NVIDIA kernel driver is not loaded" in text
    assert "GPU 0000:5a:00.0 is left out: silent" in text


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["topology", "--file", "/nowhere/topo.txt"], 2, "it cannot be read: No such file or directory"),
        (["topology", "--file", "/dev/zero"], 2, "too large"),
        (["topology", "--file", str(FOLDER / "facts.json")], 2, "nvidia-smi topo -m"),
        (["status", "--kubeconfig", "/nowhere/config"], 2, "kubeconfig"),
    ],
)
def test_failures_are_sentences(capsys: pytest.CaptureFixture[str], words: list[str], code: int, sentence: str) -> None:
    assert program.main(words) == code
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    "words", [[], ["nonsense"], ["topology"], ["topology", "n1", "--file", "x"], ["status", "-o", "svg"]]
)
def test_wrong_words_are_told(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(words)
    assert ended.value.code == 2
    assert capsys.readouterr().err
