"""The commands as they are called: what is printed, exit codes, and that no failure is more than a sentence."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import gpu_dra
from gpu_dra import gpu_node
from gpu_dra.gpu_node import GpuNode
from kubectl_gpu.__main__ import main
from tests.unit.kubectl_gpu import api_server
from tests.unit.kubectl_gpu.api_server import PATH, ApiServer
from tests.unit.kubectl_gpu.nodes import TOPOLOGIES, split

TABLE = TOPOLOGIES / "two-mesh-4x4-synthetic.raw.txt"


@pytest.fixture(autouse=True)
def no_other_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HTTP_PROXY", "http_proxy", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with api_server.running() as server:
        server.serve(gpu_node.encode(split(), None), gpu_node.encode(GpuNode("gpu-b"), None))
        yield server


@pytest.fixture
def kubeconfig(api: ApiServer, tmp_path: Path) -> str:
    return str(api.kubeconfig(tmp_path))


def failure(words: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


def test_status(kubeconfig: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--kubeconfig", kubeconfig]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["NODE", "gpu-a", "GPU", "NIC", "gpu-b", "2"]


def test_status_of_some_nodes_in_the_order_asked(kubeconfig: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--kubeconfig", kubeconfig, "status", "gpu-b", "gpu-a", "gpu-b", "-o", "json"]) == 0
    assert [node["name"] for node in json.loads(capsys.readouterr().out)["nodes"]] == ["gpu-b", "gpu-a"]


def test_topology_of_a_node(kubeconfig: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "gpu-a", "--kubeconfig", kubeconfig, "--context", "here"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("gpu-a: 8 GPUs H100-SXM5-80GB, 8 NICs, driver 580.105.08\n\n        GPU0  GPU1")
    assert text.endswith("\n\n2 meshes: mesh-0 = GPU 0-3, mesh-1 = GPU 4-6\n")
    assert "\x1b" not in text


def test_a_large_fleet_comes_in_pages(api: ApiServer, kubeconfig: str, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = (gpu_node.encode(GpuNode(name), None) for name in ("z", "a"))
    api.answers[PATH] = {"items": [one], "metadata": {"continue": "more"}}
    api.answers[f"{PATH}#more"] = {"items": [two], "metadata": {}}
    assert main(["status", "--kubeconfig", kubeconfig, "-o", "json"]) == 0
    assert [node["name"] for node in json.loads(capsys.readouterr().out)["nodes"]] == ["a", "z"]


def test_a_node_that_is_not_there(kubeconfig: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = failure(["topology", "gpu-x", "--kubeconfig", kubeconfig], 2, capsys)
    assert "no GpuNode is named gpu-x; known are gpu-a, gpu-b" in said


def test_a_fleet_without_agents(api: ApiServer, kubeconfig: str, capsys: pytest.CaptureFixture[str]) -> None:
    api.answers[PATH] = {"items": [], "metadata": {}}
    said = failure(["status", "gpu-x", "--kubeconfig", kubeconfig], 2, capsys)
    assert "there is none at all; does the node agent run?" in said


@pytest.mark.parametrize("words", [["status"], ["topology", "gpu-a"]])
@pytest.mark.parametrize(
    ("answer", "code", "wanted"),
    [
        (404, 2, "the CRD gpunodes.gpu-dra.io is not installed; install the chart gpu-dra"),
        (403, 2, "you may not read gpunodes.gpu-dra.io; ask for a ClusterRole with the verbs get and list"),
        (401, 2, "the credentials of the kubeconfig are not accepted; log in again"),
        (500, 1, "answered 500"),
        (b"<html>a login page</html>", 1, "did not answer as an API server does"),
        (b'"text"', 1, "did not answer as an API server does"),
        (b"\xff{", 1, "did not answer as an API server does"),
    ],
)
def test_what_an_api_server_may_answer(
    words: list[str],
    answer: Any,
    code: int,
    wanted: str,
    api: ApiServer,
    kubeconfig: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    api.answers = {PATH: answer, f"{PATH}/gpu-a": answer}
    assert wanted in failure([*words, "--kubeconfig", kubeconfig], code, capsys)


def test_an_object_of_another_version(api: ApiServer, kubeconfig: str, capsys: pytest.CaptureFixture[str]) -> None:
    api.serve({"metadata": {"name": "gpu-a"}, "status": {"gpus": [{"number": 1}]}})
    assert "gpunode gpu-a: its status cannot be read" in failure(["status", "--kubeconfig", kubeconfig], 2, capsys)


def test_links_that_do_not_fit_the_devices_are_left_out(
    api: ApiServer, kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    obj = gpu_node.encode(split(), None)
    obj["status"]["links"] = ["X NV6", "NV6"]
    api.serve(obj)
    for form in ("text", "json", "svg"):
        assert main(["topology", "gpu-a", "--kubeconfig", kubeconfig, "-o", form]) == 0
    assert "The agent of this node tells no links." in capsys.readouterr().out


def test_no_cluster_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = str(ApiServer(address="http://127.0.0.1:1").kubeconfig(tmp_path))
    said = failure(["status", "--kubeconfig", gone], 1, capsys)
    assert "the API server http://127.0.0.1:1 cannot be reached" in said
    assert "Connection refused" in said
    assert "object at 0x" not in said


@pytest.mark.parametrize(
    "content", ["", "a: [", "5", "contexts: 5", "clusters: []\ncontexts: []\nusers: []\ncurrent-context: x", "\x00"]
)
def test_a_kubeconfig_that_is_none(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    assert str(path) in failure(["status", "--kubeconfig", str(path)], 2, capsys)


def test_no_kubeconfig_and_a_context_that_is_not_there(kubeconfig: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no such file" in failure(["status", "--kubeconfig", "/nowhere"], 2, capsys)
    assert "other" in failure(["status", "--kubeconfig", kubeconfig, "--context", "other"], 2, capsys)


def test_a_pasted_table_needs_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "--file", str(TABLE)]) == 0
    assert capsys.readouterr().out.endswith("2 meshes: mesh-0 = GPU 0-3, mesh-1 = GPU 4-7\n")
    assert main(["topology", "--file", str(TABLE), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["meshes"] == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_stdin(encoding: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(TABLE.read_text().encode(encoding))))
    assert main(["topology", "--file", "-", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["node"] == "stdin"


def test_files_that_are_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(bytes(range(256)) * 20)
    for file, wanted in (
        ("/nowhere.txt", "/nowhere.txt: it cannot be read: No such file"),
        (str(tmp_path), "it cannot be read: Is a directory"),
        ("a\0b", "it cannot be read"),
        (str(binary), "no line with the columns GPU0"),
        ("/dev/zero", "it is far too large"),
        ("/dev/null", "no line with the columns GPU0"),
    ):
        assert wanted in failure(["topology", "--file", file], 2, capsys)


def test_colours(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def coloured(*words: str) -> bool:
        assert main(["topology", "--file", str(TABLE), *words]) == 0
        return "\x1b[32mNV6\x1b[0m" in capsys.readouterr().out

    assert coloured("--color", "always")
    assert not coloured()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert coloured()
    assert not coloured("--color", "never")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not coloured()
    assert coloured("--color", "always")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["topology"], "kubectl gpu topology: which node? give NODE, or --file FILE"),
        (["topology", "a", "--file", "b"], "NODE and --file were both given"),
        (["topology", "--file", ""], "--file is empty"),
        (["topology", "a", "-o", "png"], "invalid choice: 'png'"),
        (["topology", "a", "--color", "red"], "invalid choice: 'red'"),
        (["status", "--contex", "x"], "unrecognized arguments: --contex"),
        (["stat"], "invalid choice: 'stat'"),
        (["--kubeconfig", "x"], "required: COMMAND"),
    ],
)
def test_wrong_words(words: list[str], wanted: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert wanted in said
    assert said.count("\n") == 1


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["version"], ["--version"]):
        with pytest.raises(SystemExit, match="0"):
            main(words)
        assert capsys.readouterr().out == f"kubectl-gpu {gpu_dra.__version__}\n"
    for words in (["--help"], ["help"], ["help", "topology"], ["topology", "-h"], ["status", "-h"]):
        with pytest.raises(SystemExit, match="0"):
            main(words)
        assert capsys.readouterr().out.startswith("usage: kubectl gpu")
    with pytest.raises(SystemExit, match="2"):
        main([])
    assert "status" in capsys.readouterr().err


def test_a_reader_that_has_enough_and_a_terminal_without_letters() -> None:
    program = [sys.executable, "-m", "kubectl_gpu", "topology", "--file", str(TABLE)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0
    done = subprocess.run(
        [*program, "-o", "svg"], env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=True, capture_output=True
    )
    assert done.stdout.isascii()
