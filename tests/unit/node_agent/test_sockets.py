from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from gpu_dra.errors import HostError
from node_agent.sockets import MAX_PATH, Sockets


def test_names_carry_the_pods_uid_and_long_ones_a_hash_that_stays() -> None:
    root = PurePosixPath("/var/lib/kubelet")
    plain = Sockets.of(root, "gpu.nvidia.com", "u1")
    assert str(plain.registration) == "/var/lib/kubelet/plugins_registry/gpu.nvidia.com-u1-reg.sock"
    long = Sockets.of(root, "gpu.nvidia.com", "u" * 90)
    assert long == Sockets.of(root, "gpu.nvidia.com", "u" * 90) != Sockets.of(root, "gpu.nvidia.com", "u" * 91)
    assert max(len(str(path)) for path in (long.dra, long.registration)) <= MAX_PATH


def test_a_root_that_is_too_long_for_any_socket_is_told() -> None:
    with pytest.raises(HostError, match="--kubelet-root"):
        Sockets.of(PurePosixPath("/" + "x" * 100), "gpu.nvidia.com", "u1")
