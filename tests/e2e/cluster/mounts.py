"""What a node has of its own in the machine's file system; runs as the first process of its mount namespace.

A DaemonSet names one host path for all nodes, so every node must have the default paths (/var/lib/kubelet,
/var/run/cdi) to itself. /run is a tmpfs and so empty after a reboot, as on a real machine; the rest lies in the node's
folder and outlives it. Nothing of this is seen outside the namespace, and it goes with the namespace.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
# Where the node's folder takes the place of the machine's.
OWN = ("var/lib", "var/log")
# Settings of the whole machine that a kubelet overwrites: it shall write to copies.
TUNABLES = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)


def hierarchies() -> list[Path]:
    """The roots of the machine's cgroup trees: one with version 2, one a controller with version 1."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    # `unified` beside version 1 holds no controllers, but the kubelet does not look there either.
    return sorted(path for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink())


def prepare_cluster() -> None:
    """A /run of its own, for the names of its network namespaces."""
    _mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/run")


def prepare_node(folder: Path, cgroup: str) -> None:
    """The node's own folders, tunables and cgroup."""
    for name in OWN:
        private = folder / "fs" / name
        private.mkdir(parents=True, exist_ok=True)
        _mount("--bind", str(private), f"/{name}")
    upper, work = folder / "fs/etc", folder / "etc-work"
    upper.mkdir(parents=True, exist_ok=True)
    work.mkdir(exist_ok=True)
    _mount("-t", "overlay", "-o", f"lowerdir=/etc,upperdir={upper},workdir={work}", "overlay", "/etc")
    _mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/run")
    for name in TUNABLES:
        _shadow(Path("/proc/sys") / name, folder / "tunables" / name.replace("/", "_"))
    for path in (*(f"/{name}" for name in OWN), "/run", "/etc/cdi", "/etc/cni/net.d", "/run/cdi", "/run/netns"):
        os.makedirs(path, exist_ok=True)  # noqa: PTH103 -- one line for both kinds of path
    for path in ("kubelet", "cni", "containerd"):
        os.makedirs(f"/var/lib/{path}", exist_ok=True)  # noqa: PTH103
    # Pods mount what other pods mounted (Bidirectional): the kubelet refuses a root that is not shared.
    _mount("--make-rshared", "/")
    make_cgroups(cgroup)


def make_cgroups(cgroup: str) -> None:
    """The folder that the node's kubelet is confined to, in every hierarchy; the kubelet wants to find it."""
    for root in hierarchies():
        folder = root
        for part in cgroup.strip("/").split("/"):
            _delegate(folder)
            folder /= part
            folder.mkdir(exist_ok=True)
        _delegate(folder)


def _delegate(folder: Path) -> None:
    """Version 2 only: let the folders below have every controller that this one has."""
    control = folder / "cgroup.subtree_control"
    if not (CGROUPS / "cgroup.controllers").exists() or not control.exists():
        return
    for controller in (folder / "cgroup.controllers").read_text().split():
        try:
            control.write_text(f"+{controller}")
        except OSError:
            # A controller that cannot be had here (cpu with real-time tasks, say) is missed by the kubelet, by name.
            continue


def _shadow(setting: Path, copy: Path) -> None:
    if not setting.exists():
        return
    copy.parent.mkdir(exist_ok=True)
    copy.write_text(setting.read_text())
    _mount("--bind", str(copy), str(setting))


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)
