"""How the controller starts where something is wrong, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.component.controllers import ROOT, Running, eventually


def started(folder: Path, *arguments: str, without: str = "") -> Running:
    """A controller with settings that are right, except those given."""
    classes = folder / "classes.yaml"
    if not classes.exists():
        classes.write_text("[{name: a, type: gpu, driver: gpu.nvidia.com}]")
    kubeconfig = folder / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    content = {
        "clusters": [cluster],
        "contexts": [context],
        "users": [{"name": "u", "user": {}}],
        "current-context": "c",
    }
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **content}))
    given = {
        "namespace": "n",
        "release": "r",
        "identity": "me",
        "http-address": "127.0.0.1:0",
        "kubeconfig": kubeconfig,
    }
    flags = [f"--{name}={value}" for name, value in given.items() if name != without]
    command = [sys.executable, "-m", "controller", *flags, f"--device-classes={classes}", *arguments]
    log = folder / "log"
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("GPU_DRA_", "KUBERNETES_"))}
    with log.open("wb") as output:
        return Running(subprocess.Popen(command, cwd=ROOT, env=environ, stdout=output, stderr=subprocess.STDOUT), log)


def test_a_broken_values_file_is_told_in_sentences(tmp_path: Path) -> None:
    (tmp_path / "classes.yaml").write_text("[{name: A, type: tpu, driver: d}]")
    controller = started(tmp_path, "--log-level=loud")
    assert controller.process.wait(30) == 2
    file = tmp_path / "classes.yaml"
    sentences = [
        f"{file}: deviceClasses[0].name is 'A', and a DNS name is wanted: lower-case letters, digits, - and .",
        f"{file}: deviceClasses[0].type is 'tpu', and one of gpu, mig, nic is wanted",
        "--log-level='loud': this must be one of debug, info, warning, error",
    ]
    assert controller.log.read_text().splitlines() == [f"gpu-dra-controller: {sentence}" for sentence in sentences]


def test_outside_a_cluster_it_asks_for_a_kubeconfig(tmp_path: Path) -> None:
    controller = started(tmp_path, without="kubeconfig")
    assert controller.process.wait(30) == 1
    assert controller.lines("--kubeconfig FILE")


def test_a_kubeconfig_that_is_not_there_is_told(tmp_path: Path) -> None:
    controller = started(tmp_path, f"--kubeconfig={tmp_path / 'nothing'}")
    assert controller.process.wait(30) == 2
    assert controller.lines(str(tmp_path / "nothing"))


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        controller = started(tmp_path, f"--http-address=127.0.0.1:{port}")
        assert controller.process.wait(30) == 1
    assert controller.lines(f"cannot listen on 127.0.0.1:{port}")


@pytest.mark.parametrize("election", ["--leader-elect", "--no-leader-elect"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_waits_for_an_api_server_that_is_away_and_stops_when_told(
    tmp_path: Path, election: str, number: signal.Signals
) -> None:
    controller = started(tmp_path, election)
    try:
        await eventually(lambda: controller.lines("the API server is out of reach"), "the log says what it waits for")
        status, reason = controller.get("/readyz")
        assert status == 503
        assert "API server" in reason
        assert controller.get("/healthz") == (200, "ok\n")
        controller.process.send_signal(number)
        assert controller.process.wait(30) == 0
        assert controller.lines("stopped")
    finally:
        controller.kill()
