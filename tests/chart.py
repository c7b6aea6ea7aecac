"""Render the chart with the real helm of the program cache."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gpu_dra.api import JsonObject
from tests.e2e.cluster import programs
from tests.needs import need

CHART = Path(__file__).resolve().parent.parent / "charts" / "gpu-dra"


class HelmError(Exception):
    """Helm refused; the text is what it wrote."""


def helm(*arguments: str) -> str:
    """Run helm and return what it printed; skips where helm is not built."""
    need(programs.HELM.built, "helm is not built; run: python -m tests.e2e.cluster.programs")
    program = programs.HELM.bin_dir / "helm"
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise HelmError(done.stderr + done.stdout)
    return done.stdout


def render_text(
    values: Mapping[str, Any] | None = None,
    *,
    release: str = "gpu-dra",
    namespace: str = "gpu-dra",
    kube_version: str = programs.DEFAULT_VERSION,
    more: Sequence[str] = (),
) -> str:
    """`helm template` with these values on top of the defaults."""
    command = ["template", release, str(CHART), "--namespace", namespace, "--kube-version", kube_version, *more]
    for key, value in (values or {}).items():
        command += ["--set-json", f"{key}={json.dumps(value)}"]
    return helm(*command)


def render(values: Mapping[str, Any] | None = None, **options: Any) -> list[JsonObject]:
    """The objects that an install with these values would make."""
    return [obj for obj in yaml.safe_load_all(render_text(values, **options)) if obj]


def one(objects: Sequence[JsonObject], kind: str, suffix: str = "") -> JsonObject:
    """The only object of a kind whose name ends so."""
    found = [obj for obj in objects if obj["kind"] == kind and obj["metadata"]["name"].endswith(suffix)]
    assert len(found) == 1, f"{len(found)} objects are a {kind} named *{suffix}"
    return found[0]
