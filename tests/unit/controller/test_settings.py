"""What the controller is told: defaults, twins, and all mistakes at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller import settings
from controller.device_classes import Release
from gpu_dra.errors import InputError
from gpu_dra.settings import Address


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "classes.yaml"
    path.write_text("[]")
    return path


def test_defaults(file: Path) -> None:
    given = settings.parse(["--namespace=n", "--release=r", "--identity=me", f"--device-classes={file}"], {})
    assert given == settings.Settings(
        release=Release("n", "r"),
        identity="me",
        owner_cluster_role=None,
        classes=(),
        leader_elect=False,
        lease_name="gpu-dra-controller",
        http_address=Address("", 8080),
        log_level="info",
        log_format="text",
        kubeconfig=None,
    )


def test_every_flag_has_a_twin(file: Path) -> None:
    environ = {
        "GPU_DRA_NAMESPACE": "n",
        "GPU_DRA_RELEASE": "r",
        "GPU_DRA_IDENTITY": "me",
        "GPU_DRA_OWNER_CLUSTER_ROLE": "n:r",
        "GPU_DRA_DEVICE_CLASSES": str(file),
        "GPU_DRA_LEADER_ELECT": "true",
        "GPU_DRA_LEASE_NAME": "lease",
        "GPU_DRA_HTTP_ADDRESS": "[::1]:9",
        "GPU_DRA_LOG_LEVEL": "debug",
        "GPU_DRA_LOG_FORMAT": "json",
        "GPU_DRA_KUBECONFIG": "config",
    }
    given = settings.parse([], environ)
    assert (given.leader_elect, given.lease_name, given.http_address) == (True, "lease", Address("::1", 9))
    assert (given.log_level, given.log_format, given.owner_cluster_role) == ("debug", "json", "n:r")
    assert given.kubeconfig == Path("config")
    assert settings.parse(["--no-leader-elect"], environ).leader_elect is False


def test_all_mistakes_at_once_those_of_the_file_included(file: Path) -> None:
    file.write_text("[{name: a, type: tpu, driver: d}]")
    arguments = ["--release=R", f"--device-classes={file}", "--http-address=8080", "--log-level=loud"]
    with pytest.raises(InputError) as caught:
        settings.parse(arguments, {})
    told = "\n".join(caught.value.problems)
    for part in (
        "--namespace",
        "--release='R'",
        "--identity",
        "deviceClasses[0].type",
        "--http-address='8080'",
        "--log-level",
    ):
        assert part in told
    assert len(caught.value.problems) == 6


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    arguments = ["--namespace=n", "--release=r", "--identity=me", f"--device-classes={tmp_path / 'none.yaml'}"]
    with pytest.raises(InputError, match=r"none\.yaml': this file cannot be read: No such file or directory"):
        settings.parse(arguments, {})
