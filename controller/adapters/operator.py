"""kopf, as a watcher only: every change of a DeviceClass is passed on, and kopf itself writes nothing anywhere.

Only `on.event` handlers are registered. Those for creation, update and deletion would have kopf annotate every object it
sees, and put a finalizer on it: on other people's classes, too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import kopf

from gpu_dra.api import JsonObject
from gpu_dra.kube.connection import Connection
from gpu_dra.names import RESOURCE_GROUP

_BACKOFFS: Final = (1.0, 1.0, 2.0, 3.0, 5.0, 8.0)
_LAST_BACKOFF: Final = 10.0


async def watch(
    connection: Connection, version: str, notice: Callable[[JsonObject], None], *, on_started: Callable[[], None]
) -> None:
    """Pass every change on until cancelled.

    `on_started` is called when kopf runs, and has taken the process's signals for itself; one that comes before makes
    it stop, and this return.
    """
    # Its lines are about itself: logins, streams, each handler call.
    logging.getLogger("kopf").setLevel(max(logging.WARNING, logging.getLogger().level))
    ready = asyncio.Event()

    async def tell() -> None:
        await ready.wait()
        on_started()

    teller = asyncio.create_task(tell())
    try:
        await kopf.operator(
            registry=_registry(connection, version, notice),
            settings=_settings(),
            ready_flag=ready,
            # Only for peering, which is off; without one kopf looks for the name of the process's user, and in an image
            # the number of a container's user has no name.
            identity=cast("Any", "gpu-dra-controller"),
            standalone=True,
            clusterwide=True,
        )
    finally:
        teller.cancel()


def _registry(connection: Connection, version: str, notice: Callable[[JsonObject], None]) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def log_in(**_: Any) -> kopf.ConnectionInfo:
        """Called again after a 401: the token may have been rotated since."""
        return _credentials(connection)

    @kopf.on.event(RESOURCE_GROUP, version, "deviceclasses", registry=registry)
    async def device_class_changed(event: Any, **_: Any) -> None:
        # Nothing is returned: kopf would store it in the object's status.
        notice(event["object"])

    del log_in, device_class_changed
    return registry


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    # Looking for new kinds and namespaces needs rights that this program has no other use for.
    settings.scanning.disabled = True
    settings.networking.error_backoffs = _Forever()
    # Otherwise kopf kills the process some minutes after it has ended, whatever else still runs in it.
    settings.process.ultimate_exiting_timeout = None
    return settings


class _Forever:
    """Delays without an end: an API server that is away for an hour must not end the program."""

    def __iter__(self) -> Iterator[float]:
        yield from _BACKOFFS
        while True:
            yield _LAST_BACKOFF


def _credentials(connection: Connection) -> kopf.ConnectionInfo:
    token = connection.token_file.read_text().strip() if connection.token_file else connection.token
    certificate, key = connection.client_cert or (None, None)
    return kopf.ConnectionInfo(
        server=connection.server,
        ca_path=connection.ca_file,
        insecure=not connection.verify,
        token=token,
        certificate_path=certificate,
        private_key_path=key,
    )
