"""What one driver offers now: the devices that were found, in the order that keeps meshes whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final

from gpu_dra.names import DeviceName
from node_agent import order
from node_agent.inventory import Inventory
from node_agent.slices import WantedPool

_SOON: Final = 0.5
_APART: Final = 5.0
"""Seconds from a claim to the new order, and between two: an order is a hint, and each costs a write."""


class Offer:
    """`changed` is called when `wanted` is another one. Belongs to one event loop, except where said."""

    def __init__(
        self,
        pool: WantedPool,
        found: Inventory,
        held: Callable[[], Collection[DeviceName]],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._held = held
        self._changed = changed
        self._timer: asyncio.TimerHandle | None = None
        self._last = float("-inf")
        self.inventory = found
        self.wanted = replace(pool, devices=order.arranged(found.devices, held()))

    def replace(self, found: Inventory) -> None:
        """The hardware is another one now."""
        self.inventory = found
        self._arrange()

    def claims_changed(self) -> None:
        """A claim came or went: arrange the devices anew before long."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            at = max(loop.time() + _SOON, self._last + _APART)
            self._timer = loop.call_at(at, self._claims_settled)

    def _claims_settled(self) -> None:
        self._timer = None
        if self._arrange():
            self._last = asyncio.get_running_loop().time()

    def _arrange(self) -> bool:
        wanted = replace(self.wanted, devices=order.arranged(self.inventory.devices, self._held()))
        if wanted == self.wanted:
            return False
        self.wanted = wanted
        self._changed()
        return True
