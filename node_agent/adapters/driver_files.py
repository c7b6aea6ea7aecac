"""Where the NVIDIA driver's files are, below the root that holds them: the host's, or a driver container's."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Final

NVML: Final = "libnvidia-ml.so.1"
_FOLDERS: Final = ("usr/lib64", "usr/lib/{machine}-linux-gnu", "lib64", "lib/{machine}-linux-gnu", "usr/lib", "lib")


def library(root: Path, name: str = NVML) -> Path | None:
    """The path of a library, in the folders of the usual distributions; None where it is in none of them."""
    for folder in _FOLDERS:
        path = root / folder.format(machine=platform.machine()) / name
        if path.exists():
            return path
    return None
