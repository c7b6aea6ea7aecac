"""A stand-in kubelet against the real agent and a real API server: `python -m bench.prepare`.

The agent runs as its own process with the in-cluster path (token file, TLS). Figures are whole gRPC calls from the client's
side, nearest-rank percentiles, in one run on whatever machine this is; `floor` is an empty call, for comparing machines.
"""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc.aio

from gpu_dra import names, resource_slice
from gpu_dra.api import to_version
from gpu_dra.kube.client import KubeClient, NotFound, path_of
from node_agent import kubelet_api
from node_agent.kubelet_api import Claim, Claims, PrepareResponse, UnprepareResponse
from tests.component.apiserver import ApiServer, running
from tests.e2e.cluster import programs

NODE = "bench"
POOL = f"{NODE}/gpu"
RULES = [
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims", "resourceslices"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
]


def percentile(values: Sequence[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def show(what: str, seconds: Sequence[float], claims: int = 1) -> None:
    p50, p90, p99 = (percentile(seconds, percent) * 1e3 for percent in (50, 90, 99))
    rate = claims * len(seconds) / sum(seconds)
    print(f"{what:34} {p50:8.2f} {p90:8.2f} {p99:8.2f} {rate:10.0f}")


class Agent:
    """The agent's process, and what the kernel says of it."""

    def __init__(
        self, folder: Path, server: ApiServer, token: str, *, pod_uid: str = "b", profile: str = "split-4x4"
    ) -> None:
        account = folder / "account"
        account.mkdir(exist_ok=True)
        self._again = (folder, server, token)
        (account / "token").write_text(token)
        assert server.connection.ca_file is not None
        (account / "ca.crt").write_bytes(server.connection.ca_file.read_bytes())
        address = urlsplit(server.connection.server)
        self.root = folder / "kubelet"
        self.socket = self.root / "plugins" / names.GPU_DRIVER / f"dra-{pod_uid}.sock"
        command = [
            sys.executable, "-m", "node_agent", f"--node-name={NODE}", f"--pod-uid={pod_uid}", f"--simulate={profile}",
            f"--kubelet-root={self.root}", f"--cdi-root={folder / 'cdi'}", f"--service-account-dir={account}",
            "--http-address=127.0.0.1:0",
        ]  # fmt: skip
        env = {
            **os.environ,
            "KUBERNETES_SERVICE_HOST": str(address.hostname),
            "KUBERNETES_SERVICE_PORT": str(address.port),
            "SSL_CERT_FILE": os.devnull,  # as in the image
        }
        self.log = (folder / f"agent-{pod_uid}.log").open("wb")
        self.process = subprocess.Popen(command, env=env, stderr=self.log)

    def again(self, *, pod_uid: str = "b", profile: str = "split-4x4") -> Agent:
        """Another process on the same folders."""
        return Agent(*self._again, pod_uid=pod_uid, profile=profile)

    async def answers(self) -> None:
        """Wait until the socket takes calls."""
        async with grpc.aio.insecure_channel(f"unix:{self.socket}") as channel:
            await asyncio.wait_for(channel.channel_ready(), 30)

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident(self) -> float:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS")) / 1024

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        self.log.close()


async def allocate(kube: KubeClient, version: str, devices: Sequence[str]) -> list[Claim]:
    """One claim a device, its allocation written as the scheduler would."""
    claims: list[Claim] = []
    for number, device in enumerate(devices):
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": names.GPU_DRIVER}}]}}
        body: dict[str, Any] = {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": f"bench-{number}"}, "spec": spec,
        }  # fmt: skip
        made = await kube.create(path_of(version, "resourceclaims", namespace="default"), to_version(body, version))
        result = {"request": "gpu", "driver": names.GPU_DRIVER, "pool": POOL, "device": device}
        made["status"] = {"allocation": {"devices": {"results": [result]}}}
        name = made["metadata"]["name"]
        await kube.replace(path_of(version, "resourceclaims", namespace="default", name=name) + "/status", made)
        claims.append(Claim(namespace="default", name=name, uid=made["metadata"]["uid"]))
    return claims


async def measure(agent: Agent, claims: Sequence[Claim], rounds: int = 200) -> None:
    service = kubelet_api.DRA_SERVICES[0]
    async with grpc.aio.insecure_channel(f"unix:{agent.socket}") as channel:
        prepare = channel.unary_unary(
            f"/{service}/NodePrepareResources", Claims.SerializeToString, PrepareResponse.FromString
        )
        unprepare = channel.unary_unary(
            f"/{service}/NodeUnprepareResources", Claims.SerializeToString, UnprepareResponse.FromString
        )

        async def timed(call: Callable[[Claims], Awaitable[Any]], some: Sequence[Claim]) -> float:
            started = time.perf_counter()
            answer = await call(Claims(claims=some))
            took = time.perf_counter() - started
            problems = [entry.error for entry in answer.claims.values() if entry.error]
            if problems or len(answer.claims) != len(some):
                raise RuntimeError(f"the agent answered {problems or 'for too few claims'}")
            return took

        for claim in claims:
            await timed(prepare, [claim])
            await timed(unprepare, [claim])
        print(f"{'call':34} {'p50 ms':>8} {'p90 ms':>8} {'p99 ms':>8} {'claims/s':>10}")
        show("floor: an empty call", [await timed(prepare, []) for _ in range(rounds)])
        before, single, release = agent.cpu(), [], []
        for number in range(rounds):
            one = [claims[number % len(claims)]]
            single.append(await timed(prepare, one))
            release.append(await timed(unprepare, one))
        cpu = (agent.cpu() - before) / rounds * 1e3
        show("prepare, one at a time", single)
        show("unprepare, one at a time", release)
        eight: list[float] = []
        batch: list[float] = []
        for _ in range(rounds // 8):
            started = time.perf_counter()
            await asyncio.gather(*(timed(prepare, [claim]) for claim in claims))
            eight.append(time.perf_counter() - started)
            await timed(unprepare, claims)
            batch.append(await timed(prepare, claims))
            await timed(unprepare, claims)
        show("prepare, 8 at a time (a batch)", eight, len(claims))
        show("prepare, one call with 8 claims", batch, len(claims))
        await timed(prepare, claims)
        show("repeated prepare", [await timed(prepare, [claims[number % 8]]) for number in range(rounds)])
        await timed(unprepare, claims)
        print(f"CPU of the agent, prepare and unprepare, one at a time: {cpu:.1f} ms a claim")


async def main() -> int:
    version = os.environ.get("K8S") or programs.DEFAULT_VERSION
    with tempfile.TemporaryDirectory(prefix="gpu-dra-bench-") as text:
        folder = Path(text)
        (folder / "server").mkdir()
        with running(folder / "server", version) as server:
            token = await server.token_for("agent", node=NODE)
            async with KubeClient(server.connection) as kube:
                await grant(kube)
                resource = server.resource_version
                started = time.perf_counter()
                agent = Agent(folder, server, token)
                try:
                    devices = await visible(kube, resource)
                    print(f"start to slice visible: {(time.perf_counter() - started) * 1e3:.0f} ms")
                    claims = await allocate(kube, resource, devices)
                    await asyncio.sleep(2)
                    print(f"resident, idle: {agent.resident():.1f} MiB")
                    before = agent.cpu()
                    await asyncio.sleep(10)
                    print(f"idle CPU: {(agent.cpu() - before) / 10 * 100:.2f} % of a core")
                    await measure(agent, claims)
                    print(f"resident, afterwards: {agent.resident():.1f} MiB")
                finally:
                    agent.stop()
    return 0


async def grant(kube: KubeClient) -> None:
    base = "/apis/rbac.authorization.k8s.io/v1"
    await kube.create(f"{base}/clusterroles", {"kind": "ClusterRole", "metadata": {"name": "bench"}, "rules": RULES})
    await kube.create(
        f"{base}/clusterrolebindings",
        {
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "bench"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bench"},
            "subjects": [{"kind": "ServiceAccount", "name": "agent", "namespace": "default"}],
        },
    )


async def visible(kube: KubeClient, version: str) -> list[str]:
    """Wait for the slice of the GPUs; the names of its devices."""
    path = path_of(version, "resourceslices", name=f"{NODE}-{names.GPU_DRIVER}-00000")
    for _ in range(3000):
        try:
            return [device.name for device in resource_slice.decode(await kube.get(path)).devices]
        except NotFound:
            await asyncio.sleep(0.01)
    raise RuntimeError("the agent published nothing within 30 s; see its log")


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
