"""A cluster of plain processes: starting, finding one that runs, and stopping without a trace.

Everything it has lies in one folder of the cache (`run/NAME`), in cgroups `gd-NAME`, and in namespaces that end with
its first process. The folder's state.json appears last, so a folder without it is a start that did not finish.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from tests.e2e.cluster import cgroups, images, network, packages, pki, programs
from tests.e2e.cluster.archives import Archive
from tests.e2e.cluster.control import Control
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.errors import ClusterError
from tests.e2e.cluster.locks import locked
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.process import run, say, tail_of, wait_until
from tests.e2e.cluster.settings import Settings

REPLACED = ("/run", "/var/lib", "/var/log", "/etc", "/proc", "/sys")
MAX_SOCKET_PATH = 100


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster by its settings; it may run or not."""

    settings: Settings

    @property
    def folder(self) -> Path:
        return programs.cache_dir() / "run" / self.settings.name

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def version(self) -> str:
        return self.settings.version

    @property
    def node_names(self) -> tuple[str, ...]:
        return self.settings.node_names

    @property
    def nodes(self) -> Mapping[str, Node]:
        found = (self._node(number) for number in range(1, self.settings.nodes + 1))
        return {node.name: node for node in found}

    @property
    def control(self) -> Control:
        return Control(self.folder / "cluster.sock")

    def running(self) -> Settings | None:
        """The settings of the cluster of this name that runs now; None where none does or its start did not finish."""
        try:
            stored = json.loads((self.folder / "state.json").read_text())
        except FileNotFoundError:
            return None
        return Settings(**stored) if self.control.alive() else None

    def prepare(self) -> list[Archive]:
        """Install and build what is missing; returns the images."""
        if problem := packages.obstacle():
            raise ClusterError(problem)
        self._check_folder()
        packages.install()
        for module in programs.modules(self.settings.version):
            programs.build(module)
        return images.all_images()

    def start(self, archives: Sequence[Archive]) -> None:
        """Start it afresh; what an earlier run of the name left is removed first."""
        with self._locked():
            if self.running():
                raise ClusterError(f"cluster {self.settings.name} runs already; stop it first: {self._down()}")
            self._remove()
            try:
                self._start(archives)
            except BaseException:
                self._keep_logs()
                self._remove()
                raise

    def start_or_reuse(self, archives: Sequence[Archive]) -> None:
        """Start it, or take the one of the same settings that runs and give it the images that changed."""
        running = self.running()
        if running is None:
            self.start(archives)
            return
        if running != self.settings:
            raise ClusterError(
                f"cluster {running.name} runs already, with Kubernetes {running.version} and {running.nodes} nodes,"
                f" not {self.settings.version} and {self.settings.nodes}; stop it first ({self._down()}), or choose"
                " another name with CLUSTER"
            )
        say(f"cluster {running.name} runs already, with these settings")
        with self._locked():
            self._at_once([partial(node.import_images, archives) for node in self.nodes.values()])

    def logs(self) -> dict[tuple[str, str], Path]:
        """Every log by where and what: ("gd-n1", "kubelet"), ("cp", "kube-apiserver"), ("cp", "supervisor")."""
        found = {(path.parent.name, path.stem): path for path in sorted(self.folder.glob("*/*.log"))}
        renamed = {(f"gd-{where}" if where != "cp" else where, what): path for (where, what), path in found.items()}
        return {**renamed, ("cp", "supervisor"): self.folder / "supervisor.log"} if renamed else {}

    def stop(self) -> bool:
        """End it and remove everything it had; returns whether there was anything."""
        with self._locked():
            found = self.folder.exists() or bool(cgroups.folders(self.settings.name))
            self._remove()
        return found

    def _down(self) -> str:
        return f"make cluster-down CLUSTER={self.settings.name}"

    def _locked(self) -> AbstractContextManager[None]:
        return locked(self.folder.with_name(f".{self.settings.name}.lock"))

    def _node(self, number: int) -> Node:
        return Node(number, self.settings, self.folder, pki.Pki(self.folder / "pki"), self.control)

    def _start(self, archives: Sequence[Archive]) -> None:
        say(
            f"starting cluster {self.settings.name}: Kubernetes {self.settings.version}, {self.settings.nodes} nodes ..."
        )
        self.folder.mkdir(mode=0o700, parents=True)
        keys = pki.make(self.folder / "pki", range(1, self.settings.nodes + 1))
        self._spawn()
        inside = ["nsenter", "-t", str(self.control.pid()), "-m", "-p", "-n", "--"]
        run([*inside, "sh"], text_in=network.setup(range(1, self.settings.nodes + 1)))
        # Nodes find the API server when it is there: all of them boot while it starts.
        plane = ControlPlane(self.settings, self.folder / "cp", keys, self.control)
        boots: list[Callable[[], object]] = [partial(node.boot, archives) for node in self.nodes.values()]
        self._at_once([plane.start, *boots])
        self._wait_ready()
        (self.folder / "state.json").write_text(json.dumps(asdict(self.settings)))

    def _spawn(self) -> None:
        """The supervisor, in a session of its own: it outlives this process."""
        log = self.folder / "supervisor.log"
        root = str(images.REPOSITORY)
        env = {**os.environ, "PYTHONPATH": root, "PYTHONDONTWRITEBYTECODE": "1"}
        with log.open("ab") as output:
            started = subprocess.Popen(
                [sys.executable, "-m", "tests.e2e.cluster.supervisor", str(self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=env,
                cwd="/",
                start_new_session=True,
            )
        # Nobody waits for it; without a code the forgotten object warns of a process that still runs, as it shall.
        started.returncode = 0
        self.control.wait_alive(log)

    def _wait_ready(self) -> None:
        kubectl = ["kubectl", "--kubeconfig", str(self.kubeconfig)]
        ready = "jsonpath={range .items[*]}{.status.conditions[?(@.type=='Ready')].status}{'\\n'}{end}"

        def nodes_ready() -> bool:
            for node in self.nodes.values():
                node.expect_running()
            return run([*kubectl, "get", "nodes", "-o", ready]).split() == ["True"] * self.settings.nodes

        def account_there() -> bool:
            return bool(run([*kubectl, "get", "serviceaccount", "default", "--ignore-not-found", "-o", "name"]).strip())

        logs = f"the kubelets' logs are {self.folder}/n*/kubelet.log"
        wait_until(nodes_ready, "all nodes to be Ready", within=120, every=0.2, hint=lambda: logs)
        # Pods without a controller are refused before it exists.
        wait_until(account_there, "ServiceAccount default", within=60, every=0.2)

    def _remove(self) -> None:
        self.control.kill()
        cgroups.remove(self.settings.name)
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def _keep_logs(self) -> None:
        """After a failed start: the end of each log, since the folder goes."""
        for path in sorted(self.folder.rglob("*.log")):
            if path.stat().st_size:
                say(f"--- {path.relative_to(self.folder)}\n{tail_of(path, 5)}")

    def _check_folder(self) -> None:
        if any(self.folder.is_relative_to(place) for place in REPLACED):
            raise ClusterError(
                f"{self.folder} is below one of {', '.join(REPLACED)}, of which each node has its own;"
                " set GPU_DRA_CACHE to a folder elsewhere"
            )
        if len(str(self.folder / "cluster.sock")) > MAX_SOCKET_PATH:
            raise ClusterError(
                f"{self.folder} is too long for the path of a socket; set GPU_DRA_CACHE to a shorter one"
            )

    @staticmethod
    def _at_once(tasks: Sequence[Callable[[], object]]) -> None:
        with ThreadPoolExecutor(max_workers=len(tasks)) as pool:
            for future in [pool.submit(task) for task in tasks]:
                future.result()


def find(name: str) -> Cluster:
    """The running cluster of a name; ClusterError where there is none."""
    running = Cluster(Settings(name=name)).running()
    if running is None:
        raise ClusterError(f"no cluster {name} runs; start it: make cluster-up CLUSTER={name}")
    return Cluster(running)
