"""The kubelet's part: find a driver by its registration socket, then call it over the socket that it names."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio

from gpu_dra.errors import ClaimError
from gpu_dra.names import ClaimUid
from gpu_dra.resource_claim import ResourceClaim
from node_agent.kubelet_api import (
    DRA_SERVICES,
    REGISTRATION,
    SUPPORTED,
    Claim,
    Empty,
    InfoRequest,
    PluginInfo,
    PrepareResponse,
    RegistrationStatus,
    UnprepareResponse,
)
from node_agent.kubelet_api import Claims as ClaimList


@dataclass(frozen=True, slots=True)
class Plugin:
    """A driver as the kubelet knows it after registration. `service` is the name of the version that both speak."""

    driver: str
    endpoint: str
    service: str
    channel: Any

    async def prepare(self, claims: Sequence[ResourceClaim]) -> dict[ClaimUid, tuple[str, ...]]:
        """One NodePrepareResources for the claims; the CDI ids of each. ClaimError with the agent's own words."""
        response = await self._call("NodePrepareResources", claims, PrepareResponse)
        for answer in response.claims.values():
            if answer.error:
                raise ClaimError(answer.error)
        return {
            ClaimUid(uid): tuple(cdi_id for device in answer.devices for cdi_id in device.cdi_device_ids)
            for uid, answer in response.claims.items()
        }

    async def unprepare(self, claims: Sequence[ResourceClaim]) -> None:
        """One NodeUnprepareResources for the claims."""
        response = await self._call("NodeUnprepareResources", claims, UnprepareResponse)
        for answer in response.claims.values():
            if answer.error:
                raise ClaimError(answer.error)

    async def _call(self, method: str, claims: Sequence[ResourceClaim], answer: Any) -> Any:
        request = ClaimList(claims=[Claim(namespace=each.namespace, uid=each.uid, name=each.name) for each in claims])
        return await _call(self.channel, self.service, method, request, answer)


@asynccontextmanager
async def register(socket: Path) -> AsyncGenerator[Plugin, None]:
    """Register the driver behind this socket as the kubelet does, and keep a connection to it."""
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        info: PluginInfo = await _call(channel, REGISTRATION, "GetInfo", InfoRequest(), PluginInfo)
        await _call(
            channel, REGISTRATION, "NotifyRegistrationStatus", RegistrationStatus(plugin_registered=True), Empty
        )
    known = dict(zip(SUPPORTED, DRA_SERVICES, strict=True))
    service = next(known[version] for version in info.supported_versions if version in known)
    async with grpc.aio.insecure_channel(f"unix:{info.endpoint}") as channel:
        yield Plugin(info.name, info.endpoint, service, channel)


async def _call(channel: Any, service: str, method: str, request: Any, answer: Any) -> Any:
    call = channel.unary_unary(
        f"/{service}/{method}",
        request_serializer=type(request).SerializeToString,
        response_deserializer=answer.FromString,
    )
    return await call(request, timeout=10)
