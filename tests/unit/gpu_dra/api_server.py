"""A small real HTTP server in the place of the API server: it says what a test wants said and keeps what it was asked."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


def status(code: int, reason: str, message: str, **headers: str) -> web.Response:
    details = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return web.json_response(details, status=code, headers=headers)


@dataclass
class ApiServer:
    """Gives its answers in turn, the last one from then on; asks for `token`, where it is set."""

    answers: list[Any] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    token: str | None = None
    address: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.text()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.asked.append(
            Asked(request.method, request.raw_path, dict(request.query), headers, json.loads(body) if body else None)
        )
        if self.token is not None and request.headers.get("Authorization") != f"Bearer {self.token}":
            return status(401, "Unauthorized", "Unauthorized")
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, web.Response):
            return answer
        if isinstance(answer, bytes):
            return web.Response(body=answer)
        if isinstance(answer, list):
            return await self.stream(request, answer)
        return web.json_response(answer)

    async def stream(self, request: web.Request, chunks: list[bytes | asyncio.Event | None]) -> web.StreamResponse:
        """The chunks as a body; an event is waited for, None cuts the connection."""
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            if chunk is None:
                assert request.transport is not None
                request.transport.abort()
                return response
            if isinstance(chunk, asyncio.Event):
                await chunk.wait()
            else:
                await response.write(chunk)
        return response
