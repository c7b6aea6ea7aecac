"""Keep the node's GpuNode as it should be: soon after a change, rarely, and not at all while nothing changes."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from gpu_dra.errors import GpuDraError
from gpu_dra.gpu_node import GpuNode
from node_agent.ports import GpuNodeStore

_log = logging.getLogger(__name__)

_SOON: Final = 1.0
_APART: Final = 5.0
"""Seconds from a change to the write, and between two: claims come in bursts, and people read this, not programs."""
RESYNC: Final = 600.0
"""Seconds after which the stored object is looked at again: nobody watches it for us."""
_RETRY: Final = (5.0, 300.0)


class Reporter:
    """`describe` gives the node as it is now, or None while nobody knows."""

    def __init__(
        self,
        describe: Callable[[], GpuNode | None],
        store: GpuNodeStore,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._describe = describe
        self._store = store
        self._sleep = sleep
        self._woken = asyncio.Event()
        self._written: GpuNode | None = None

    def wake(self) -> None:
        """Say that something may have changed."""
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled. A GpuNode is for people to read: that it cannot be written holds up nothing."""
        delay, said = _RETRY[0], ""
        while True:
            self._woken.clear()
            try:
                await self.reconcile()
            except GpuDraError as problem:
                if str(problem) != said:
                    _log.warning("the GpuNode cannot be written", extra={"problem": str(problem)})
                said = str(problem)
                await self._sleep(delay * random.uniform(0.8, 1.2))  # noqa: S311 - jitter
                delay = min(2 * delay, _RETRY[1])
                continue
            delay, said = _RETRY[0], ""
            await self._sleep(_APART - _SOON)
            try:
                await asyncio.wait_for(self._woken.wait(), RESYNC * random.uniform(0.8, 1.2))  # noqa: S311 - jitter
                await self._sleep(_SOON)
            except TimeoutError:
                # Somebody may have deleted or changed it.
                self._written = None

    async def reconcile(self) -> bool:
        """Write the node if it is not what was written last; whether it was written."""
        wanted = self._describe()
        if wanted is None or wanted == self._written:
            return False
        written = await self._store.write(wanted)
        self._written = wanted
        return written
