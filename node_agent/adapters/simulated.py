"""The simulated backend: a profile file in place of hardware, with real character device nodes in a folder of its own."""

from __future__ import annotations

import os
import stat
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Final

import yaml

from gpu_dra.errors import HostError, InputError
from node_agent import profile
from node_agent.profile import Profile
from node_agent.readings import DeviceNode, NodeReading

_REAL_DRIVERS: Final = {
    "proc/driver/nvidia/version": "the NVIDIA kernel driver",
    "sys/module/nvidia": "the NVIDIA kernel driver",
    "sys/module/ib_uverbs": "the InfiniBand verbs driver",
}


def load(name: str) -> Profile:
    """A profile by the name of one that comes with the agent, or by the path of a YAML file (anything with / or .yaml)."""
    shipped = {
        entry.name.removesuffix(".yaml"): entry
        for entry in (resources.files("node_agent") / "profiles").iterdir()
        if entry.name.endswith(".yaml")
    }
    if "/" not in name and not name.endswith((".yaml", ".yml")):
        if name not in shipped:
            raise profile.unknown(name, list(shipped))
        text, where = shipped[name].read_text(), f"the profile {name}"
    else:
        where = name
        try:
            text = Path(name).read_text()
        except (OSError, UnicodeDecodeError) as problem:
            raise InputError(name, [f"the profile cannot be read: {problem}"]) from problem
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError, OverflowError) as problem:
        # The last four are what PyYAML lets through where a date, a number, a character or a tagged value cannot be made.
        words = " ".join(str(problem).split()) or type(problem).__name__
        raise InputError(where, [f"this is no YAML that can be read: {words}"]) from problem
    return profile.decode(data, where)


def refuse_beside_a_real_driver(root: Path, *, nics: bool) -> None:
    """HostError where a real driver is loaded: a simulated node would have the numbers of a real device."""
    for path, words in _REAL_DRIVERS.items():
        if "ib_uverbs" in path and not nics:
            continue
        if (root / path).exists():
            raise HostError(
                f"{words} is loaded on this node ({root / path} exists), so it will not be simulated:"
                " the simulated devices would carry the numbers of real ones. Start without --simulate."
            )


class SimulatedNode:
    """One node of a profile. Device nodes are made below `dev_root`; with None they are only described (demo)."""

    def __init__(self, simulated: Profile, node: str, dev_root: Path | None) -> None:
        self._reading = profile.readings(simulated, node, None if dev_root is None else PurePosixPath(dev_root))

    def read(self) -> NodeReading:
        """The readings, after the device nodes are there with the right numbers; HostError where they cannot be made."""
        reading = self._reading
        everything = [*reading.gpu_common_nodes, *reading.nic_common_nodes]
        everything += [node for gpu in reading.gpus for node in gpu.nodes]
        everything += [node for nic in reading.nics for node in nic.nodes]
        for node in everything:
            if node.host_path is not None:
                _make(node, Path(node.host_path))
        return reading


def _make(node: DeviceNode, path: Path) -> None:
    wanted = os.makedev(node.major, node.minor)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            found = path.lstat()
        except FileNotFoundError:
            pass
        else:
            if stat.S_ISCHR(found.st_mode) and found.st_rdev == wanted:
                return
            path.unlink()
        os.mknod(path, 0o666 | stat.S_IFCHR, wanted)
        # mknod applies the umask, and a container's user is not the agent's.
        path.chmod(0o666)
    except OSError as problem:
        raise HostError(
            f"cannot make the device node {path} ({node.major}:{node.minor}): {problem.strerror}."
            " A simulated node needs root with CAP_MKNOD and a file system that holds device nodes."
        ) from problem
