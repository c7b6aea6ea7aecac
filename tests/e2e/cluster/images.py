"""The images that the nodes get, built without a registry and kept in the cache as docker archives.

pause and busybox are written directly; the project's own come from the Containerfile with buildah, on a base that
debootstrap makes. An archive's name holds a digest of everything that went into it, so what did not change is not
built again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.cluster import debian
from tests.e2e.cluster.archives import Archive, busybox, slug
from tests.e2e.cluster.errors import ClusterError
from tests.e2e.cluster.locks import locked
from tests.e2e.cluster.node_config import PAUSE
from tests.e2e.cluster.process import run, say
from tests.e2e.cluster.programs import cache_dir

REPOSITORY = Path(__file__).parents[3]
BUSYBOX = "localhost/busybox:e2e"
TARGETS = {"node-agent": "localhost/gpu-dra-node-agent:e2e", "controller": "localhost/gpu-dra-controller:e2e"}
CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
# Files of pip that a build must see to find packages the way this machine does.
PIP_SETTINGS = Path("/etc/pip.conf")
KEPT_ARCHIVES = 3
STORE_LIMIT = 8 << 30


def folder() -> Path:
    return cache_dir() / "images"


def small() -> list[Archive]:
    """pause and busybox: a moment."""
    # busybox sleeps as well as the usual pause program; as the first process of a shared PID namespace it also reaps.
    return [busybox(folder(), PAUSE, ["/bin/sleep", "2147483647"]), busybox(folder(), BUSYBOX, ["sh"])]


def all_images() -> list[Archive]:
    """Everything the nodes get; built where it is not in the cache."""
    with locked(cache_dir() / "images.lock"):
        return small() + [project(target) for target in TARGETS]


def project(target: str) -> Archive:
    """One of the project's images, built from the Containerfile unless its inputs are those of an archive in the cache."""
    image = TARGETS[target]
    base = debian.base(folder())
    digest = inputs_digest(base)
    path = folder() / f"{slug(image)}-{digest}.tar"
    if path.exists():
        os.utime(path)
        return Archive(image, path, digest)
    say(f"building {image} ...")
    started = time.monotonic()
    _clean_store()
    if not _buildah("images", "--quiet", "--filter", f"label=e2e.base={base.digest}").strip():
        _import_base(base)
    _build(target, image)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        _buildah("push", image, f"docker-archive:{partial}:{image}")
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)
    _forget_old(image)
    say(f"built {image} in {time.monotonic() - started:.0f} s ({path.stat().st_size >> 20} MiB)")
    return Archive(image, path, digest)


def inputs_digest(base: Archive) -> str:
    """A digest over what the Containerfile copies, itself, and the base."""
    digest = hashlib.sha256(base.digest.encode())
    for path in _inputs():
        digest.update(f"{path.relative_to(REPOSITORY)}\0{path.stat().st_mode & 0o111}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _inputs() -> Iterator[Path]:
    """The files that .containerignore lets through (its lines with an exclamation mark)."""
    ignore = REPOSITORY / ".containerignore"
    names = [line[1:].strip() for line in ignore.read_text().splitlines() if line.startswith("!")]
    for name in ["Containerfile", ".containerignore", *sorted(names)]:
        top = REPOSITORY / name
        below = sorted(top.rglob("*")) if top.is_dir() else [top]
        yield from (
            path for path in below if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
        )


def _build(target: str, image: str) -> None:
    # pip checks certificates against the machine's bundle, where that holds a proxy's CA too; it is mounted, not copied.
    volumes = [f"--volume={path}:{path}:ro" for path in (CA_BUNDLE, PIP_SETTINGS) if path.exists()]
    command = [
        "bud",
        "--isolation",
        "chroot",
        "--pull-never",
        "--layers",
        f"--build-arg=BASE_IMAGE={debian.IMAGE}",
        *volumes,
    ]
    _buildah(*command, "--target", target, "--tag", image, "--file", str(REPOSITORY / "Containerfile"), str(REPOSITORY))


def _import_base(base: Archive) -> None:
    """Put the base into buildah's store, with a label that tells which one it is."""
    pulled = _buildah("from", "--isolation", "chroot", "--pull-never", f"docker-archive:{base.path}").strip()
    _buildah("config", "--label", f"e2e.base={base.digest}", pulled)
    _buildah("commit", "--rm", pulled, debian.IMAGE)


def _clean_store() -> None:
    """Remove what an interrupted build left, and the whole store when it has grown too large."""
    store = folder() / "store"
    if store.exists() and _size(store) > STORE_LIMIT:
        shutil.rmtree(store)
    _buildah("rm", "--all")


def _size(top: Path) -> int:
    return int(run(["du", "-sb", str(top)]).split()[0])


def _buildah(*arguments: str) -> str:
    where = ["--root", str(folder() / "store"), "--runroot", str(folder() / "store-run")]
    # In a mount namespace of its own: buildah leaves its store mounted when it is killed.
    own_mounts = ["unshare", "--mount", "--propagation", "private", "--"]
    try:
        return run([*own_mounts, "buildah", *where, *arguments], timeout=1800)
    except ClusterError as problem:
        raise ClusterError(f"an image cannot be built: {problem}") from problem


def _forget_old(image: str) -> None:
    found = sorted(folder().glob(f"{slug(image)}-*.tar"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found[KEPT_ARCHIVES:]:
        path.unlink()
