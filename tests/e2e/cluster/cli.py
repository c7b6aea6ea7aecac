"""`python -m tests.e2e.cluster VERB`: a cluster from the command line. Results on stdout, progress on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence

from tests.e2e.cluster import chart, images, packages, programs
from tests.e2e.cluster.cluster import Cluster, find
from tests.e2e.cluster.errors import ClusterError
from tests.e2e.cluster.process import run, say
from tests.e2e.cluster.settings import Settings, install_from, settings_from

USAGE = """\
usage: python -m tests.e2e.cluster VERB

  install-packages         install the Debian packages that a cluster needs
  programs [VERSION...]    build Kubernetes and the other Go programs
  images                   build the images
  up                       start a cluster (or take the one that runs); the last line is the kubeconfig's path
  install                  install the chart on it and wait until its devices can be claimed
  down                     stop it and leave nothing behind
  status                   what runs
  logs [NODE] [PROGRAM]    the logs there are, or one of them, for example: logs gd-n1 kubelet, logs cp kube-apiserver

settings, from the environment:
  CLUSTER    the cluster's name (dev); clusters of different names run side by side
  K8S        1.37.2, 1.34.4 or 1.32.9 (1.37.2)
  NODES      1 to 4 (2)
  PROFILE    simulated hardware, one for each node, separated by commas (split-4x4); for install
  HELM_ARGS  more arguments for helm; for install"""


def _settings() -> Settings:
    return settings_from(os.environ, programs.versions())


def _install_packages(_arguments: Sequence[str]) -> None:
    say(f"installed {', '.join(packages.install()) or 'nothing: all are there'}")


def _programs(arguments: Sequence[str]) -> None:
    for version in arguments or [_settings().version]:
        for module in programs.modules(version):
            print(programs.build(module))


def _images(_arguments: Sequence[str]) -> None:
    packages.install()
    for archive in images.all_images():
        print(archive.path)


def _up(_arguments: Sequence[str]) -> None:
    cluster = Cluster(_settings())
    cluster.start_or_reuse(cluster.prepare())
    print(cluster.kubeconfig)


def _install(_arguments: Sequence[str]) -> None:
    cluster = find(_settings().name)
    how = install_from(os.environ, cluster.settings.nodes)
    archives = images.all_images()
    cluster.start_or_reuse(archives)
    print(chart.install(cluster, how, archives).rstrip())


def _down(_arguments: Sequence[str]) -> None:
    name = _settings().name
    say(f"cluster {name} is gone" if Cluster(Settings(name=name)).stop() else f"no cluster {name} was there")


def _status(_arguments: Sequence[str]) -> None:
    cluster = find(_settings().name)
    print(f"cluster {cluster.settings.name}: Kubernetes {cluster.version}, kubeconfig {cluster.kubeconfig}")
    print(f"  control plane: {', '.join(cluster.control.running())}")
    for name, node in cluster.nodes.items():
        print(f"  {name}: {', '.join(node.control.running()) if node.control.alive() else 'off'}")
    print(run(["kubectl", "--kubeconfig", str(cluster.kubeconfig), "get", "nodes,pods", "-A"]).rstrip())


def _logs(arguments: Sequence[str]) -> None:
    logs = Cluster(_settings()).logs()
    wanted = {key: path for key, path in logs.items() if list(key[: len(arguments)]) == list(arguments)}
    if not wanted:
        raise ClusterError(
            f"no log {' '.join(arguments)}; there are: {', '.join(' '.join(key) for key in logs) or 'none'}"
        )
    for key, path in wanted.items():
        if len(arguments) == 2:
            print(path.read_text(errors="replace"), end="")
        else:
            print(f"{' '.join(key)}: {path}")


VERBS: Mapping[str, Callable[[Sequence[str]], None]] = {
    "install-packages": _install_packages,
    "programs": _programs,
    "images": _images,
    "up": _up,
    "install": _install,
    "down": _down,
    "status": _status,
    "logs": _logs,
}


def main(arguments: Sequence[str]) -> int:
    verb, *rest = arguments or ["help"]
    if verb in {"help", "-h", "--help"}:
        print(USAGE)
        return 0
    if verb not in VERBS:
        print(f"{verb!r} is not a verb.\n{USAGE}", file=sys.stderr)
        return 2
    try:
        VERBS[verb](rest)
    except (ClusterError, programs.ProgramError) as problem:
        print(f"{verb}: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
