"""The client's token: read from its file, kept for a while, and read again once the server refuses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_dra.errors import Unavailable
from gpu_dra.kube import client
from gpu_dra.kube.client import ApiError, KubeClient
from gpu_dra.kube.connection import Connection
from tests.unit.gpu_dra.api_server import ApiServer

PATH = "/api/v1/nodes"


class Rig:
    """A client whose token stands in a file."""

    def __init__(self, server: ApiServer, file: Path) -> None:
        self.server = server
        self.file = file
        self.server.answers = [{"fine": True}]
        self.client = KubeClient(Connection(server.address, token_file=file))

    def sent(self) -> list[str]:
        return [each.headers["authorization"].removeprefix("Bearer ") for each in self.server.asked]


@pytest.fixture
def rig(server: ApiServer, tmp_path: Path) -> Rig:
    (tmp_path / "token").write_text("one\n")
    return Rig(server, tmp_path / "token")


async def test_a_refused_token_is_read_again_and_the_request_tried_once_more(rig: Rig) -> None:
    async with rig.client as kube:
        await kube.get(PATH)
        rig.server.token = "two"
        rig.file.write_text("two")
        assert await kube.create(PATH, {"a": 1}) == {"fine": True}
        assert await kube.get(PATH) == {"fine": True}
    assert rig.sent() == ["one", "one", "two", "two"]
    assert [each.body for each in rig.server.asked] == [None, {"a": 1}, {"a": 1}, None]


async def test_a_token_that_stays_wrong_is_tried_twice_and_then_told(rig: Rig) -> None:
    rig.server.token = "two"
    async with rig.client as kube:
        with pytest.raises(ApiError) as caught:
            await kube.get(PATH)
        assert (caught.value.status, str(caught.value)) == (401, "Unauthorized")
        assert rig.sent() == ["one", "one"]
        rig.file.write_text("two")
        assert await kube.get(PATH) == {"fine": True}


async def test_a_watch_reads_a_refused_token_again_too(rig: Rig) -> None:
    rig.server.answers = [{"fine": True}, [b'{"type": "ADDED", "object": {}}\n']]
    async with rig.client as kube:
        await kube.get(PATH)
        rig.server.token = "two"
        rig.file.write_text("two")
        assert [event.type async for event in kube.watch(PATH, "7")] == ["ADDED"]
    assert rig.sent() == ["one", "one", "two"]


async def test_a_fixed_token_that_is_refused_is_not_tried_again(server: ApiServer) -> None:
    server.token = "two"
    async with KubeClient(Connection(server.address, token="one")) as kube:
        with pytest.raises(ApiError) as caught:
            await kube.get(PATH)
    assert caught.value.status == 401
    assert len(server.asked) == 1


async def test_the_file_is_not_read_for_every_request(rig: Rig) -> None:
    async with rig.client as kube:
        await kube.get(PATH)
        rig.file.write_text("two")
        await kube.get(PATH)
    assert rig.sent() == ["one", "one"]


async def test_after_a_while_the_file_is_read_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_TOKEN_LIFE", -1.0)
    async with rig.client as kube:
        await kube.get(PATH)
        rig.file.write_text("two")
        await kube.get(PATH)
        rig.file.unlink()
        await kube.get(PATH)
    assert rig.sent() == ["one", "two", "two"]


async def test_a_file_that_is_not_there_is_a_sentence(rig: Rig) -> None:
    rig.file.unlink()
    async with rig.client as kube:
        with pytest.raises(Unavailable, match=r"^cannot read the service account token: .*token"):
            await kube.get(PATH)
    assert rig.server.asked == []
