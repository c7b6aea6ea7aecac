"""Controllers as processes, started with the arguments and the rights that the rendered chart gives them."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_dra.api import JsonObject
from gpu_dra.kube.client import KubeClient
from tests import chart
from tests.component import objects
from tests.component.apiserver import ApiServer

ROOT = Path(__file__).resolve().parents[2]

_RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


@dataclass(frozen=True, slots=True)
class Release:
    """An installed release of the chart, without pods: rights, and what its controllers are told."""

    namespace: str
    rendered: list[JsonObject]
    kubeconfig: Path
    folder: Path

    @property
    def rights(self) -> list[JsonObject]:
        return [obj for obj in self.rendered if obj["kind"] in _RIGHTS]

    def arguments(self, replica: str, classes: str | None = None) -> list[str]:
        """Those of the rendered Deployment, with the pod's own names and paths filled in."""
        deployment = chart.one(self.rendered, "Deployment")
        config = self.folder / f"{replica}.yaml"
        text = chart.one(self.rendered, "ConfigMap", "-controller")["data"]["device-classes.yaml"]
        config.write_text(text if classes is None else classes)
        given = [
            argument.replace("$(POD_NAMESPACE)", self.namespace).replace("$(POD_NAME)", replica)
            for argument in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        ]
        ours = {"--device-classes": str(config), "--http-address": "127.0.0.1:0"}
        names = [argument.partition("=")[0] for argument in given]
        kept = [argument for argument, name in zip(given, names, strict=True) if name not in ours]
        return [*kept, *(f"{name}={value}" for name, value in ours.items()), f"--kubeconfig={self.kubeconfig}"]


async def install(server: ApiServer, admin: KubeClient, folder: Path, namespace: str, **values: Any) -> Release:
    """Render the chart and create what its controller needs."""
    rendered = chart.render(values, namespace=namespace, kube_version=server.version)
    await objects.make_namespace(admin, namespace)
    account = chart.one(rendered, "ServiceAccount", "-controller")["metadata"]["name"]
    release = Release(namespace, rendered, folder / f"{namespace}.kubeconfig", folder)
    await objects.apply(admin, release.rights)
    server.write_kubeconfig(release.kubeconfig, await server.token_for(account, namespace=namespace))
    return release


@dataclass
class Running:
    """One controller process."""

    process: subprocess.Popen[bytes]
    log: Path
    _port: list[int] = field(default_factory=list[int])

    def lines(self, containing: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if containing in line]

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of a page; 0 while nothing listens."""
        if not self._port:
            found = re.search(r" started port=(\d+)", self.log.read_text())
            if found is None:
                return 0, ""
            self._port.append(int(found.group(1)))
        request = urllib.request.Request(f"http://127.0.0.1:{self._port[0]}{path}")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _KeepErrors())
        try:
            with opener.open(request, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except OSError:
            return 0, ""

    @property
    def ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    @property
    def leading(self) -> bool:
        return "\ngpu_dra_controller_leading 1.0\n" in self.get("/metrics")[1]

    def writes(self) -> float:
        """Writes of DeviceClasses so far."""
        found = re.findall(
            r"^gpu_dra_controller_device_class_writes_total\{.*\} (\S+)$", self.get("/metrics")[1], re.MULTILINE
        )
        return sum(float(value) for value in found)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        """SIGTERM, as kubelet sends it; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


@contextmanager
def running(release: Release, replica: str = "controller-0", classes: str | None = None) -> Generator[Running]:
    """A controller, killed at the end if it still runs."""
    log = release.folder / f"{replica}.log"
    command = [sys.executable, "-m", "controller", *release.arguments(replica, classes)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    item = Running(process, log)
    try:
        yield item
    finally:
        item.kill()
        print(f"--- {replica}\n{log.read_text()}")


async def eventually(check: Callable[[], Awaitable[object] | object], what: str, within: float = 30.0) -> Any:
    """The first true result of `check`; fails with `what` was awaited."""
    end = asyncio.get_running_loop().time() + within
    while True:
        result = await asyncio.to_thread(check)
        value = await result if isinstance(result, Awaitable) else result
        if value:
            return value
        assert asyncio.get_running_loop().time() < end, f"waited {within:.0f} s in vain: {what}"
        await asyncio.sleep(0.1)


class _KeepErrors(urllib.request.HTTPErrorProcessor):
    """A 503 of /readyz is an answer, not a failure."""

    def http_response(self, request: Any, response: Any) -> Any:  # noqa: ARG002 - urllib's signature
        return response
