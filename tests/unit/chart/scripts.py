"""The scripts beside the chart, which are no package, as modules."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from tests.chart import CHART


def load(name: str) -> ModuleType:
    """charts/NAME.py."""
    spec = importlib.util.spec_from_file_location(f"charts_{name}", CHART.parent / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclasses look their module up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
