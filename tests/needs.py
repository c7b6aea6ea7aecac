"""Skip what this machine lacks, by name; where CI=true nothing may be left out, so there it is a failure."""

from __future__ import annotations

import os

import pytest


def need(there: bool, otherwise: str) -> None:
    """Go on if it is there; `otherwise` says what is missing and how to get it."""
    if there:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true and {otherwise}")
    pytest.skip(otherwise)
