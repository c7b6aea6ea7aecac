"""Where the sockets of one driver lie. Pure.

Named by the pod's uid, so that the old and the new agent of a rolling update can serve side by side.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from gpu_dra.errors import HostError

MAX_PATH: Final = 107
"""Bytes of a unix socket's path (sun_path is 108 with the closing zero)."""
_REGISTRATION: Final = "-reg.sock"


@dataclass(frozen=True, slots=True)
class Sockets:
    """The folder of a driver's state and its two sockets: `dra` for claims, `registration` for the kubelet to find it."""

    state: PurePosixPath
    dra: PurePosixPath
    registration: PurePosixPath

    @classmethod
    def of(cls, kubelet_root: PurePosixPath, driver: str, pod_uid: str) -> Sockets:
        """The sockets below a kubelet's root folder. HostError where its path alone is too long for any socket."""
        state = kubelet_root / "plugins" / driver
        return cls(
            state,
            _fitting(state, f"dra-{pod_uid}.sock", f"dra-{_short(pod_uid)}.sock"),
            _fitting(
                kubelet_root / "plugins_registry",
                f"{driver}-{pod_uid}{_REGISTRATION}",
                f"{_short(driver)}-{_short(pod_uid)}{_REGISTRATION}",
            ),
        )


def is_ours(driver: str, name: str) -> bool:
    """Whether a file of this name is a socket of some agent of ours, this pod's or another's."""
    if name.endswith(_REGISTRATION):
        return name.startswith((f"{driver}-", f"{_short(driver)}-"))
    return name.startswith("dra-") and name.endswith(".sock")


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _fitting(folder: PurePosixPath, name: str, short: str) -> PurePosixPath:
    for candidate in (name, short):
        if len(str(folder / candidate).encode()) <= MAX_PATH:
            return folder / candidate
    raise HostError(
        f"the path {folder} is too long: a socket below it would have more than {MAX_PATH} bytes;"
        " the kubelet's root folder (--kubelet-root) has to be a shorter one"
    )
