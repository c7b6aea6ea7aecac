"""The cluster's outermost process: holds the namespaces and hands the API server's port of this machine down into them.

Its end is the cluster's end: the kernel sends SIGKILL to `unshare` when the thread that started it ends (this process
has only its main thread), and with the first process of the PID namespace everything inside ends, mounts, links and
network namespaces included.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.cluster.init import HANDED_DOWN

UNSHARE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private")


def main(arguments: Sequence[str]) -> int:
    """RUN_FOLDER: the port goes to RUN_FOLDER/port, the first process listens on RUN_FOLDER/cluster.sock."""
    folder = Path(arguments[0])
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    port = folder / ".port"
    port.write_text(f"{listener.getsockname()[1]}\n")
    port.rename(folder / "port")
    if listener.fileno() == HANDED_DOWN:
        os.set_inheritable(HANDED_DOWN, True)
    else:
        os.dup2(listener.fileno(), HANDED_DOWN)
        listener.close()
    init = [sys.executable, "-m", "tests.e2e.cluster.init", str(folder / "cluster.sock"), "cluster"]
    command = ["setpriv", "--pdeathsig", "KILL", "--", *UNSHARE, "--net", "--", *init]
    return subprocess.run(command, pass_fds=(HANDED_DOWN,), check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
