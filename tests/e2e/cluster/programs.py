"""The programs of a Kubernetes cluster, built from pinned Go modules into a cache outside the checkout.

Each folder below tools/ is a Go module of its own whose ``tool`` lines name the programs; go.mod and go.sum pin them to
the byte. They are separate because helm, containerd and each Kubernetes version want different versions of the same
libraries. A build is keyed by the digest of its module files, so that a second run finds it and a changed pin rebuilds.

Standard library only: this runs before the project's environment exists, too (``python -m tests.e2e.cluster.programs``).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TOOLS = Path(__file__).parent / "tools"
DEFAULT_VERSION = "1.37.2"
KUBERNETES = ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubelet", "kube-proxy")


class ProgramError(Exception):
    """A program cannot be built or found; the text says which and what to do."""


def cache_dir() -> Path:
    """Where built programs and images are kept between runs: $GPU_DRA_CACHE, else the user's cache folder."""
    chosen = os.environ.get("GPU_DRA_CACHE")
    if chosen:
        return Path(chosen).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-dra"


def versions() -> list[str]:
    """The Kubernetes versions that a module is pinned for, oldest first."""
    found = [path.name.removeprefix("kubernetes-") for path in TOOLS.glob("kubernetes-*")]
    return sorted(found, key=lambda text: [int(part) for part in text.split(".")])


@dataclass(frozen=True, slots=True)
class Module:
    """One pinned Go module: the folder below tools/, what it builds, and how."""

    name: str
    programs: tuple[str, ...]
    ldflags: str = ""
    tags: str = ""
    rename: tuple[tuple[str, str], ...] = ()

    @property
    def source(self) -> Path:
        return TOOLS / self.name

    @property
    def bin_dir(self) -> Path:
        digest = hashlib.sha256(repr((self.ldflags, self.tags)).encode())
        for name in ("go.mod", "go.sum"):
            digest.update((self.source / name).read_bytes())
        return cache_dir() / "bin" / f"{self.name}-{digest.hexdigest()[:12]}"

    @property
    def built(self) -> bool:
        return all((self.bin_dir / program).exists() for program in self.programs)


def kubernetes(version: str) -> Module:
    """The module of one Kubernetes version; raises ProgramError where it is not pinned."""
    if version not in versions():
        raise ProgramError(
            f"Kubernetes {version} has no pinned module; pinned are {', '.join(versions())}."
            f" Choose one (K8S=...), or add tests/e2e/cluster/tools/kubernetes-{version}."
        )
    major, minor, _patch = version.split(".")
    package = "k8s.io/component-base/version"
    # Without these the API server reports no usable version, and helm and kubectl cannot tell what it serves.
    stamp = f"-X {package}.gitVersion=v{version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    return Module(f"kubernetes-{version}", KUBERNETES, ldflags=stamp)


ETCD = Module("etcd", ("etcd",), rename=(("server", "etcd"),))
CONTAINERD = Module("containerd", ("containerd", "containerd-shim-runc-v2", "ctr"), tags="no_btrfs no_zfs no_devmapper")
HELM = Module("helm", ("helm",))


def modules(version: str = DEFAULT_VERSION) -> tuple[Module, ...]:
    """Everything a cluster of this version needs from Go, quickest build first."""
    return (ETCD, CONTAINERD, HELM, kubernetes(version))


def build(module: Module) -> Path:
    """Build the module's programs unless the cache has them; returns the folder that holds them.

    The folder appears by a rename, so a build that is killed leaves nothing that looks finished.
    """
    if module.built:
        return module.bin_dir
    go = shutil.which("go")
    if go is None:
        raise ProgramError("Go is needed to build the cluster's programs and is not on PATH; install Go 1.26 or later.")
    print(f"building {module.name}: {', '.join(module.programs)} ...", file=sys.stderr, flush=True)
    started = time.monotonic()
    partial = module.bin_dir.with_name(f".{module.bin_dir.name}.{os.getpid()}")
    partial.mkdir(parents=True, exist_ok=True)
    command = [go, "build", "-trimpath", "-buildvcs=false", "-ldflags", f"-s -w {module.ldflags}".strip()]
    if module.tags:
        command += ["-tags", module.tags]
    # One package at a time: a machine of two cores then never links two of these programs at once (1.5 GB each).
    for package in _tool_packages(module):
        done = subprocess.run(
            [*command, "-o", f"{partial}/", package],
            cwd=module.source,
            env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"},
            check=False,
        )
        if done.returncode:
            shutil.rmtree(partial, ignore_errors=True)
            raise ProgramError(f"go build of {package} in {module.source} failed with {done.returncode}; see above.")
    for old, new in module.rename:
        (partial / old).rename(partial / new)
    shutil.rmtree(module.bin_dir, ignore_errors=True)
    partial.rename(module.bin_dir)
    print(f"built {module.name} in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return module.bin_dir


def _tool_packages(module: Module) -> list[str]:
    text = (module.source / "go.mod").read_text()
    block = re.search(r"^tool \(\n(.*?)^\)", text, re.MULTILINE | re.DOTALL)
    lines = block.group(1).splitlines() if block else re.findall(r"^tool (\S+)", text, re.MULTILINE)
    return [line.strip() for line in lines if line.strip()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Build what the named Kubernetes versions need (default: the default version)."""
    try:
        for version in (arguments if arguments is not None else sys.argv[1:]) or [DEFAULT_VERSION]:
            for module in modules(version):
                print(build(module))
    except ProgramError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
