"""CRDs: the chart's copies are those of crds/, and stay when the release goes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from gpu_dra.api import JsonObject
from tests import chart
from tests.chart import CHART
from tests.unit.chart.scripts import load

sync = load("sync")

CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.gpu-dra.io
  annotations: {"note": "kept"}
spec:
  group: gpu-dra.io
"""


def test_the_copies_are_fresh() -> None:
    assert sync.differences() == {}, "run: python3 charts/sync.py"


def test_sync_copies_changes_and_removes_what_has_no_source(tmp_path: Path) -> None:
    source, copies = tmp_path / "crds", tmp_path / "copies"
    source.mkdir()
    copies.mkdir()
    (source / "new.yaml").write_text("a")
    (source / "changed.yaml").write_text("b")
    (copies / "changed.yaml").write_text("old")
    (copies / "gone.yaml").write_text("c")
    assert sync.sync(source, copies) == ["changed.yaml", "gone.yaml", "new.yaml"]
    assert {path.name: path.read_text() for path in copies.iterdir()} == {"changed.yaml": "b", "new.yaml": "a"}
    assert sync.differences(source, copies) == {}


@pytest.fixture
def with_crd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the chart that holds a CRD: there is none yet."""
    copy = tmp_path / "gpu-dra"
    shutil.copytree(CHART, copy)
    (copy / "files" / "crds" / "things.yaml").write_text(CRD)
    monkeypatch.setattr(chart, "CHART", copy)


def crds(objects: list[JsonObject]) -> list[JsonObject]:
    return [obj for obj in objects if obj["kind"] == "CustomResourceDefinition"]


@pytest.mark.usefixtures("with_crd")
def test_a_crd_is_installed_and_kept() -> None:
    (crd,) = crds(chart.render())
    assert crd["metadata"]["annotations"] == {"note": "kept", "helm.sh/resource-policy": "keep"}
    assert crd["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
    assert crd["spec"] == yaml.safe_load(CRD)["spec"]


@pytest.mark.usefixtures("with_crd")
def test_a_crd_may_be_left_out_or_be_deleted_with_the_release() -> None:
    (crd,) = crds(chart.render({"crds.keep": False}))
    assert crd["metadata"]["annotations"] == {"note": "kept"}
    assert crds(chart.render({"crds.enabled": False})) == []
