"""One node of the cluster: booting, cutting off, killing, and looking inside."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster import network, node_config
from tests.e2e.cluster.archives import Archive
from tests.e2e.cluster.control import Control, Program
from tests.e2e.cluster.errors import ClusterError
from tests.e2e.cluster.inside import resolve
from tests.e2e.cluster.pki import Pki
from tests.e2e.cluster.process import run, tail_of, wait_until
from tests.e2e.cluster.programs import CONTAINERD, kubernetes
from tests.e2e.cluster.settings import Settings
from tests.e2e.cluster.supervisor import UNSHARE

CTR = ("ctr", "-a", node_config.CONTAINERD_SOCKET, "-n", "k8s.io")


@dataclass(frozen=True, slots=True)
class Node:
    """A node; it may be off, in which case only boot(), reconnect() and the logs are of use."""

    number: int
    settings: Settings
    run_folder: Path
    pki: Pki
    cluster: Control

    @property
    def name(self) -> str:
        return network.node_namespace(self.number)

    @property
    def folder(self) -> Path:
        return self.run_folder / f"n{self.number}"

    @property
    def cgroup(self) -> str:
        return f"/gd-{self.settings.name}/n{self.number}"

    @property
    def control(self) -> Control:
        return Control(self.run_folder / f"n{self.number}.sock")

    # --- power and cable

    def boot(self, archives: Sequence[Archive] = ()) -> None:
        """Start the node on whatever its folder holds; returns when kubelet and kube-proxy have been started."""
        self._write_config()
        init = self._init()
        self.cluster.start(init)
        self.control.wait_alive(init.log)
        containerd = self._containerd()
        self.control.start(containerd)

        def answers() -> bool:
            self.control.expect(containerd)
            return (
                subprocess.run(self._inside([*self._ctr(), "version"]), capture_output=True, check=False).returncode
                == 0
            )

        wait_until(answers, f"containerd of {self.name}", within=60, hint=lambda: tail_of(containerd.log))
        self.import_images([archive for archive in archives if archive.image == node_config.PAUSE])
        self.start_kubelet()
        self.control.start(self._kube_proxy())
        self.import_images(archives)

    def power_cut(self) -> None:
        """End everything on the node at once; its folder stays as it is."""
        self.cluster.stop(self.name, how=signal.SIGKILL)
        wait_until(lambda: not self.control.alive(), f"the end of {self.name}", within=20, every=0.02)

    def cut_off(self) -> None:
        """Pull the network cable. The node and its pods go on running."""
        run(["nsenter", "-t", str(self.cluster.pid()), "-n", "--", *network.cut(self.number)])

    def reconnect(self) -> None:
        run(["nsenter", "-t", str(self.cluster.pid()), "-n", "--", *network.mend(self.number)])

    # --- programs

    def start_kubelet(self) -> None:
        self.control.start(self._kubelet())

    def stop_kubelet(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop kubelet; its pods go on running."""
        self.control.stop("kubelet", how=how)

    def restart_kubelet(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.stop_kubelet(how)
        self.start_kubelet()

    def kill(self, pattern: str, how: signal.Signals = signal.SIGKILL) -> None:
        """Signal the processes of the node, those in containers included, whose command line the pattern matches."""
        try:
            self.run(["pkill", f"-{int(how)}", "--full", "--", pattern])
        except ClusterError as problem:
            raise ClusterError(f"no process on {self.name} has a command line that matches {pattern!r}") from problem

    def import_images(self, archives: Sequence[Archive]) -> list[str]:
        """Give the node the images that it does not have in this content yet; returns their names."""
        record = self.folder / "images.json"
        known: dict[str, str] = json.loads(record.read_text()) if record.exists() else {}
        fresh = [archive for archive in archives if known.get(archive.image) != archive.digest]
        for archive in fresh:
            self.run([*self._ctr(), "images", "import", "--local", str(archive.path)])
            known[archive.image] = archive.digest
            record.write_text(json.dumps(known))
        return [archive.image for archive in fresh]

    def expect_running(self) -> None:
        """Raise if one of its programs has ended, with the end of its log."""
        for program in (self._containerd(), self._kubelet(), self._kube_proxy()):
            self.control.expect(program)

    # --- looking inside

    def run(self, argv: Sequence[str], *, text_in: str | None = None, timeout: float = 120) -> str:
        """Run a program of this machine among the node's processes, with its files and its network."""
        return run(self._inside(argv), text_in=text_in, timeout=timeout)

    def path(self, inside: str) -> Path:
        """A path on this machine for a path on the node, links followed as the node sees them. Ends with the node."""
        return resolve(Path(f"/proc/{self.control.pid()}/root"), inside)

    def read_file(self, inside: str) -> str:
        return self.path(inside).read_text()

    def log(self, program: str) -> Path:
        """The log of containerd, kubelet, kube-proxy or init."""
        return self.folder / f"{program}.log"

    @property
    def logs(self) -> dict[str, Path]:
        return {path.stem: path for path in sorted(self.folder.glob("*.log"))}

    def _inside(self, argv: Sequence[str]) -> list[str]:
        return ["nsenter", "-t", str(self.control.pid()), "-m", "-p", "-n", "--", *argv]

    # --- what runs

    def _ctr(self) -> list[str]:
        return [str(CONTAINERD.bin_dir / CTR[0]), *CTR[1:]]

    def _init(self) -> Program:
        init = [sys.executable, "-m", "tests.e2e.cluster.init", str(self.control.path), "node"]
        argv = ["nsenter", f"--net=/run/netns/{self.name}", *UNSHARE, "--", *init, str(self.folder), self.cgroup]
        return Program(self.name, tuple(argv), self.log("init"))

    def _containerd(self) -> Program:
        folder = CONTAINERD.bin_dir
        path = f"{folder}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        argv = (str(folder / "containerd"), "--config", str(self.folder / "containerd.toml"))
        return Program("containerd", argv, self.log("containerd"), env={"PATH": path})

    def _kubelet(self) -> Program:
        argv = (
            str(kubernetes(self.settings.version).bin_dir / "kubelet"),
            f"--kubeconfig={self.folder / 'kubelet.kubeconfig'}",
            f"--config={self.folder / 'kubelet.yaml'}",
            f"--node-ip={network.node_address(self.number)}",
            f"--hostname-override={self.name}",
            "--root-dir=/var/lib/kubelet",
        )
        return Program("kubelet", argv, self.log("kubelet"))

    def _kube_proxy(self) -> Program:
        program = str(kubernetes(self.settings.version).bin_dir / "kube-proxy")
        return Program("kube-proxy", (program, f"--config={self.folder / 'kube-proxy.yaml'}"), self.log("kube-proxy"))

    def _write_config(self) -> None:
        cni = self.folder / "cni"
        cni.mkdir(parents=True, exist_ok=True)
        kubelet_login, proxy_login = self.folder / "kubelet.kubeconfig", self.folder / "kube-proxy.kubeconfig"
        files = {
            cni / "10-e2e.conflist": json.dumps(network.cni(self.number)),
            self.folder / "containerd.toml": node_config.containerd(cni),
            self.folder / "kubelet.yaml": node_config.kubelet(
                self.number, pki=self.pki, cgroup=self.cgroup, minor=self.settings.minor
            ),
            self.folder / "kube-proxy.yaml": node_config.kube_proxy(self.number, proxy_login),
            kubelet_login: self.pki.kubeconfig(f"system:node:{self.name}", network.API_SERVER),
            proxy_login: self.pki.kubeconfig("system:kube-proxy", network.API_SERVER),
        }
        for path, text in files.items():
            path.write_text(text)
