"""The command line: words -> one frozen value for each command; what is wrong is one sentence and exit code 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NoReturn

import gpu_dra

Form = Literal["text", "wide", "json", "yaml", "svg"]
Colour = Literal["auto", "always", "never"]

_PROGRAM: Final = "kubectl gpu"


@dataclass(frozen=True, slots=True)
class Cluster:
    """Which cluster, in kubectl's words; None is kubectl's own choice."""

    kubeconfig: Path | None = None
    context: str | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """`status`: no names are all nodes."""

    cluster: Cluster
    nodes: tuple[str, ...]
    form: Form


@dataclass(frozen=True, slots=True)
class Topology:
    """`topology`: of a node, or of a pasted table (`-` is stdin)."""

    cluster: Cluster
    node: str | None
    file: str | None
    form: Form
    colour: Colour


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def read(arguments: Sequence[str]) -> Status | Topology:
    """Exits by itself after --help, --version and a wrong word, as argparse does."""
    parser = _build()
    if list(arguments[:1]) == ["help"]:
        arguments = [*arguments[1:2], "--help"]
    if list(arguments[:1]) == ["version"]:
        arguments = ["--version"]
    if not arguments:
        parser.print_help(sys.stderr)
        parser.exit(2)
    options = parser.parse_args(arguments)
    cluster = Cluster(options.kubeconfig, options.context)
    if options.command == "status":
        return Status(cluster, tuple(dict.fromkeys(options.nodes)), options.output)
    wanted = Topology(cluster, options.node, options.file, options.output, options.color)
    if wanted.node is None and wanted.file is None:
        options.parser.error("which node? give NODE, or --file FILE for a table of nvidia-smi topo -m")
    if wanted.node is not None and wanted.file is not None:
        options.parser.error("NODE and --file were both given; give one of them")
    if wanted.file == "":
        options.parser.error("--file is empty; give a file, or - for stdin")
    return wanted


def _build() -> argparse.ArgumentParser:
    # No abbreviations: a new option of a later version must not change what a script's --out means.
    parser = _Parser(
        prog=_PROGRAM,
        description="Shows the GPUs of a cluster: who holds them, and how they are connected.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"kubectl-gpu {gpu_dra.__version__}")
    _add_cluster(parser, None)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    status = commands.add_parser(
        "status",
        help="the GPUs of all nodes: free, held, unhealthy",
        description="A line for each node, and below it what is wrong with it.",
        allow_abbrev=False,
    )
    status.add_argument("nodes", nargs="*", metavar="NODE", help="these nodes only")
    status.add_argument(
        "-o", "--output", choices=("text", "wide", "json", "yaml"), default="text", help="form (default: text)"
    )
    _add_cluster(status, argparse.SUPPRESS)

    topology = commands.add_parser(
        "topology",
        help="how the GPUs and NICs of a node are connected",
        description="The matrix of links, what hangs where, and the NVLink meshes of a node or of a pasted table.",
        allow_abbrev=False,
    )
    topology.add_argument("node", nargs="?", metavar="NODE", help="the node's name")
    topology.add_argument(
        "--file", metavar="FILE", help="read the output of nvidia-smi topo -m from a file (- is stdin), ask no cluster"
    )
    topology.add_argument(
        "-o", "--output", choices=("text", "json", "yaml", "svg"), default="text", help="form (default: text)"
    )
    topology.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colour the words of the matrix; auto: on a terminal, unless NO_COLOR is set (default: auto)",
    )
    _add_cluster(topology, argparse.SUPPRESS)
    topology.set_defaults(parser=topology)
    return parser


def _add_cluster(parser: argparse.ArgumentParser, default: str | None) -> None:
    """Before and after the command, as kubectl has it."""
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", default=default, help="default: $KUBECONFIG, else ~/.kube/config"
    )
    parser.add_argument("--context", metavar="NAME", default=default, help="a context of the kubeconfig")
