"""The base of the project's images, where no registry can be reached: a small Debian with Python, by debootstrap."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from pathlib import Path

from tests.e2e.cluster.archives import Archive, pack, slug, tar_of
from tests.e2e.cluster.errors import ClusterError
from tests.e2e.cluster.process import run, say

IMAGE = "localhost/debian-python:bookworm"
SUITE = "bookworm"
RECIPE = 1
"""Raise it when the code below changes what the image holds."""
PACKAGES = ("python3", "python3-pip", "python3-venv", "ca-certificates")
# Half of what debootstrap leaves. The resolv.conf and the mirror's name are this machine's and nobody else's business.
NOT_NEEDED = (
    "var/cache/apt/archives/*.deb",
    "var/cache/apt/*.bin",
    "var/lib/apt/lists/*",
    "usr/share/doc/*",
    "usr/share/man/*",
    "usr/share/locale/*",
    "etc/resolv.conf",
    "etc/hostname",
    "var/log/bootstrap.log",
    "var/log/dpkg.log",
)


def mirror() -> str:
    """Where this machine gets Debian packages from: $DEBIAN_MIRROR, else its own sources."""
    chosen = os.environ.get("DEBIAN_MIRROR")
    if chosen:
        return chosen
    etc = Path("/etc/apt")
    for path in [etc / "sources.list", *sorted(etc.glob("sources.list.d/*"))]:
        text = path.read_text(errors="replace") if path.is_file() else ""
        one_line = re.search(r"^deb\s+(?:\[[^]]*\]\s+)?(\S+/debian/?)\s", text, re.MULTILINE)
        stanza = re.search(r"^URIs:\s*(\S+/debian/?)\s*$", text, re.MULTILINE)
        if found := one_line or stanza:
            return found.group(1)
    raise ClusterError(f"no source of Debian packages is named in {etc}; set DEBIAN_MIRROR to a mirror's address")


def base(folder: Path) -> Archive:
    """The base image in the folder: made when the recipe or the processor changed, a minute and a half."""
    recipe = repr((RECIPE, SUITE, PACKAGES, NOT_NEEDED, os.uname().machine))
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:16]
    path = folder / f"{slug(IMAGE)}-{digest}.tar"
    if path.exists():
        return Archive(IMAGE, path, digest)
    say(f"making {IMAGE} with debootstrap ...")
    started = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".debootstrap-") as scratch:
        root = Path(scratch) / "root"
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(root), mirror()]
        # In a mount namespace of its own, so that an interrupted run leaves no /proc mounted below the folder.
        run(["unshare", "--mount", "--propagation", "private", "--", *command], timeout=1800)
        for pattern in NOT_NEEDED:
            for found in root.glob(pattern):
                if found.is_dir() and not found.is_symlink():
                    shutil.rmtree(found)
                else:
                    found.unlink()
        (root / "etc/apt/sources.list").write_text("")
        layer = Path(scratch) / "layer.tar"
        tar_of(root, layer)
        pack(path, IMAGE, layer, command=["bash"])
    say(f"made {IMAGE} in {time.monotonic() - started:.0f} s ({path.stat().st_size >> 20} MiB)")
    return Archive(IMAGE, path, digest)
