"""GpuNodes from a cluster: the one door to the `kubernetes` library. Its errors end here as sentences."""

from __future__ import annotations

import difflib
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes import client, config
from urllib3.exceptions import HTTPError

from gpu_dra import gpu_node
from gpu_dra.errors import GpuDraError, InputError, Unavailable
from gpu_dra.gpu_node import GpuNode
from gpu_dra.names import API_GROUP

CRD: Final = f"{gpu_node.RESOURCE}.{API_GROUP}"
_VERSION: Final = gpu_node.API_VERSION.removeprefix(f"{API_GROUP}/")
_TIMEOUT: Final = (5, 30)
"""Seconds to connect and to answer."""
_PAGE: Final = 200


class Fleet:
    """The GpuNodes of one cluster."""

    def __init__(self, api: client.CustomObjectsApi, server: str) -> None:
        self._api = api
        self._server = server

    def all(self) -> list[GpuNode]:
        """By name; page by page, for a large fleet is some megabytes."""
        found: list[GpuNode] = []
        token = ""
        while True:
            page = self._ask(
                self._api.list_cluster_custom_object,
                API_GROUP,
                _VERSION,
                gpu_node.RESOURCE,
                limit=_PAGE,
                _continue=token,
            )
            found += [_decode(obj) for obj in page.get("items") or ()]
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return sorted(found, key=lambda node: node.name)

    def of(self, names: Sequence[str]) -> list[GpuNode]:
        """These, in this order; InputError names all that are not there, and the known ones."""
        found = [self._find(name) for name in names]
        missing = [name for name, node in zip(names, found, strict=True) if node is None]
        if missing:
            raise InputError(self._server, [_unknown(missing, [node.name for node in self.all()])])
        return [node for node in found if node is not None]

    def _find(self, name: str) -> GpuNode | None:
        try:
            obj = self._ask(
                self._api.get_cluster_custom_object, API_GROUP, _VERSION, gpu_node.RESOURCE, name, missing=None
            )
        except _NotFound:
            return None
        return _decode(obj)

    def _ask(self, call: Any, *arguments: str, missing: str | None = "crd", **options: Any) -> Mapping[str, Any]:
        try:
            answer: object = call(*arguments, **options, _request_timeout=_TIMEOUT)
        except client.ApiException as problem:
            if problem.status == 404 and missing is None:
                raise _NotFound from problem
            raise self._said(problem) from problem
        except (HTTPError, OSError) as problem:
            raise Unavailable(
                f"the API server {self._server} cannot be reached ({_cause(problem)}); "
                "check --context and --kubeconfig, and the network"
            ) from problem
        except ValueError as problem:
            raise Unavailable(f"{self._server} did not answer as an API server does: {_line(problem)}") from problem
        if not isinstance(answer, dict):
            raise Unavailable(
                f"{self._server} did not answer as an API server does; check the server of the kubeconfig"
            )
        return answer

    def _said(self, problem: client.ApiException) -> GpuDraError:
        match problem.status:
            case 404:
                return InputError(self._server, [f"the CRD {CRD} is not installed; install the chart gpu-dra"])
            case 403:
                return InputError(
                    self._server,
                    [f"you may not read {CRD}; ask for a ClusterRole with the verbs get and list on them"],
                )
            case 401:
                return InputError(self._server, ["the credentials of the kubeconfig are not accepted; log in again"])
            case 0 | None:
                reason = _line(problem.reason)
                return Unavailable(f"the API server {self._server} cannot be trusted or understood: {reason}")
            case status:
                return Unavailable(
                    f"the API server {self._server} answered {status} {_line(problem.reason)}; try again"
                )


class _NotFound(Exception):
    """There is no such object, or no such resource."""


@contextmanager
def connect(kubeconfig: Path | None, context: str | None) -> Generator[Fleet]:
    """A connection by a kubeconfig, in a pod without one by its service account."""
    settings = client.Configuration()
    settings.retries = False  # a command that a person waits for fails at once
    where = str(kubeconfig or "the kubeconfig")
    if kubeconfig is not None and not kubeconfig.is_file():
        raise InputError(where, ["there is no such file; give --kubeconfig FILE"])
    try:
        _load(settings, kubeconfig, context)
    except (config.ConfigException, OSError) as problem:
        raise InputError(where, [f"{_line(problem)} Give --kubeconfig FILE and --context NAME."]) from problem
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError) as problem:
        # The library takes the shape of the file for granted.
        raise InputError(where, [f"this is no kubeconfig: {_line(problem)}"]) from problem
    if not settings.host:
        raise InputError(where, ["its cluster has no server"])
    try:
        api = client.ApiClient(settings)
    except (OSError, ValueError) as problem:
        raise InputError(where, [f"its certificates cannot be read: {_line(problem)}"]) from problem
    with api:
        yield Fleet(client.CustomObjectsApi(api), settings.host)


def _load(settings: client.Configuration, kubeconfig: Path | None, context: str | None) -> None:
    file = str(kubeconfig) if kubeconfig else None
    try:
        config.load_kube_config(file, context, settings, persist_config=False)  # type: ignore[no-untyped-call]
    except config.ConfigException:
        if kubeconfig is not None or context is not None:
            raise
        try:
            config.load_incluster_config(settings)  # type: ignore[no-untyped-call]
        except config.ConfigException:
            pass
        else:
            return
        raise


def _decode(obj: Mapping[str, Any]) -> GpuNode:
    try:
        node = gpu_node.decode(obj)
    except (LookupError, TypeError, ValueError, AttributeError) as problem:
        raise InputError(
            f"gpunode {obj['metadata']['name']}",
            ["its status cannot be read; another version of the agent wrote it: update this plugin"],
        ) from problem
    size = len(node.gpus) + len(node.nics)
    whole = len(node.links) == size and all(len(row) == size for row in node.links)
    return node if whole else replace(node, links=())


def _unknown(missing: Sequence[str], known: Sequence[str]) -> str:
    what = f"no GpuNode is named {', '.join(missing)}"
    if not known:
        return f"{what}: there is none at all; does the node agent run?"
    likely = {near for name in missing for near in difflib.get_close_matches(name, known, 5)}
    # The likely ones first: of a thousand nodes nobody reads all.
    listed = sorted(known, key=lambda name: (name not in likely, name))
    more = f" and {len(listed) - 20} more" if len(listed) > 20 else ""
    return f"{what}; known are {', '.join(listed[:20])}{more}"


def _cause(problem: Exception) -> str:
    """The innermost reason: the outer ones name objects of the library."""
    inner: object = getattr(problem, "reason", None) or problem
    text = _line(inner)
    return text.rpartition(": ")[2] if isinstance(problem, HTTPError) else text


def _line(problem: object) -> str:
    return " ".join(str(problem).split())[:300]
