"""Where the NVIDIA driver's libraries are looked for."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from node_agent.adapters import driver_files


@pytest.mark.parametrize("folder", ["usr/lib64", f"usr/lib/{platform.machine()}-linux-gnu", "usr/lib"])
def test_the_library_is_found_below_the_root(tmp_path: Path, folder: str) -> None:
    assert driver_files.library(tmp_path) is None
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / driver_files.NVML).touch()
    assert driver_files.library(tmp_path) == tmp_path / folder / driver_files.NVML
