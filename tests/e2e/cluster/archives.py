"""Container images as files: docker archives written without a registry, a daemon or a build tool.

The result is the same to the byte for the same input, so that a file's digest tells whether a node has it already.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster.errors import ClusterError
from tests.e2e.cluster.process import run

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BUSYBOX = Path("/bin/busybox")


@dataclass(frozen=True, slots=True)
class Archive:
    """An image in a docker archive: its name, the file, and what tells it from other contents of that name."""

    image: str
    path: Path
    digest: str


def slug(image: str) -> str:
    """The image's name for use in a file's name."""
    return image.removeprefix("localhost/").replace("/", "_").replace(":", "_")


def pack(path: Path, image: str, layer: Path, *, command: Sequence[str] = ()) -> None:
    """Write a docker archive of one layer (an uncompressed tar file)."""
    with layer.open("rb") as data:
        layer_digest = hashlib.file_digest(data, "sha256").hexdigest()
    config = {
        "architecture": architecture(),
        "os": "linux",
        "config": {"Env": [PATH], "Cmd": list(command)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
        "history": [{"created_by": "gpu-dra tests/e2e"}],
    }
    encoded = json.dumps(config, sort_keys=True).encode()
    config_name = f"{hashlib.sha256(encoded).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [image], "Layers": [f"{layer_digest}.tar"]}]
    with _Appearing(path) as partial, tarfile.open(partial, "w") as tar:
        info = tarfile.TarInfo(f"{layer_digest}.tar")
        info.size = layer.stat().st_size
        with layer.open("rb") as data:
            tar.addfile(info, data)
        for name, content in ((config_name, encoded), ("manifest.json", json.dumps(manifest).encode())):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def busybox(folder: Path, image: str, command: Sequence[str]) -> Archive:
    """An image of Debian's static busybox with a link for each applet; in the folder unless it is there already."""
    if not BUSYBOX.exists():
        raise ClusterError(f"{BUSYBOX} is not on this machine; install Debian's busybox-static")
    program = BUSYBOX.read_bytes()
    digest = hashlib.sha256(Path(__file__).read_bytes() + program + repr((image, command)).encode()).hexdigest()[:16]
    path = folder / f"{slug(image)}-{digest}.tar"
    if not path.exists():
        with tempfile.TemporaryDirectory() as scratch:
            layer = Path(scratch) / "layer.tar"
            _busybox_layer(layer, program)
            pack(path, image, layer, command=command)
    return Archive(image, path, digest)


def _busybox_layer(layer: Path, program: bytes) -> None:
    with tarfile.open(layer, "w") as tar:
        for name, mode in (("bin", 0o755), ("etc", 0o755), ("root", 0o700), ("tmp", 0o1777), ("var", 0o755)):
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, mode
            tar.addfile(info)
        files = {
            "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
            "etc/group": b"root:x:0:\nnogroup:x:65534:\n",
            "bin/busybox": program,
        }
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755 if name.startswith("bin/") else 0o644
            tar.addfile(info, io.BytesIO(content))
        for applet in sorted(set(run([str(BUSYBOX), "--list"]).split()) - {"busybox"}):
            info = tarfile.TarInfo(f"bin/{applet}")
            info.type, info.linkname, info.mode = tarfile.SYMTYPE, "busybox", 0o777
            tar.addfile(info)


def architecture() -> str:
    """Go's name of this machine's processor, as images state it."""
    machine = os.uname().machine
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


class _Appearing:
    """A file that appears complete or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.partial = path.with_name(f".{path.name}.{os.getpid()}")

    def __enter__(self) -> Path:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self.partial

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.partial.rename(self.path)
        else:
            self.partial.unlink(missing_ok=True)


def tar_of(root: Path, layer: Path) -> None:
    """A tar file of a folder as an image's layer: numeric owners, no trace of when it was made."""
    tar = shutil.which("tar") or "tar"
    subprocess.run(
        [tar, "--numeric-owner", "--sort=name", "--xattrs", "-C", str(root), "-cf", str(layer), "."], check=True
    )
