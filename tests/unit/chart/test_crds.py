"""CRDs: the chart's copies are those of crds/, and stay when the release goes."""

from __future__ import annotations

import shutil
from pathlib import Path

import jsonschema
import pytest
import yaml

from gpu_dra import gpu_node
from gpu_dra.api import JsonObject
from tests import chart
from tests.chart import CHART
from tests.unit.chart.scripts import load
from tests.unit.gpu_dra import test_gpu_node

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
    """A copy of the chart that holds a CRD more."""
    copy = tmp_path / "gpu-dra"
    shutil.copytree(CHART, copy)
    (copy / "files" / "crds" / "things.yaml").write_text(CRD)
    monkeypatch.setattr(chart, "CHART", copy)


def crds(objects: list[JsonObject]) -> list[JsonObject]:
    return [obj for obj in objects if obj["kind"] == "CustomResourceDefinition"]


def things(objects: list[JsonObject]) -> JsonObject:
    return next(crd for crd in crds(objects) if crd["metadata"]["name"] == "things.gpu-dra.io")


@pytest.mark.usefixtures("with_crd")
def test_a_crd_is_installed_and_kept() -> None:
    crd = things(chart.render())
    assert crd["metadata"]["annotations"] == {"note": "kept", "helm.sh/resource-policy": "keep"}
    assert crd["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
    assert crd["spec"] == yaml.safe_load(CRD)["spec"]


@pytest.mark.usefixtures("with_crd")
def test_a_crd_may_be_left_out_or_be_deleted_with_the_release() -> None:
    crd = things(chart.render({"crds.keep": False}))
    assert crd["metadata"]["annotations"] == {"note": "kept"}
    assert crds(chart.render({"crds.enabled": False})) == []


def undeclared(value: object, schema: JsonObject, path: str = "") -> list[str]:
    """What the API server would prune: it keeps only what the schema names."""
    if isinstance(value, dict):
        known = schema.get("properties", {})
        return [
            problem
            for key, inner in value.items()
            for problem in ([f"{path}.{key}"] if key not in known else undeclared(inner, known[key], f"{path}.{key}"))
        ]
    if isinstance(value, list):
        return [problem for inner in value for problem in undeclared(inner, schema["items"], f"{path}[]")]
    return []


def test_the_schema_of_gpu_nodes_has_all_that_is_written() -> None:
    crd = yaml.safe_load((sync.SOURCE / "gpunodes.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    status = gpu_node.status(test_gpu_node.NODE)
    assert undeclared({"status": status}, schema) == []
    jsonschema.validate({"status": status}, schema)
    assert undeclared({"status": {"new": 1}}, schema) == [".status.new"]
    columns = [column["jsonPath"] for column in crd["spec"]["versions"][0]["additionalPrinterColumns"]]
    assert [path.split(".")[-1] for path in columns if ".summary." in path] == [
        "gpus", "free", "unhealthy", "model", "meshes", "nics",
    ]  # fmt: skip
