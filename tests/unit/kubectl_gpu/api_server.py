"""A small HTTP server in the place of the API server: the plugin's library is synchronous, so this one is a thread."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

PATH = "/apis/gpu-dra.io/v1alpha1/gpunodes"


@dataclass
class ApiServer:
    """Answers by path, a further page by path#token: a value is JSON, bytes are sent as they are, a number is a code."""

    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    address: str = ""

    def serve(self, *objects: dict[str, Any]) -> None:
        self.answers[PATH] = {"items": list(objects), "metadata": {}}
        for obj in objects:
            self.answers[f"{PATH}/{obj['metadata']['name']}"] = obj

    def kubeconfig(self, folder: Path) -> Path:
        path = folder / "kubeconfig"
        config = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": self.address}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
        }
        path.write_text(json.dumps(config))
        return path


@contextmanager
def running() -> Generator[ApiServer]:
    api = ApiServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            api.asked.append(self.path)
            path, _, query = self.path.partition("?")
            token = parse_qs(query).get("continue", [""])[0]
            answer = api.answers.get(f"{path}#{token}" if token else path, 404)
            code = answer if isinstance(answer, int) else 200
            if code != 200:
                answer = {"kind": "Status", "code": code, "reason": "Whatever", "message": "whatever"}
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the library's
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        api.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()
