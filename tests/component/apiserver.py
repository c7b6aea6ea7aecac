"""A real etcd and kube-apiserver on loopback, with RBAC, admission and bound tokens: what no fake of the API has.

    with running(folder, "1.37.2") as server:
        async with KubeClient(server.connection) as kube: ...

The programs come from the cache of tests/e2e/cluster. Nothing else of a cluster runs: nothing schedules, no pod starts,
and no garbage is collected.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpu_dra.api import JsonObject
from gpu_dra.kube.client import Conflict, KubeClient
from gpu_dra.kube.connection import Connection
from tests.e2e.cluster import features, pki, programs

_START = 60.0
"""Seconds after which a server that is still not ready is given up."""


class ServerError(Exception):
    """A server did not start; the text has the end of its log."""


@dataclass(frozen=True, slots=True)
class ApiServer:
    """A running server, reached as its administrator."""

    version: str
    kubeconfig: Path
    connection: Connection

    @property
    def minor(self) -> int:
        return features.minor_of(self.version)

    @property
    def resource_version(self) -> str:
        """The best version of resource.k8s.io that it serves."""
        return features.served_version(self.minor)

    def as_bearer(self, token: str) -> Connection:
        """The same server for whoever this token belongs to."""
        return Connection(self.connection.server, ca_file=self.connection.ca_file, token=token)

    def write_kubeconfig(self, path: Path, token: str) -> Path:
        """A kubeconfig for whoever this token belongs to."""
        content = json.loads(self.kubeconfig.read_text())
        content["users"][0]["user"] = {"token": token}
        path.write_text(json.dumps(content))
        return path

    async def token_for(self, service_account: str, *, namespace: str = "default", node: str = "") -> str:
        """A service account's token, made through TokenRequest.

        With `node` it is bound to a pod on that node, as those are that a kubelet mounts; the server then knows the
        node's name from it. What of namespace, account, node and pod is missing is made.
        """
        async with KubeClient(self.connection) as kube:
            base = f"/api/v1/namespaces/{namespace}"
            meta = {"namespace": namespace}
            await _ensure(kube, "/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": namespace}})
            account: JsonObject = {"kind": "ServiceAccount", "metadata": {**meta, "name": service_account}}
            await _ensure(kube, f"{base}/serviceaccounts", account)
            spec: JsonObject = {"expirationSeconds": 3600}
            if node:
                await _ensure(kube, "/api/v1/nodes", {"kind": "Node", "metadata": {"name": node}})
                pod = await _ensure(kube, f"{base}/pods", _pod(namespace, service_account, node))
                reference = {"kind": "Pod", "apiVersion": "v1", **_name_and_uid(pod)}
                spec["boundObjectRef"] = reference
            request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
            answer = await kube.create(f"{base}/serviceaccounts/{service_account}/token", request)
            return str(answer["status"]["token"])


@contextmanager
def running(folder: Path, version: str) -> Generator[ApiServer]:
    """Start both servers in `folder`; they are gone, and so is what they stored, when this ends."""
    keys = pki.make(folder / "pki", ())
    etcd_port, peer_port, port = _free_ports(3)
    etcd = f"http://127.0.0.1:{etcd_port}"
    server = f"https://127.0.0.1:{port}"
    with ExitStack() as stack:
        logs = [folder / "etcd.log", folder / "kube-apiserver.log"]
        started = [
            stack.enter_context(_process(_etcd(folder, etcd, f"http://127.0.0.1:{peer_port}"), logs[0])),
            stack.enter_context(_process(_api_server(folder, keys, version, etcd, port), logs[1])),
        ]
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(keys.kubeconfig(pki.ADMIN, server))
        token = next(line.split(",")[0] for line in keys.tokens.read_text().splitlines() if f",{pki.ADMIN}," in line)
        connection = Connection(server, ca_file=Path(keys.cert("ca")), token=token)
        _wait_ready(connection, started, logs)
        yield ApiServer(version, kubeconfig, connection)


def _etcd(folder: Path, clients: str, peers: str) -> list[str]:
    return [
        str(programs.ETCD.bin_dir / "etcd"),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
    ]


def _api_server(folder: Path, keys: pki.Pki, version: str, etcd: str, port: int) -> list[str]:
    minor = features.minor_of(version)
    return [
        str(programs.kubernetes(version).bin_dir / "kube-apiserver"),
        f"--etcd-servers={etcd}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        # Loopback cannot be an endpoint of the service `kubernetes`, which nobody here uses.
        "--advertise-address=10.90.0.1",
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.96.0.0/16",
        f"--cert-dir={folder / 'certificates'}",
        f"--tls-cert-file={keys.cert('apiserver')}",
        f"--tls-private-key-file={keys.key('apiserver')}",
        f"--client-ca-file={keys.cert('ca')}",
        f"--token-auth-file={keys.tokens}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={keys.folder / 'sa.pub'}",
        f"--service-account-signing-key-file={keys.key('sa')}",
        *features.gate_flags(minor),
        *features.api_flags(minor),
    ]


@contextmanager
def _process(command: Sequence[str], log: Path) -> Generator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        # Nothing is kept, and SIGTERM would wait for open watches.
        process.kill()
        process.wait()


def _wait_ready(connection: Connection, processes: Sequence[subprocess.Popen[bytes]], logs: Sequence[Path]) -> None:
    context = connection.ssl_context()
    request = urllib.request.Request(
        f"{connection.server}/readyz", headers={"Authorization": f"Bearer {connection.token}"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    end = time.monotonic() + _START
    while True:
        try:
            with opener.open(request, timeout=5) as answer:
                answer.read()
                return
        except OSError as problem:
            if isinstance(problem, urllib.error.HTTPError):
                problem.close()
            for process, log in zip(processes, logs, strict=True):
                if process.poll() is not None:
                    raise ServerError(f"{process.args!r} ended with {process.returncode}; {_end_of(log)}") from problem
            if time.monotonic() > end:
                raise ServerError(f"the API server is not ready: {problem}; {_end_of(logs[-1])}") from problem
        time.sleep(0.1)


def _end_of(log: Path) -> str:
    return "the end of its log:\n" + "\n".join(log.read_text(errors="replace").splitlines()[-20:])


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for item in sockets:
            item.bind(("127.0.0.1", 0))
        return [int(item.getsockname()[1]) for item in sockets]


def _pod(namespace: str, service_account: str, node: str) -> JsonObject:
    return {
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": f"{service_account}-on-{node}"},
        "spec": {
            "serviceAccountName": service_account,
            "nodeName": node,
            "containers": [{"name": "main", "image": "none"}],
        },
    }


async def _ensure(kube: KubeClient, path: str, obj: JsonObject) -> JsonObject:
    try:
        return await kube.create(path, {"apiVersion": "v1", **obj})
    except Conflict:
        return await kube.get(f"{path}/{obj['metadata']['name']}")


def _name_and_uid(obj: JsonObject) -> JsonObject:
    return {key: obj["metadata"][key] for key in ("name", "uid")}


def chosen_version() -> str:
    """$K8S, else the default."""
    return os.environ.get("K8S") or programs.DEFAULT_VERSION


def missing_programs(version: str) -> list[str]:
    """The modules whose programs are not built yet."""
    return [module.name for module in (programs.ETCD, programs.kubernetes(version)) if not module.built]
