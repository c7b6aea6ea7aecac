"""The API client against a real HTTP server: what goes over the wire, and a sentence for whatever comes back."""

from __future__ import annotations

import asyncio
import socket

import pytest
from aiohttp import web

from gpu_dra.errors import Unavailable
from gpu_dra.kube.client import ApiError, Conflict, KubeClient, NotFound, path_of
from gpu_dra.kube.connection import Connection
from tests.unit.gpu_dra.api_server import ApiServer, status

SLICES = "/apis/resource.k8s.io/v1/resourceslices"


async def test_each_call_on_the_wire(server: ApiServer, kube: KubeClient) -> None:
    server.answers = [{"kind": "Node", "novelty": [1]}]
    assert await kube.get("/api/v1/nodes/a") == {"kind": "Node", "novelty": [1]}
    await kube.create(SLICES, {"a": "é"})
    await kube.replace(f"{SLICES}/s", {"b": 2})
    await kube.delete(f"{SLICES}/s")
    await kube.delete(f"{SLICES}/s", uid="u-1")
    assert [(each.method, each.path, each.body) for each in server.asked] == [
        ("GET", "/api/v1/nodes/a", None),
        ("POST", SLICES, {"a": "é"}),
        ("PUT", f"{SLICES}/s", {"b": 2}),
        ("DELETE", f"{SLICES}/s", None),
        ("DELETE", f"{SLICES}/s", {"preconditions": {"uid": "u-1"}}),
    ]
    for each in server.asked:
        assert each.headers["authorization"] == "Bearer fixed"
        assert each.headers["user-agent"] == "gpu-dra/test"
        assert each.headers["accept"] == "application/json"
    assert server.asked[1].headers["content-type"] == "application/json"


async def test_pages_are_asked_for_with_any_continue_token(server: ApiServer, kube: KubeClient) -> None:
    token = "a+b/c=&d e%2F?é"
    server.answers = [{"metadata": {"continue": token}, "items": [1]}, {"metadata": {}, "items": [2]}]
    first = await kube.get(SLICES, limit="1", fieldSelector="spec.driver=d,spec.nodeName=a")
    await kube.get(SLICES, **{"limit": "1", "continue": first["metadata"]["continue"]})
    assert [each.query for each in server.asked] == [
        {"limit": "1", "fieldSelector": "spec.driver=d,spec.nodeName=a"},
        {"limit": "1", "continue": token},
    ]


async def test_a_name_stays_one_segment_of_the_path(server: ApiServer, kube: KubeClient) -> None:
    server.answers = [{}]
    await kube.get(path_of("v1", "resourceclaims", namespace="ml", name="../../../secrets?x#y"))
    assert server.asked[0].path.startswith(
        "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/..%2F..%2F..%2Fsecrets"
    )
    assert server.asked[0].query == {}
    assert path_of("v1beta1", "resourceslices") == "/apis/resource.k8s.io/v1beta1/resourceslices"


async def test_a_server_behind_a_path(server: ApiServer) -> None:
    server.answers = [{}]
    async with KubeClient(Connection(f"{server.address}/k8s/clusters/c-1")) as kube:
        await kube.get("/version")
    assert server.asked[0].path == "/k8s/clusters/c-1/version"
    assert "authorization" not in server.asked[0].headers


