"""The claims kept in files, and their CDI files.

Layout below a driver's folder: claims/<uid>.json (the reservation), held/<device> (a link that names the claim's file, so
that finding a device's holder costs the same with one claim as with a thousand), set-aside/ (files that could not be
read), lock. A link whose file is gone means nothing. Every writer holds the lock of its claim or device, so a temporary
file that is there while nobody holds the lock is what a crash left.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_dra.errors import ClaimError, GpuDraError, HostError, InputError, Unavailable
from gpu_dra.names import ClaimUid, DeviceName
from node_agent import cdi, checkpoint
from node_agent.adapters.locks import FileLocks
from node_agent.adapters.whole_files import final_name, is_temporary, listing, remove, temporary, write_whole
from node_agent.checkpoint import PreparedClaim
from node_agent.ports import DeviceHeld

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sweep:
    """What was found when the agent started: kept claims, files set aside (with the reason), CDI files removed."""

    claims: tuple[PreparedClaim, ...]
    set_aside: tuple[str, ...]
    removed: tuple[str, ...]


class ClaimFiles:
    """The kept claims and the CDI files of one driver. Every method blocks and is safe in threads and across processes."""

    def __init__(self, driver: str, state: Path, cdi_root: Path) -> None:
        self._driver = driver
        self._claims = state / "claims"
        self._held = state / "held"
        self._set_aside = state / "set-aside"
        self._cdi = cdi_root
        self._locks = FileLocks(state / "lock")

    def open(self) -> Sweep:
        """Make the folders, set aside what cannot be read, drop what a crash left over. Idempotent."""
        try:
            for folder in (self._claims, self._held, self._set_aside, self._cdi):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise HostError(f"cannot make the folder {problem.filename}: {problem.strerror}") from problem
        # Seen first: a claim is kept before its CDI file is written and dropped after it is removed, so a CDI file that
        # has no kept claim afterwards belongs to nobody, even with another agent at work.
        orphans = {uid for path in listing(self._cdi) if (uid := self._uid_of_cdi(path.name)) is not None}
        claims: list[PreparedClaim] = []
        set_aside: list[str] = []
        for path in listing(self._claims):
            if is_temporary(path):
                orphans.add(ClaimUid(final_name(path.name).removesuffix(".json")))
                continue
            try:
                claim = _read(path)
            except FileNotFoundError:
                continue
            except (InputError, OSError) as problem:
                set_aside.append(self._put_aside(path, problem))
                continue
            claims.append(claim)
            self._link_again(claim)
        for link in listing(self._held):
            if _is_left_over(link):
                self._remove_link(link)
        removed = [uid for uid in sorted(orphans) if cdi.is_safe_uid(uid) and self._remove_left_over(uid)]
        return Sweep(tuple(claims), tuple(set_aside), tuple(removed))

    def load(self, uid: ClaimUid) -> PreparedClaim | None:
        """The kept claim, or None. A file that cannot be read is set aside and counts as none."""
        path = self._path(uid)
        try:
            return _read(path)
        except FileNotFoundError:
            return None
        except InputError as problem:
            _log.error(
                "a state file cannot be read; its claim must be prepared again",
                extra={"problem": self._put_aside(path, problem)},
            )
            return None
        except OSError as problem:
            raise HostError(f"cannot read {path}: {problem.strerror}") from problem

    def commit(self, claim: PreparedClaim, spec: dict[str, Any], still_wanted: threading.Event) -> None:
        """Reserve the claim's devices, keep the claim, write its CDI file: all of it or nothing (more than there was).

        DeviceHeld where another claim has one of the devices. `still_wanted` is looked at under the claim's lock: a
        Prepare that was overtaken by its own Unprepare leaves nothing.
        """
        with self._locks.hold(_lock_names(claim.uid, claim.reserved)):
            if not still_wanted.is_set():
                raise ClaimError(f"claim {claim.reference} was unprepared while it was being prepared")
            for device in claim.reserved:
                holder = self._holder(device)
                if holder is not None and holder.uid != claim.uid:
                    raise DeviceHeld(device, holder)
            kept = self._path(claim.uid).exists()
            try:
                self._link(claim)
                write_whole(self._path(claim.uid), checkpoint.encode(claim))
                self._write_cdi(claim.uid, spec)
            except GpuDraError:
                # Undo in the order of Unprepare; the second failure must not hide the first.
                if not kept:
                    self._drop(claim.uid, claim.reserved, quiet=True)
                raise

    def restore(self, claim: PreparedClaim, spec: dict[str, Any]) -> None:
        """Keep and publish a kept claim again; does nothing where it has been released meanwhile."""
        with self._locks.hold(_lock_names(claim.uid, ())):
            if self._path(claim.uid).exists():
                # The new boot id last: beside a CDI file with the numbers of an earlier boot it would vouch for them.
                self._write_cdi(claim.uid, spec)
                write_whole(self._path(claim.uid), checkpoint.encode(claim))

    def has_cdi(self, uid: ClaimUid) -> bool:
        return (self._cdi / cdi.file_name(self._driver, uid)).is_file()

    def release(self, uid: ClaimUid) -> bool:
        """Remove the CDI file, then the kept claim; True where there was one. HostError leaves the devices reserved."""
        # Which devices the claim has is read before the locks are taken: they are taken in one order, all at once.
        # A claim's devices never change, so the answer is still right under the locks.
        path = self._path(uid)
        try:
            reserved = _read(path).reserved
        except (InputError, OSError):
            # Unprepare must work from the uid alone; links to a file that is gone mean nothing anyway.
            reserved = ()
        with self._locks.hold(_lock_names(uid, reserved)):
            return self._drop(uid, reserved, quiet=False)

    def count(self) -> int:
        """How many claims are kept now."""
        return sum(not is_temporary(path) for path in listing(self._claims))

    def _drop(self, uid: ClaimUid, reserved: Iterable[DeviceName], *, quiet: bool) -> bool:
        try:
            self._remove_cdi(uid)
            found = remove(self._path(uid))
        except HostError:
            if quiet:
                return False
            raise
        target = self._target(uid)
        for device in reserved:
            link = self._held / device
            if _points_to(link, target):
                with contextlib.suppress(OSError):
                    link.unlink()
        return found

    def _holder(self, device: DeviceName) -> PreparedClaim | None:
        try:
            target = (self._held / device).readlink()
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise HostError(f"cannot read {self._held / device}: {problem.strerror}") from problem
        holder = self.load(ClaimUid(target.name.removesuffix(".json")))
        # The link may be of an earlier allocation of that claim, if its file could not be read when it was released.
        return holder if holder is not None and device in holder.reserved else None

    def _link_again(self, claim: PreparedClaim) -> None:
        target = self._target(claim.uid)
        if all(_points_to(self._held / device, target) for device in claim.reserved):
            return
        with self._locks.hold(_lock_names(claim.uid, claim.reserved)):
            # Another agent may have released it meanwhile, and given the device to somebody else.
            if self._path(claim.uid).exists():
                self._link(claim)

    def _link(self, claim: PreparedClaim) -> None:
        target = self._target(claim.uid)
        for device in claim.reserved:
            link = self._held / device
            unfinished = temporary(link)
            try:
                if _points_to(link, target):
                    continue
                unfinished.unlink(missing_ok=True)
                unfinished.symlink_to(target)
                unfinished.rename(link)
            except OSError as problem:
                raise HostError(f"cannot reserve {device} in {self._held}: {problem.strerror}") from problem

    def _write_cdi(self, uid: ClaimUid, spec: dict[str, Any]) -> None:
        # The folder is on tmpfs and may have been emptied since the start. Nothing of it need outlive a power cut: the
        # kept claim does, and from that the file is made again after each boot.
        path = self._cdi / cdi.file_name(self._driver, uid)
        write_whole(path, json.dumps(spec, indent=1).encode() + b"\n", mode=0o644, durable=False)

    def _remove_cdi(self, uid: ClaimUid) -> bool:
        return remove(self._cdi / cdi.file_name(self._driver, uid))

    def _remove_left_over(self, uid: ClaimUid) -> bool:
        """Remove what a crash left of a claim; True where that was the CDI file of one that is not kept."""
        # Where another agent is just at it, there is nothing to do, or the next start does it.
        with contextlib.suppress(Unavailable), self._locks.hold(_lock_names(uid, ())):
            remove(temporary(self._path(uid)))
            remove(temporary(self._cdi / cdi.file_name(self._driver, uid)))
            return not self._path(uid).exists() and self._remove_cdi(uid)
        return False

    def _remove_link(self, link: Path) -> None:
        device = DeviceName(final_name(link.name))
        with contextlib.suppress(Unavailable), self._locks.hold([_device_lock(device)]):
            if _is_left_over(link):
                remove(link)

    def _uid_of_cdi(self, name: str) -> ClaimUid | None:
        return cdi.uid_of(self._driver, final_name(name))

    def _path(self, uid: ClaimUid) -> Path:
        if not cdi.is_safe_uid(uid):
            raise ClaimError(f"{uid!r} cannot be a claim's uid; an API server gives each claim a UUID")
        return self._claims / f"{uid}.json"

    def _target(self, uid: ClaimUid) -> str:
        return f"../claims/{uid}.json"

    def _put_aside(self, path: Path, problem: Exception) -> str:
        aside = self._set_aside / f"{path.name}.{time.time_ns()}"
        try:
            path.rename(aside)
        except OSError as second:
            return f"{problem}; and it cannot be moved to {aside}: {second.strerror}"
        return f"{problem}; it is kept as {aside}"


def _lock_names(uid: ClaimUid, devices: Iterable[DeviceName]) -> list[str]:
    return [f"claim {uid}", *(_device_lock(device) for device in devices)]


def _device_lock(device: DeviceName) -> str:
    return f"device {device}"


def _read(path: Path) -> PreparedClaim:
    claim = checkpoint.decode(path.read_bytes(), str(path))
    if f"{claim.uid}.json" != path.name:
        raise InputError(str(path), [f"holds the claim {claim.uid}, which is not its name"])
    return claim


def _points_to(link: Path, target: str) -> bool:
    try:
        return str(link.readlink()) == target
    except OSError:
        return False


def _is_left_over(link: Path) -> bool:
    return is_temporary(link) or not link.exists()
