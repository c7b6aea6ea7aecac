"""What a person chooses about a cluster, read from the environment and checked in one place. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.e2e.cluster.errors import ClusterError

MAX_NODES = 4
# Part of cgroup folders, and of socket paths, which end at 107 bytes.
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?")
PROFILE = re.compile(r"[A-Za-z0-9/]([A-Za-z0-9._/-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Settings:
    """One cluster: what it is called, what it runs, how many nodes it has."""

    name: str = "dev"
    version: str = "1.37.2"
    nodes: int = 2

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(f"gd-n{number}" for number in range(1, self.nodes + 1))

    @property
    def minor(self) -> int:
        return int(self.version.split(".")[1])


@dataclass(frozen=True, slots=True)
class Install:
    """How the chart is installed: the simulated hardware of each node, and more of helm's arguments."""

    profiles: tuple[str, ...] = ("split-4x4",)
    helm_args: tuple[str, ...] = field(default=())

    def of_nodes(self, nodes: Sequence[str]) -> dict[str, str]:
        """Each node's profile; the last one named counts for all nodes after it."""
        last = len(self.profiles) - 1
        return {node: self.profiles[min(index, last)] for index, node in enumerate(nodes)}


def settings_from(environ: Mapping[str, str], versions: Sequence[str]) -> Settings:
    """The cluster's settings; every problem is named in one ClusterError."""
    default = Settings()
    problems: list[str] = []
    name = environ.get("CLUSTER") or default.name
    if not NAME.fullmatch(name):
        problems.append(
            f"CLUSTER={name!r}: use up to 20 of a-z, 0-9 and -, beginning and ending with a letter or digit"
        )
    version = (environ.get("K8S") or default.version).removeprefix("v")
    if version not in versions:
        problems.append(f"K8S={version!r}: only {', '.join(versions)} are pinned; choose one of them")
    count = environ.get("NODES") or str(default.nodes)
    if not (count.isascii() and count.isdigit() and 1 <= int(count) <= MAX_NODES):
        problems.append(f"NODES={count!r}: use a number from 1 to {MAX_NODES}")
    if problems:
        raise ClusterError("; ".join(problems))
    return Settings(name, version, int(count))


def install_from(environ: Mapping[str, str], nodes: int) -> Install:
    """How to install the chart on a cluster of so many nodes; every problem is named in one ClusterError."""
    problems: list[str] = []
    profiles = tuple(part.strip() for part in (environ.get("PROFILE") or Install().profiles[0]).split(","))
    for profile in profiles:
        if not PROFILE.fullmatch(profile):
            problems.append(f"PROFILE: {profile!r} is no profile's name; separate names by commas, one for each node")
    if len(profiles) > nodes:
        problems.append(f"PROFILE names {len(profiles)} profiles, but the cluster has {nodes} nodes")
    try:
        helm_args = tuple(shlex.split(environ.get("HELM_ARGS", "")))
    except ValueError as problem:
        problems.append(f"HELM_ARGS cannot be split into arguments as a shell would: {problem}")
        helm_args = ()
    if problems:
        raise ClusterError("; ".join(problems))
    return Install(profiles, helm_args)
