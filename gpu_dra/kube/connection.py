"""Where the API server is and who we are to it."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from gpu_dra.errors import HostError, InputError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Connection:
    """A server's address and credentials. A token file is read again as it is rotated; `token` never changes."""

    server: str
    ca_file: Path | None = None
    token: str | None = None
    token_file: Path | None = None
    client_cert: tuple[Path, Path] | None = None
    verify: bool = True

    def ssl_context(self) -> ssl.SSLContext:
        """HostError where a certificate cannot be read."""
        reading = str(self.ca_file)
        try:
            context = ssl.create_default_context(cafile=str(self.ca_file) if self.ca_file else None)
            if not self.verify:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            if self.client_cert:
                certificate, key = self.client_cert
                reading = f"{certificate} with the key {key}"
                context.load_cert_chain(str(certificate), str(key))
        except OSError as problem:  # ssl.SSLError is one
            raise HostError(f"the certificate {reading} cannot be used: {problem.strerror or problem}") from problem
        return context


def in_cluster(service_account: Path = SERVICE_ACCOUNT) -> Connection:
    """The connection of a pod; HostError where this is not one."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise HostError("KUBERNETES_SERVICE_HOST is not set, so this is no pod; outside of one give --kubeconfig FILE.")
    token, ca_file = service_account / "token", service_account / "ca.crt"
    for path in (token, ca_file):
        if not path.is_file():
            raise HostError(f"{path} is missing; the pod needs a service account token (automountServiceAccountToken).")
    address = f"[{host}]" if ":" in host else host
    return Connection(f"https://{address}:{port}", ca_file=ca_file, token_file=token)


def from_kubeconfig(path: Path | None = None, context: str | None = None) -> Connection:
    """The connection of a kubeconfig file (default: $KUBECONFIG, else ~/.kube/config).

    Read by the `kubernetes` library, which knows every way to log in; imported here because only people need it.
    """
    import yaml  # noqa: PLC0415
    from kubernetes import client, config  # noqa: PLC0415

    where = str(path or "the kubeconfig")
    settings = client.Configuration()
    try:
        config.load_kube_config(  # type: ignore[no-untyped-call]
            str(path) if path else None, context, settings, persist_config=False
        )
    except (config.ConfigException, OSError) as problem:
        raise InputError(where, [str(problem)]) from problem
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError) as problem:
        # The library takes the shape of the file for granted.
        raise InputError(where, [f"this is no kubeconfig: {' '.join(str(problem).split())}"]) from problem
    if not settings.host:
        raise InputError(where, ["its cluster has no server"])
    token = settings.api_key.get("authorization") or settings.api_key.get("BearerToken")
    certificate, key = settings.cert_file, settings.key_file
    return Connection(
        server=settings.host,
        ca_file=Path(settings.ssl_ca_cert) if settings.ssl_ca_cert else None,
        token=token.removeprefix("Bearer ") if token else None,
        client_cert=(Path(certificate), Path(key)) if certificate and key else None,
        verify=bool(settings.verify_ssl),
    )
