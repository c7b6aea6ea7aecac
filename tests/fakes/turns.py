"""Let other tasks of the loop run until something is so; on a test's own clock, where no time passes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(check: Callable[[], object], *, within: float = 30.0) -> None:
    """Return when `check` is true; TimeoutError keeps a broken test from hanging."""
    async with asyncio.timeout(within):
        while not check():  # noqa: ASYNC110 - the code under test must not know an event of the test's
            await asyncio.sleep(0)