@pytest.mark.parametrize(
    ("answer", "kind", "expected"),
    [
        (status(404, "NotFound", 'nodes "a" not found'), NotFound, (404, "NotFound", 'nodes "a" not found', None)),
        (status(409, "Conflict", "it has changed"), Conflict, (409, "Conflict", "it has changed", None)),
        (status(403, "Forbidden", "no"), ApiError, (403, "Forbidden", "no", None)),
        (status(422, "Invalid", "spec: bad"), ApiError, (422, "Invalid", "spec: bad", None)),
        (
            status(429, "TooManyRequests", "later", **{"Retry-After": "7"}),
            ApiError,
            (429, "TooManyRequests", "later", 7),
        ),
        (status(503, "X", "later", **{"Retry-After": "soon"}), ApiError, (503, "X", "later", None)),
        (web.Response(status=502, text="<html>"), ApiError, (502, "", "the API server answered 502", None)),
        (web.Response(status=500, text="[]"), ApiError, (500, "", "the API server answered 500", None)),
        (
            web.Response(status=500, text='{"reason": null, "message": null}'),
            ApiError,
            (500, "", "the API server answered 500", None),
        ),
        (web.Response(status=404), NotFound, (404, "", "the API server answered 404", None)),
    ],
)
async def test_refusals(
    server: ApiServer, kube: KubeClient, answer: web.Response, kind: type[ApiError], expected: tuple[object, ...]
) -> None:
    server.answers = [answer, {"fine": True}]
    with pytest.raises(ApiError) as caught:
        await kube.create(SLICES, {})
    problem = caught.value
    assert type(problem) is kind
    assert (problem.status, problem.reason, str(problem), problem.retry_after) == expected
    assert await kube.get(SLICES) == {"fine": True}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"<html>log in</html>", "it answered something other than JSON"),
        (b"", "it answered something other than JSON"),
        (b'{"half": ', "it answered something other than JSON"),
        (b'{"a": "\xff"}', "it answered something other than JSON"),
        (b'{"a":' * 100_000, "it answered something other than JSON"),
        (b"[1, 2]", "it answered something other than a JSON object"),
        (b"null", "it answered something other than a JSON object"),
        ([b'{"a":', None], r"\S.*"),
    ],
    ids=["page", "nothing", "half", "no text", "deep", "list", "null", "cut"],
)
async def test_garbage_is_a_sentence(server: ApiServer, kube: KubeClient, answer: object, words: str) -> None:
    server.answers = [answer]
    sentence = rf"^PUT {SLICES}/s: the API server is out of reach \({words}\)$"
    with pytest.raises(Unavailable, match=sentence):
        await kube.replace(f"{SLICES}/s", {})


@pytest.mark.parametrize(
    ("versions", "best"),
    [
        (["v1", "v1beta2"], "v1"),
        (["v1beta1", "v1beta2"], "v1beta2"),
        (["v1alpha3", "v1beta1"], "v1beta1"),
    ],
)
async def test_the_best_version_that_is_served(
    server: ApiServer, kube: KubeClient, versions: list[str], best: str
) -> None:
    server.answers = [{"versions": [{"groupVersion": f"resource.k8s.io/{each}", "version": each} for each in versions]}]
    assert await kube.resource_version() == best
    assert server.asked[0].path == "/apis/resource.k8s.io"


@pytest.mark.parametrize(
    ("answer", "served"),
    [
        (status(404, "NotFound", "not found"), "none"),
        ({"versions": [{"version": "v1alpha3"}, {"version": "v2"}]}, "v1alpha3, v2"),
        ({"versions": []}, "none"),
        ({}, "none"),
        ({"versions": None}, "none"),
        ({"versions": {"v1": {}}}, "none"),
        ({"versions": ["v1", None]}, "none"),
        ({"versions": [{"groupVersion": "x"}, {"version": 3}]}, "none"),
    ],
)
async def test_a_server_without_the_api_is_told_what_to_switch_on(
    server: ApiServer, kube: KubeClient, answer: object, served: str
) -> None:
    server.answers = [answer]
    with pytest.raises(
        Unavailable, match=rf"no version of .*; served: {served}\).*--runtime-config=resource\.k8s\.io/v1beta1=true"
    ):
        await kube.resource_version()


async def test_nobody_listens(server: ApiServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    async with KubeClient(Connection(f"http://127.0.0.1:{port}")) as kube:
        with pytest.raises(Unavailable, match=r"^GET /version: the API server is out of reach \(.*127\.0\.0\.1.*\)$"):
            await kube.get("/version")


async def test_no_answer_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        async with KubeClient(Connection(address), timeout=0.05) as kube:
            with pytest.raises(Unavailable, match=r"^GET /version: .* out of reach \(no answer in time\)$"):
                await kube.get("/version")


async def test_something_that_speaks_no_http() -> None:
    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
        writer.close()
        await writer.wait_closed()

    other = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with other, KubeClient(Connection(f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}")) as kube:
        with pytest.raises(Unavailable, match=r"^GET /version: the API server is out of reach \(\S.*\)"):
            await kube.get("/version")


async def test_before_and_after_its_block_it_says_how_to_use_it(server: ApiServer) -> None:
    kube = KubeClient(Connection(server.address))
    with pytest.raises(RuntimeError, match="async with"):
        await kube.get("/version")
    async with kube:
        pass
    with pytest.raises(RuntimeError, match="async with"):
        await kube.get("/version")
