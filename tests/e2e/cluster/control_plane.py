"""The control plane: etcd, API server, scheduler, controller-manager, and the forwarder to this machine's loopback."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster import features, network
from tests.e2e.cluster.control import Control, Program
from tests.e2e.cluster.init import HANDED_DOWN
from tests.e2e.cluster.pki import ADMIN, Pki
from tests.e2e.cluster.process import run, wait_until
from tests.e2e.cluster.programs import ETCD, kubernetes
from tests.e2e.cluster.settings import Settings

ETCD_CLIENTS = "http://127.0.0.1:2379"
ETCD_PEERS = "http://127.0.0.1:2380"


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Its programs, and how to start them in their order."""

    settings: Settings
    folder: Path
    pki: Pki
    control: Control

    def start(self) -> None:
        """Start everything; returns when the API server is ready."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for user in ("system:kube-scheduler", "system:kube-controller-manager"):
            self._login(user).write_text(self.pki.kubeconfig(user, f"https://127.0.0.1:{network.API_PORT}"))
        self.control.start(self.etcd())
        server = self.api_server()
        self.control.start(server)
        self.control.start(self.forwarder())
        self.wait_ready(server)
        self.control.start(self.scheduler())
        self.control.start(self.controller_manager())

    def wait_ready(self, server: Program) -> None:
        kubeconfig = self.folder.parent / "kubeconfig"
        port = (self.folder.parent / "port").read_text().strip()
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(self.pki.kubeconfig(ADMIN, f"https://127.0.0.1:{port}"))

        def ready() -> bool:
            self.control.expect(server)
            try:
                return run(["kubectl", "--kubeconfig", str(kubeconfig), "get", "--raw", "/readyz"], timeout=10) == "ok"
            except Exception:  # noqa: BLE001 -- whatever it is, it is asked again
                return False

        wait_until(ready, f"the API server to be ready; its log is {server.log}", within=120)

    def etcd(self) -> Program:
        return self._program(
            "etcd",
            [
                str(ETCD.bin_dir / "etcd"),
                f"--data-dir={self.folder / 'etcd'}",
                f"--listen-client-urls={ETCD_CLIENTS}",
                f"--advertise-client-urls={ETCD_CLIENTS}",
                f"--listen-peer-urls={ETCD_PEERS}",
                f"--initial-advertise-peer-urls={ETCD_PEERS}",
                f"--initial-cluster=default={ETCD_PEERS}",
                # The cluster does not outlive this machine's page cache, so there is nothing to save from a power cut.
                "--unsafe-no-fsync",
            ],
        )

    def api_server(self) -> Program:
        pki, minor = self.pki, self.settings.minor
        flags = {
            "advertise-address": network.CONTROL_PLANE,
            "bind-address": "0.0.0.0",
            "secure-port": network.API_PORT,
            "etcd-servers": ETCD_CLIENTS,
            "service-cluster-ip-range": network.SERVICES,
            "cert-dir": self.folder / "api-server",
            "tls-cert-file": pki.cert("apiserver"),
            "tls-private-key-file": pki.key("apiserver"),
            "client-ca-file": pki.cert("ca"),
            "token-auth-file": pki.tokens,
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "allow-privileged": "true",
            "kubelet-client-certificate": pki.cert("kubelet-client"),
            "kubelet-client-key": pki.key("kubelet-client"),
            "kubelet-certificate-authority": pki.cert("ca"),
            "kubelet-preferred-address-types": "InternalIP",
            "requestheader-client-ca-file": pki.cert("front-ca"),
            "requestheader-allowed-names": "front-proxy-client",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-username-headers": "X-Remote-User",
            "proxy-client-cert-file": pki.cert("front-proxy-client"),
            "proxy-client-key-file": pki.key("front-proxy-client"),
            # Webhooks are called at their pods' addresses, for which there are routes; there is no kube-proxy here.
            "enable-aggregator-routing": "true",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": pki.folder / "sa.pub",
            "service-account-signing-key-file": pki.key("sa"),
        }
        return self._component("kube-apiserver", flags, *features.api_flags(minor))

    def scheduler(self) -> Program:
        login = self._login("system:kube-scheduler")
        return self._component("kube-scheduler", {"kubeconfig": login, "leader-elect": "false"})

    def controller_manager(self) -> Program:
        flags = {
            "kubeconfig": self._login("system:kube-controller-manager"),
            "leader-elect": "false",
            "use-service-account-credentials": "true",
            "service-account-private-key-file": self.pki.key("sa"),
            "root-ca-file": self.pki.cert("ca"),
            # Tests cut nodes off: seconds, not the default's 50, and still more than two of the kubelet's heartbeats.
            "node-monitor-period": "1s",
            "node-monitor-grace-period": "10s",
        }
        return self._component("kube-controller-manager", flags)

    def forwarder(self) -> Program:
        argv = [sys.executable, "-m", "tests.e2e.cluster.forwarder", str(HANDED_DOWN), str(network.API_PORT)]
        return self._program("forwarder", argv, keep_fd=HANDED_DOWN)

    def _component(self, name: str, flags: Mapping[str, object], *more: str) -> Program:
        argv = [str(kubernetes(self.settings.version).bin_dir / name)]
        argv += [f"--{flag}={value}" for flag, value in flags.items()]
        return self._program(name, [*argv, *features.gate_flags(self.settings.minor), *more])

    def _program(self, name: str, argv: list[str], *, keep_fd: int | None = None) -> Program:
        return Program(name, tuple(argv), self.folder / f"{name}.log", keep_fd=keep_fd)

    def _login(self, user: str) -> Path:
        return self.folder / f"{user.removeprefix('system:')}.kubeconfig"
