"""Fixtures of the contract tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.places import Folders, Memory, Place


@pytest.fixture(params=["files", "fake"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Folders(tmp_path) if request.param == "files" else Memory()
