"""Watches of the API client: events however they are cut into pieces, and a sentence for how a watch can break."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gpu_dra.errors import Unavailable
from gpu_dra.kube import client
from gpu_dra.kube.client import ApiError, KubeClient, NotFound, WatchEvent
from tests.unit.gpu_dra.api_server import ApiServer, status

SLICES = "/apis/resource.k8s.io/v1/resourceslices"


def line(kind: str, **content: Any) -> bytes:
    return json.dumps({"type": kind, "object": content}).encode() + b"\n"


async def watched(kube: KubeClient) -> list[WatchEvent]:
    return [event async for event in kube.watch(SLICES, "7")]


async def collect(kube: KubeClient, seen: list[str], received: asyncio.Event | None = None) -> None:
    async for event in kube.watch(SLICES, "7"):
        seen.append(event.type)
        if received is not None:
            received.set()


async def seen_before(kube: KubeClient, error: type[Exception]) -> tuple[list[str], Exception]:
    """The events up to the error, and the error."""
    seen: list[str] = []
    with pytest.raises(error) as caught:
        await collect(kube, seen)
    return seen, caught.value


async def test_what_is_asked_for(server: ApiServer, kube: KubeClient) -> None:
    server.answers = [[]]
    assert [event async for event in kube.watch(SLICES, "7", field_selector="spec.driver=d", seconds=12.9)] == []
    assert server.asked[0].query == {
        "fieldSelector": "spec.driver=d",
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "7",
        "timeoutSeconds": "12",
    }
    assert server.asked[0].headers["authorization"] == "Bearer fixed"


@pytest.mark.parametrize("size", [1, 7, 50_000, 1 << 20])
async def test_events_however_they_are_cut(server: ApiServer, kube: KubeClient, size: int) -> None:
    long = "é" * 70_000 if size > 7 else "é" * 70
    text = line("ADDED", name="a", text=long) + b"\n" + line("MODIFIED", name="a") + line("BOOKMARK") + line("DELETED")
    server.answers = [[text[at : at + size] for at in range(0, len(text), size)]]
    assert await watched(kube) == [
        WatchEvent("ADDED", {"name": "a", "text": long}),
        WatchEvent("MODIFIED", {"name": "a"}),
        WatchEvent("BOOKMARK", {}),
        WatchEvent("DELETED", {}),
    ]


async def test_an_event_comes_when_it_is_sent_and_not_at_the_end(server: ApiServer, kube: KubeClient) -> None:
    received = asyncio.Event()
    server.answers = [[line("ADDED"), received, line("DELETED")]]
    seen: list[str] = []
    async with asyncio.timeout(30):
        await collect(kube, seen, received)
    assert seen == ["ADDED", "DELETED"]


async def test_half_an_event_at_the_end_is_none(server: ApiServer, kube: KubeClient) -> None:
    server.answers = [[line("ADDED"), line("DELETED")[:-1]]]
    assert [event.type for event in await watched(kube)] == ["ADDED"]


async def test_who_stops_listening_can_go_on_asking(server: ApiServer, kube: KubeClient) -> None:
    server.answers = [[line("ADDED"), asyncio.Event()], {"fine": True}]
    async for event in kube.watch(SLICES, "7"):
        assert event.type == "ADDED"
        break
    assert await kube.get(SLICES) == {"fine": True}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"code": 410, "reason": "Expired", "message": "too old"}, (410, "Expired", "too old")),
        ({"code": "410", "message": "odd"}, (500, "", "odd")),
        ({}, (500, "", "the API server answered 500")),
    ],
)
async def test_an_error_among_the_events(
    server: ApiServer, kube: KubeClient, content: dict[str, Any], expected: tuple[int, str, str]
) -> None:
    server.answers = [[line("ADDED"), line("ERROR", **content), line("DELETED")]]
    seen, problem = await seen_before(kube, ApiError)
    assert seen == ["ADDED"]
    assert isinstance(problem, ApiError)
    assert (problem.status, problem.reason, str(problem)) == expected


async def test_a_watch_that_is_refused(server: ApiServer, kube: KubeClient) -> None:
    server.answers = [status(410, "Gone", "too old"), status(404, "NotFound", "no such kind")]
    _, gone = await seen_before(kube, ApiError)
    assert isinstance(gone, ApiError)
    assert gone.status == 410
    _, absent = await seen_before(kube, NotFound)
    assert str(absent) == "no such kind"


@pytest.mark.parametrize(
    ("chunk", "words"),
    [
        (b"<html>\n", "it answered something other than JSON"),
        (b"\xff\xfe\n", "it answered something other than JSON"),
        (b"[]\n", "it answered something other than a JSON object"),
        (b"{}\n", "it sent something other than a watch event"),
        (b'{"type": "ADDED"}\n', "it sent something other than a watch event"),
        (b'{"type": 1, "object": {}}\n', "it sent something other than a watch event"),
        (b'{"type": "ADDED", "object": []}\n', "it sent something other than a watch event"),
        (None, ""),
    ],
    ids=["page", "no text", "list", "empty", "no object", "odd type", "odd object", "cut"],
)
async def test_a_broken_watch_is_a_sentence(
    server: ApiServer, kube: KubeClient, chunk: bytes | None, words: str
) -> None:
    received = asyncio.Event()
    server.answers = [[line("ADDED"), received, chunk]]
    seen: list[str] = []
    with pytest.raises(Unavailable, match=rf"^WATCH {SLICES}: the API server is out of reach \({words}"):
        await collect(kube, seen, received)
    assert seen == ["ADDED"]


async def test_an_event_without_an_end_is_not_read_for_ever(
    server: ApiServer, kube: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_MAX_WATCH_LINE", 1000)
    server.answers = [[line("ADDED"), b"x" * 1001, asyncio.Event()]]
    seen, problem = await seen_before(kube, Unavailable)
    assert seen == ["ADDED"]
    assert str(problem) == "the API server sent a watch event of more than 1000 bytes"
