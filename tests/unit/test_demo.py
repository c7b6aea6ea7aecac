"""The demo in this process: what it tells, and what it says to wrong input."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from node_agent.demo import example, machine
from node_agent.demo.__main__ import main


def test_the_story_of_two_meshes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    words = " ".join(shown.out.split())
    assert "8 GPUs in 2 NVLink meshes (4 in mesh-0, 4 in mesh-1)" in words
    assert "/dev/nvidia0 (1 of mesh-0)" in words
    assert "(3 of mesh-0, 1 of mesh-1). NVLink joins 3 of 6 pairs." in words
    assert "(4 of mesh-1). NVLink joins 6 of 6 pairs." in words
    for minor in (4, 5, 6, 7):
        assert f"/dev/nvidia{minor} character device 195, {minor}" in words
    assert "/dev/nvidia1 character device" not in words
    assert "NVIDIA_VISIBLE_DEVICES=void" in words
    assert "0 CDI files, 0 state files, 0 reservations" in words
    assert max(len(line) for line in shown.out.splitlines()) <= 100


def test_a_second_run_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    main(["one-gpu"])
    first = capsys.readouterr().out
    main(["one-gpu"])
    assert capsys.readouterr().out == first


def test_a_shared_claim_is_answered_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shared-by-pods"]) == 0
    assert "It is allocated already: /dev/nvidia0" in " ".join(capsys.readouterr().out.split())


def test_what_does_not_fit_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["one-mesh", "--profile", "l40s-4"]) == 1
    err = capsys.readouterr().err
    assert "one-mesh.yaml does not fit the node: pod one-mesh would stay Pending" in err
    assert "free are 1 in mesh-0, 1 in mesh-1, 1 in mesh-2, 1 in mesh-3" in err


POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c, image: busybox}]
  resourceClaims: [{name: gpu, %s}]
"""
CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec: {devices: {requests: [{name: r, exactly: {%s}}]}}
---
"""
USES = POD % "resourceClaimName: c"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "this is no YAML"),
        ("just words", "object 1: is not a Kubernetes object"),
        ("apiVersion: apps/v1\nkind: Deployment", "is a Deployment of apps/v1"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}", "is no valid Pod: the field 'spec' is missing"),
        (CLAIM % "deviceClassName: gpu.nvidia.com", "holds no Pod"),
        (POD % "resourceClaimTemplateName: t", "names the template t, which is not in the file"),
        (POD % "resourceClaimName: t", "names the claim t, which is not in the file"),
        (CLAIM % "count: 1" + USES, "is no valid ResourceClaim: the field 'deviceClassName' is missing"),
        (CLAIM % "deviceClassName: other" + USES, "there is no DeviceClass other"),
        (
            CLAIM % "deviceClassName: gpu.nvidia.com, selectors: [{cel: {expression: 'device.drivr == 1'}}]" + USES,
            "claim default/c, request r: .*undefined field 'drivr'",
        ),
    ],
)
def test_a_wrong_file_is_told_in_a_sentence(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    assert main([str(file)]) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert len(err.splitlines()) == 1
    assert re.search(words, err), err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["nope"], "choose one of all-gpus, cel-selector"),
        (["/nowhere/x.yaml"], "cannot be read"),
        (["--profile", "nope"], "choose one of dgx-h100, l40s-4, split-4x4"),
    ],
)
def test_a_wrong_name_lists_the_right_ones(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert words in capsys.readouterr().err


def test_without_the_cel_engine_it_says_what_to_install() -> None:
    """In a process of its own, as what is imported once stays."""
    program = "import sys; sys.modules['celpy'] = None; from node_agent.demo.__main__ import main; sys.exit(main([]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "The demo needs the package that provides celpy: install gpu-dra with the extra `demo`.\n"


async def test_nothing_is_left_in_the_folders(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("d")
    async with machine.start("split-4x4", folder) as node:
        loaded = example.load("one-gpu", machine.CLASSES)
        got = node.claims.schedule(list(loaded.claims.values()), node.published)
        assert isinstance(got, list)
        driver = node.drivers["gpu.nvidia.com"]
        await driver.plugin.prepare(got)
        assert driver.leftovers() == {"CDI files": 1, "state files": 1, "reservations": 1}
        await driver.plugin.unprepare(got)
        assert driver.leftovers() == {"CDI files": 0, "state files": 0, "reservations": 0}
    assert not list(folder.rglob("*.sock"))
