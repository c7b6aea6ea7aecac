"""The kubectl plugin: `kubectl gpu status`, `kubectl gpu topology NODE`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TextIO

from gpu_dra import link_matrix
from gpu_dra.errors import GpuDraError, InputError
from gpu_dra.gpu_node import GpuNode
from kubectl_gpu import arguments, document, matrix, status, svg, tree
from kubectl_gpu.arguments import Cluster, Colour, Status, Topology

_MOST_BYTES: Final = 4 << 20
"""A table of 250 GPUs has 300 kB; what is larger was named by mistake (/dev/zero has no end)."""


def main(words: Sequence[str] | None = None) -> int:
    """Exit 2 where a person has to change a word, a file or the cluster, 1 where it may work later."""
    options = arguments.read(sys.argv[1:] if words is None else words)
    try:
        text = _status(options) if isinstance(options, Status) else _topology(options, sys.stdout, os.environ)
    except GpuDraError as problem:
        print(f"kubectl gpu: {problem}", file=sys.stderr)
        return 2 if isinstance(problem, InputError) else 1
    except KeyboardInterrupt:
        return 130
    return _write(text)


def _status(options: Status) -> str:
    nodes = _nodes(options.cluster, options.nodes)
    if options.form in ("json", "yaml"):
        return document.dump(document.status(nodes), options.form)
    return _joined(status.lines(nodes, wide=options.form == "wide"))


def _topology(options: Topology, out: TextIO, environment: Mapping[str, str]) -> str:
    if options.file is not None:
        node = _pasted(options.file)
    else:
        (node,) = _nodes(options.cluster, [options.node or ""])
    if options.form in ("json", "yaml"):
        return document.dump(document.topology(node), options.form)
    if options.form == "svg":
        return svg.drawing(node)
    return _joined(_shown(node, colour=_wants_colour(options.colour, out, environment)))


def _shown(node: GpuNode, *, colour: bool) -> Iterator[str]:
    yield tree.heading(node)
    if node.reason:
        yield f"Nothing is offered: {node.reason}"
    if node.gpus or node.nics:
        yield ""
        yield from matrix.lines(node, colour=colour)
        yield ""
        yield from tree.lines(node)
        yield ""
    yield from tree.meshes(node)


def _nodes(cluster: Cluster, names: Sequence[str]) -> list[GpuNode]:
    try:
        # Here: a pasted table needs no cluster, and the library takes a quarter of a second.
        from kubectl_gpu import client  # noqa: PLC0415
    except ModuleNotFoundError as problem:
        raise InputError(
            "this installation", [f"the package of {problem.name} is missing; install gpu-dra with the extra `cli`"]
        ) from problem
    with client.connect(cluster.kubeconfig, cluster.context) as fleet:
        return fleet.of(names) if names else fleet.all()


def _pasted(file: str) -> GpuNode:
    name = "stdin" if file == "-" else file
    try:
        if file == "-":
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise InputError(name, [f"it cannot be read: {reason}"]) from problem
    if len(data) > _MOST_BYTES:
        raise InputError(name, ["it is far too large for a table of nvidia-smi topo -m"])
    # PowerShell and some editors write UTF-16.
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    found = link_matrix.parse(data.decode(encoding, errors="replace"), name)
    return link_matrix.to_gpu_node(found, "stdin" if file == "-" else Path(file).name)


def _wants_colour(colour: Colour, out: TextIO, environment: Mapping[str, str]) -> bool:
    if colour == "auto":
        return out.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
    return colour == "always"


def _joined(lines: Iterator[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _write(text: str) -> int:
    encoding = sys.stdout.encoding or "utf-8"
    try:
        # A terminal that has no such letter still gets the rest.
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        # `| head` has read enough; without this Python complains once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as problem:
        print(f"kubectl gpu: the output cannot be written: {problem.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
