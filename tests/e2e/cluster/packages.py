"""The Debian packages that the cluster needs. Standard library only: this runs first of all."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.cluster.errors import ClusterError
from tests.e2e.cluster.process import run, say

# Each package, and a file that tells that it (or the same program by another way) is there.
NEEDED = {
    "buildah": "/usr/bin/buildah",
    "busybox-static": "/bin/busybox",
    "ca-certificates": "/etc/ssl/certs/ca-certificates.crt",
    "conntrack": "/usr/sbin/conntrack",
    "containernetworking-plugins": "/usr/lib/cni/bridge",
    "debootstrap": "/usr/sbin/debootstrap",
    "iproute2": "/sbin/ip",
    "iptables": "/usr/sbin/iptables",
    "openssl": "/usr/bin/openssl",
    "procps": "/usr/bin/pkill",
    "runc": "/usr/sbin/runc",
    "uidmap": "/usr/bin/newuidmap",
    "util-linux": "/usr/bin/unshare",
}


def missing() -> list[str]:
    """Packages that are not installed."""
    return [package for package, path in NEEDED.items() if not Path(path).exists()]


def obstacle() -> str | None:
    """Why no cluster can run here, whatever is installed; None where one can."""
    if sys.platform != "linux":
        return f"a cluster needs Linux; this is {sys.platform}"
    if os.geteuid() != 0:
        return "a cluster needs root, for namespaces, mounts and cgroups; run the command with sudo"
    return None


def install() -> list[str]:
    """Install what is missing with apt-get; returns what was."""
    wanted = missing()
    if not wanted:
        return []
    if problem := obstacle():
        raise ClusterError(f"the packages {', '.join(wanted)} are missing, and {problem}")
    apt = shutil.which("apt-get")
    if apt is None:
        raise ClusterError(
            f"the packages {', '.join(wanted)} are missing, and there is no apt-get here to install them;"
            f" install these files by this machine's own means: {', '.join(NEEDED[name] for name in wanted)}"
        )
    say(f"installing {', '.join(wanted)} ...")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run([apt, "update", "-qq"], env=quiet, timeout=600)
    run([apt, "install", "-y", "-qq", "--no-install-recommends", *wanted], env=quiet, timeout=1200)
    still = missing()
    if still:
        raise ClusterError(
            f"apt-get installed {', '.join(wanted)}, but {', '.join(NEEDED[name] for name in still)} is not there"
        )
    return wanted


def main(_arguments: Sequence[str] = ()) -> int:
    try:
        for package in install():
            print(package)
    except ClusterError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
