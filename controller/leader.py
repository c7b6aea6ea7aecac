"""Hold the lease that lets one replica work: wait for it, keep it, give it back.

Whoever holds it works only while `check` passes. Losing it ends the process: a fresh start is the one state from which
nothing half done can follow.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final

from controller import lease
from controller.lease import Lease, Sighting
from controller.ports import LeaseStore, Outdated
from gpu_dra.errors import GpuDraError

_log = logging.getLogger(__name__)

_RELEASE: Final = 5.0
"""Seconds for giving the lease back: less than a pod has for its end."""


class LeaseLost(GpuDraError):
    """Another replica may be working now."""


class Leader:
    """One replica's part in the election; `on_looked` is called after each look at the lease that the server answered."""

    def __init__(
        self,
        store: LeaseStore,
        identity: str,
        *,
        on_looked: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._identity = identity
        self._on_looked = on_looked
        self._clock = clock
        self._sleep = sleep
        self._held: Lease | None = None
        self._renewed = float("-inf")

    async def acquire(self) -> None:
        """Return when we hold the lease, however long that takes."""
        sighting: Sighting | None = None
        said = ""
        while True:
            try:
                sighting = await self._look(sighting)
            except GpuDraError as problem:
                if str(problem) != said and not isinstance(problem, Outdated):
                    said = str(problem)
                    _log.warning("cannot look at the lease, trying again", extra={"problem": said})
            else:
                said = ""
                if self._held is not None:
                    _log.info("leading", extra={"identity": self._identity, "transitions": self._held.transitions})
                    return
            # Not in step with the other replicas, which would make them collide each time.
            await self._sleep(lease.RETRY * random.uniform(0.9, 1.3))  # noqa: S311 - jitter, not a secret

    async def keep(self) -> None:
        """Renew until cancelled; LeaseLost once the lease is another's, or could not be renewed in time."""
        while True:
            await self._sleep(lease.RETRY)
            problem = "no answer in time"
            try:
                async with asyncio.timeout(max(0.1, lease.RENEW_DEADLINE - self._age())):
                    await self._renew()
                    continue
            except LeaseLost:
                raise
            except (GpuDraError, TimeoutError) as failure:
                problem = str(failure) or problem
            if self._age() >= lease.RENEW_DEADLINE:
                raise LeaseLost(
                    f"the lease could not be renewed for {self._age():.0f} seconds ({problem}); another replica may lead."
                )
            _log.warning("cannot renew the lease, trying again", extra={"problem": problem})

    async def release(self) -> None:
        """Give the lease back if we hold it; a failure only means that the next replica waits for its end."""
        if self._held is None:
            return
        held, self._held = self._held, None
        try:
            async with asyncio.timeout(_RELEASE):
                await self._store.write(lease.released(held, _wall_clock()))
        except (GpuDraError, TimeoutError) as problem:
            _log.warning("cannot release the lease, which ends by itself", extra={"problem": str(problem)})
        else:
            _log.info("released the lease", extra={"identity": self._identity})

    def check(self) -> None:
        """LeaseLost where the lease may have ended, as after this machine stood still for a while."""
        if self._held is None or self._age() >= lease.RENEW_DEADLINE:
            raise LeaseLost(f"the lease was last renewed {self._age():.0f} seconds ago; another replica may lead.")

    async def _look(self, before: Sighting | None) -> Sighting | None:
        """Read the lease, and take it where it is free."""
        current = await self._store.read()
        self._on_looked()
        now = self._clock()
        sighting = None if current is None else lease.seen(before, current, now)
        if sighting is None or lease.is_free(sighting, self._identity, now):
            self._held = await self._store.write(lease.taken(current, self._identity, _wall_clock()))
            self._renewed = now
        elif before is None or before.lease.holder != sighting.lease.holder:
            _log.info("standing by", extra={"leader": sighting.lease.holder})
        return sighting

    async def _renew(self) -> None:
        if self._held is None:
            raise LeaseLost("the lease is not held.")
        started = self._clock()
        try:
            self._held = await self._store.write(lease.taken(self._held, self._identity, _wall_clock()))
        except Outdated:
            # Somebody wrote it: another replica, or a person who only added a label.
            current = await self._store.read()
            if current is None or current.holder != self._identity:
                holder = "nobody" if current is None else current.holder or "nobody"
                self._held = None
                raise LeaseLost(f"the lease was taken away; it is now held by {holder}.") from None
            self._held = await self._store.write(lease.taken(current, self._identity, _wall_clock()))
        self._renewed = started
        self._on_looked()

    def _age(self) -> float:
        return self._clock() - self._renewed


def _wall_clock() -> str:
    """MicroTime, as the API has it; only for people, nothing here reads it."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
