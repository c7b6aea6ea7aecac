"""Probes and metrics over real sockets."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import aiohttp
import pytest

from gpu_dra.errors import HostError
from gpu_dra.http import HttpServer
from gpu_dra.settings import Address

HERE = Address("127.0.0.1", 0)
EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"


@dataclass
class Program:
    """What the probes are about."""

    sick: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    metrics: bytes = b"up 1\n"
    broken: bool = False

    def healthy(self) -> Sequence[str]:
        if self.broken:
            raise RuntimeError("the check itself")
        return self.sick

    def server(self, address: Address = HERE) -> HttpServer:
        return HttpServer(
            address, healthy=self.healthy, ready=lambda: self.busy, metrics=lambda: (self.metrics, EXPOSITION)
        )


@dataclass(frozen=True)
class Answer:
    status: int
    text: str
    content_type: str


@dataclass
class Rig:
    program: Program
    port: int
    session: aiohttp.ClientSession

    async def ask(self, path: str, method: str = "GET") -> Answer:
        async with self.session.request(method, f"http://127.0.0.1:{self.port}{path}") as response:
            return Answer(response.status, await response.text(), response.headers.get("Content-Type", ""))


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    program = Program()
    async with program.server() as server, aiohttp.ClientSession() as session:
        yield Rig(program, server.port, session)


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_all_is_well(rig: Rig, path: str) -> None:
    assert await rig.ask(path) == Answer(200, "ok\n", "text/plain; charset=utf-8")


async def test_each_probe_tells_its_own_problems_a_line_each(rig: Rig) -> None:
    rig.program.sick = ["NVML does not answer", "the disk is full"]
    rig.program.busy = ["not yet published"]
    health, ready = await rig.ask("/healthz"), await rig.ask("/readyz")
    assert (health.status, health.text) == (503, "NVML does not answer\nthe disk is full\n")
    assert (ready.status, ready.text) == (503, "not yet published\n")


async def test_a_probe_is_asked_anew_each_time(rig: Rig) -> None:
    rig.program.busy = ["not yet published"]
    assert (await rig.ask("/readyz")).status == 503
    rig.program.busy = []
    assert (await rig.ask("/readyz")).status == 200


async def test_metrics_come_as_they_are(rig: Rig) -> None:
    rig.program.metrics = 'gpus{name="é"} 8\n'.encode()
    assert await rig.ask("/metrics") == Answer(200, 'gpus{name="é"} 8\n', EXPOSITION)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 404), ("GET", "/healthz/x", 404), ("POST", "/healthz", 405), ("DELETE", "/metrics", 405)],
)
async def test_nothing_else_is_there(rig: Rig, method: str, path: str, status: int) -> None:
    assert (await rig.ask(path, method)).status == status


async def test_a_check_that_fails_is_not_taken_for_health(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.program.broken = True
    with caplog.at_level(logging.CRITICAL):
        assert (await rig.ask("/healthz")).status == 500
    assert (await rig.ask("/readyz")).status == 200


async def test_an_address_in_use_is_a_sentence_with_the_way_out(rig: Rig) -> None:
    taken = Address("127.0.0.1", rig.port)
    with pytest.raises(
        HostError, match=rf"^cannot listen on 127\.0\.0\.1:{rig.port}: .*; choose another --http-address$"
    ):
        await Program().server(taken).__aenter__()
    assert (await rig.ask("/healthz")).status == 200


@pytest.mark.parametrize("host", ["a..b", "x" * 64, "203.0.113.1"])
async def test_a_host_that_is_not_ours_is_a_sentence(host: str) -> None:
    with pytest.raises(HostError, match=r"^cannot listen on .*:0: \S.*; choose another --http-address$"):
        await Program().server(Address(host, 0)).__aenter__()


async def test_an_empty_host_means_every_address() -> None:
    async with Program().server(Address("", 0)) as server, aiohttp.ClientSession() as session:
        assert (await Rig(Program(), server.port, session).ask("/healthz")).status == 200


async def test_after_the_end_nobody_listens() -> None:
    async with Program().server() as server:
        port = server.port
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) == 0
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
