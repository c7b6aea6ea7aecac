"""The cluster's certificates, keys and tokens, made with openssl in well under a second.

One CA signs what clients check (API server, kubelets) and the API server's own client certificate for kubelets; a
second one is for the front proxy. Components and the administrator log in with tokens: no certificate to renew.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster import network
from tests.e2e.cluster.process import run

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "365")
ADMIN = "gpu-dra-e2e-admin"
COMPONENTS = ("system:kube-scheduler", "system:kube-controller-manager", "system:kube-proxy")


@dataclass(frozen=True, slots=True)
class Pki:
    """Where each certificate, key and token is."""

    folder: Path

    def cert(self, name: str) -> str:
        return str(self.folder / f"{name}.crt")

    def key(self, name: str) -> str:
        return str(self.folder / f"{name}.key")

    @property
    def tokens(self) -> Path:
        return self.folder / "tokens.csv"

    def kubeconfig(self, user: str, server: str) -> str:
        """A kubeconfig's text (JSON is YAML) for one of the users."""
        lines = (line.split(",") for line in self.tokens.read_text().splitlines())
        token = next(parts[0] for parts in lines if parts[1] == user)
        ca = base64.b64encode(Path(self.cert("ca")).read_bytes()).decode()
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": {"server": server, "certificate-authority-data": ca}}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": user}}],
            "current-context": "e2e",
        }
        return json.dumps(content, indent=1)


def make(folder: Path, nodes: Sequence[int]) -> Pki:
    """Everything a cluster of these nodes needs."""
    folder.mkdir(mode=0o700, parents=True)
    pki = Pki(folder)
    for ca in ("ca", "front-ca"):
        request = ["req", "-x509", *_NEW_KEY, "-subj", f"/CN=gpu-dra-e2e-{ca}", "-keyout", pki.key(ca)]
        run(["openssl", *request, "-out", pki.cert(ca), "-addext", "keyUsage=critical,keyCertSign,digitalSignature"])
    names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost")
    addresses = (network.KUBERNETES_SERVICE, network.CONTROL_PLANE, "127.0.0.1")
    _sign(pki, "apiserver", "ca", "/CN=kube-apiserver", names, addresses)
    _sign(pki, "kubelet-client", "ca", "/O=system:masters/CN=kube-apiserver-kubelet-client")
    _sign(pki, "front-proxy-client", "front-ca", "/CN=front-proxy-client")
    for number in nodes:
        name = network.node_namespace(number)
        _sign(pki, name, "ca", f"/O=system:nodes/CN=system:node:{name}", (name,), (network.node_address(number),))
    run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", pki.key("sa")])
    Path(pki.folder / "sa.pub").write_text(run(["openssl", "pkey", "-in", pki.key("sa"), "-pubout"]))
    rows = [f'{_token()},{ADMIN},{ADMIN},"system:masters"']
    rows += [f"{_token()},{component},{component}" for component in COMPONENTS]
    for number in nodes:
        name = f"system:node:{network.node_namespace(number)}"
        rows.append(f'{_token()},{name},{name},"system:nodes"')
    pki.tokens.write_text("\n".join(rows) + "\n")
    return pki


def _token() -> str:
    return secrets.token_hex(16)


def _sign(pki: Pki, name: str, ca: str, subject: str, names: Sequence[str] = (), addresses: Sequence[str] = ()) -> None:
    alternatives = ",".join([f"DNS:{text}" for text in names] + [f"IP:{text}" for text in addresses])
    extra = ["-addext", f"subjectAltName={alternatives}"] if alternatives else []
    extra += ["-addext", "extendedKeyUsage=serverAuth,clientAuth", "-addext", "basicConstraints=critical,CA:FALSE"]
    request = ["req", "-x509", *_NEW_KEY, "-subj", subject, "-CA", pki.cert(ca), "-CAkey", pki.key(ca), *extra]
    run(["openssl", *request, "-keyout", pki.key(name), "-out", pki.cert(name)])
