"""Fixtures of the contract tests; the API server is the one of the component tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.component.conftest import api_server
from tests.contracts.places import Folders, Memory, Place

__all__ = ["api_server", "place"]


@pytest.fixture(params=["files", "fake"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Folders(tmp_path) if request.param == "files" else Memory()
