"""What an agent is told: defaults, twins, and all mistakes at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_dra.errors import InputError
from gpu_dra.settings import Address
from node_agent import settings
from node_agent.settings import Settings

REQUIRED = ["--node-name=n1", "--pod-uid=u1"]
# Every flag with another value than its default, as the environment has it.
ENVIRON = {
    "GPU_DRA_NODE_NAME": "n2.example",
    "GPU_DRA_POD_UID": "0f6e3c1a-7d0c",
    "GPU_DRA_KUBELET_ROOT": "/data/kubelet",
    "GPU_DRA_CDI_ROOT": "/etc/cdi",
    "GPU_DRA_HOST_ROOT": "/host",
    "GPU_DRA_SIMULATE": "l40s-4",
    "GPU_DRA_SIMULATE_NODE": "n1=split-4x4,n3=./fleet.yaml",
    "GPU_DRA_GPU_DRIVER_NAME": "gpu.example.com",
    "GPU_DRA_NICS": "false",
    "GPU_DRA_HTTP_ADDRESS": "[::1]:9",
    "GPU_DRA_LOG_LEVEL": "debug",
    "GPU_DRA_LOG_FORMAT": "json",
    "GPU_DRA_KUBECONFIG": "config",
    "GPU_DRA_SERVICE_ACCOUNT_DIR": "/account",
}
TOLD = Settings(
    node_name="n2.example",
    pod_uid="0f6e3c1a-7d0c",
    kubelet_root=Path("/data/kubelet"),
    cdi_root=Path("/etc/cdi"),
    host_root=Path("/host"),
    simulate="l40s-4",
    gpu_driver_name="gpu.example.com",
    nics=False,
    http_address=Address("::1", 9),
    log_level="debug",
    log_format="json",
    kubeconfig=Path("config"),
    service_account=Path("/account"),
)


def problems(arguments: list[str], environ: dict[str, str] | None = None) -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        settings.read(arguments, environ or {})
    assert caught.value.where == "gpu-dra-node-agent"
    return caught.value.problems


def test_defaults() -> None:
    assert settings.read(REQUIRED, {}) == Settings(
        node_name="n1",
        pod_uid="u1",
        kubelet_root=Path("/var/lib/kubelet"),
        cdi_root=Path("/var/run/cdi"),
        host_root=Path("/"),
        simulate=None,
        gpu_driver_name="gpu.nvidia.com",
        nics=True,
        http_address=Address("", 8080),
        log_level="info",
        log_format="text",
        kubeconfig=None,
        service_account=Path("/var/run/secrets/kubernetes.io/serviceaccount"),
    )


def test_every_flag_has_a_twin() -> None:
    assert settings.read([], ENVIRON) == TOLD


def test_the_twin_is_the_flag_in_other_letters() -> None:
    flags = {name.removeprefix("GPU_DRA_").lower().replace("_", "-"): value for name, value in ENVIRON.items()}
    switches, repeated = {"nics"}, {"simulate-node"}
    arguments = ["--no-nics", "--simulate-node=n1=split-4x4", "--simulate-node", "n3=./fleet.yaml"]
    arguments += [f"--{name}={value}" for name, value in flags.items() if name not in switches | repeated]
    assert settings.read(arguments, {}) == TOLD


def test_a_flag_goes_before_its_twin_and_an_empty_twin_counts_as_not_set() -> None:
    given = settings.read(["--node-name=n1", "--nics"], ENVIRON | {"GPU_DRA_CDI_ROOT": "", "GPU_DRA_SIMULATE": ""})
    assert (given.node_name, given.nics, given.cdi_root) == ("n1", True, Path("/var/run/cdi"))
    assert given.simulate == "split-4x4"


@pytest.mark.parametrize(
    ("arguments", "profile"),
    [
        ([], None),
        (["--simulate=l40s-4"], "l40s-4"),
        (["--simulate-node=n1=dgx-h100"], "dgx-h100"),
        (["--simulate-node=n2=dgx-h100"], None),
        (["--simulate=l40s-4", "--simulate-node=n2=dgx-h100"], "l40s-4"),
        (["--simulate=l40s-4", "--simulate-node=n2=a", "--simulate-node=n1=/etc/a=b.yaml"], "/etc/a=b.yaml"),
    ],
)
def test_the_profile_of_this_node_goes_before_that_of_all(arguments: list[str], profile: str | None) -> None:
    assert settings.read([*REQUIRED, *arguments], {}).simulate == profile


def test_all_mistakes_at_once_and_each_names_where_it_stands() -> None:
    told = problems(
        [
            "--node-name=N1",
            "--cdi-root=cdi",
            "--http-address=8080",
            "--log-level=loud",
            "--simulate-node=n1",
            "--gpus=8",
        ],
        {"GPU_DRA_KUBELET_ROOT": "kubelet", "GPU_DRA_NICS": "perhaps", "GPU_DRA_LOG_FORMAT": "xml"},
    )
    starts = [
        "--gpus=8: there is no such flag",
        "--node-name='N1': this must be a DNS name",
        "--pod-uid (or GPU_DRA_POD_UID) is missing",
        "--cdi-root='cdi': this must be an absolute path",
        "--http-address='8080': this must be HOST:PORT",
        "--log-level='loud': this must be one of debug, info",
        "--simulate-node='n1': this must be NODE=PROFILE",
        "GPU_DRA_KUBELET_ROOT='kubelet': this must be an absolute path",
        "GPU_DRA_NICS='perhaps': this must be one of",
        "GPU_DRA_LOG_FORMAT='xml': this must be one of text, json",
    ]
    assert len(told) == len(starts)
    for start in starts:
        assert any(problem.startswith(start) for problem in told), start


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ("--node-name=", "must be a DNS name"),
        ("--node-name=n1/..", "must be a DNS name"),
        (f"--node-name={'n' * 254}", "must be a DNS name"),
        ("--pod-uid=../u", "must be a uid"),
        ("--pod-uid=---", "must be a uid"),
        (f"--pod-uid={'u' * 129}", "must be a uid"),
        ("--simulate= ", "must be a profile's name or a file"),
        ("--simulate-node=N1=l40s-4", "must be a DNS name"),
        ("--simulate-node=n1=", "must be NODE=PROFILE"),
        ("--gpu-driver-name=GPU", "must be a DNS name"),
        (f"--gpu-driver-name={'g' * 64}", "has at most 63 characters"),
        ("--gpu-driver-name=3.example.com", "must start with a letter"),
        ("--gpu-driver-name=nic.gpu-dra.io", "is the driver of the NICs"),
        ("--http-address=:65536", "must be HOST:PORT"),
        ("--http-address=::1:80", "must be HOST:PORT"),
        ("--host-root=host", "must be an absolute path"),
        ("--service-account-dir=account", "must be an absolute path"),
    ],
)
def test_a_bad_value_is_told_with_what_it_must_be(argument: str, reason: str) -> None:
    (told,) = problems([*REQUIRED, argument])
    flag, _, value = argument.partition("=")
    assert told.startswith(f"{flag}={value!r}: ")
    assert reason in told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--no-such-flag"], "--no-such-flag: there is no such flag"),
        (["stray"], "stray: there is no such flag"),
        (["--kubelet=/k"], "--kubelet=/k: there is no such flag"),
        (["--cdi-root"], "expected one argument"),
        (["--nics", "--no-nics"], "not allowed with"),
    ],
)
def test_what_is_no_flag_of_ours_is_told_with_where_to_look(arguments: list[str], words: str) -> None:
    (told,) = problems([*REQUIRED, *arguments])
    assert words in told
    assert told.endswith("(see gpu-dra-node-agent --help)")


def test_help_names_every_flag_and_twin(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        settings.read(["--help"], {})
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for twin in ENVIRON:
        assert f"[{twin}]" in text
        assert f"--{twin.removeprefix('GPU_DRA_').lower().replace('_', '-')}" in text


def test_the_line_at_start_tells_what_a_reader_needs() -> None:
    assert settings.shown(TOLD) == {
        "node_name": "n2.example",
        "kubelet_root": "/data/kubelet",
        "cdi_root": "/etc/cdi",
        "simulate": "l40s-4",
    }
