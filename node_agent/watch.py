"""Look at the hardware again when the kernel says that something came or went, and from time to time anyway."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from node_agent import presence
from node_agent.presence import Presence
from node_agent.readings import NodeReading

_log = logging.getLogger(__name__)

RESCAN: Final = 60.0
"""Seconds between two looks when the kernel says nothing: it may have said so while nobody listened."""
_SETTLE: Final = 0.3
"""Seconds to wait after news: a card that comes brings a dozen events, and its device nodes come last."""


class Watch:
    """Keeps `presence` up to date. `news` returns when the hardware may have changed; `changed` is told when it has."""

    def __init__(
        self,
        read: Callable[[], Awaitable[NodeReading]],
        news: Callable[[], Awaitable[None]],
        changed: Callable[[NodeReading], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._read = read
        self._news = news
        self._changed = changed
        self._clock = clock
        self._sleep = sleep
        self._presence: Presence | None = None

    async def look(self) -> NodeReading:
        """Read once, and tell `changed` where the outcome differs from the last, or is the first."""
        before = self._presence
        self._presence = presence.settle(before, await self._read(), self._clock())
        reading = self._presence.reading
        for uuid in set(self._presence.missing_since) - set(before.missing_since if before else ()):
            _log.warning("a GPU is not seen any more", extra={"uuid": uuid, "grace": presence.GRACE})
        if before is None or before.reading != reading:
            self._tell(before.reading if before else NodeReading(), reading)
            self._changed(reading)
        return reading

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.look()
            await self._wait()

    async def _wait(self) -> None:
        again = self._presence.look_again_at() if self._presence else None
        limit = RESCAN if again is None else max(0.0, again - self._clock())
        news = asyncio.ensure_future(self._news())
        timer = asyncio.ensure_future(self._sleep(limit))
        try:
            done, _ = await asyncio.wait({news, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
            timer.cancel()
            await asyncio.gather(news, timer, return_exceptions=True)
        if news in done:
            await self._sleep(_SETTLE)

    @staticmethod
    def _tell(before: NodeReading, after: NodeReading) -> None:
        old, new = ({gpu.uuid for gpu in reading.gpus} for reading in (before, after))
        for uuid in sorted(new - old):
            _log.info("a GPU came", extra={"uuid": uuid})
        for uuid in sorted(old - new):
            _log.warning("a GPU is gone", extra={"uuid": uuid})
        if before.reason != after.reason and after.reason:
            _log.warning("no devices", extra={"reason": after.reason})
