"""kubectl with one kubeconfig: what tests apply, read and wait for.

Manifests are written for resource.k8s.io/v1; for servers that lack it they pass the project's own converter first.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpu_dra.api import to_version

JsonObject = dict[str, Any]


class KubectlError(Exception):
    """kubectl failed; the text is the command and what it wrote."""


class NotYetError(Exception):
    """Something did not happen in time; the text says what, and how things stand."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """One cluster, and the version of resource.k8s.io to speak with it."""

    kubeconfig: Path
    resource_version: str = "v1"
    namespace: str | None = None

    def within(self, namespace: str) -> Kubectl:
        """The same in a namespace."""
        return Kubectl(self.kubeconfig, self.resource_version, namespace)

    def run(self, *arguments: str, text_in: str | None = None, timeout: float = 120) -> str:
        """kubectl's stdout; KubectlError where it fails."""
        where = [] if self.namespace is None else ["--namespace", self.namespace]
        command = ["kubectl", "--kubeconfig", str(self.kubeconfig), *where, *arguments]
        try:
            done = subprocess.run(command, input=text_in, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired as problem:
            raise KubectlError(f"`kubectl {' '.join(arguments)}` did not end within {timeout:.0f} s") from problem
        if done.returncode:
            raise KubectlError(f"`kubectl {' '.join(arguments)}` failed: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def apply(self, manifests: str, *arguments: str) -> None:
        """Apply YAML documents, in the server's version of resource.k8s.io."""
        self.run("apply", *arguments, "-f", "-", text_in=self.convert(manifests))

    def create(self, *objects: JsonObject) -> None:
        """Create objects; one that is refused is a KubectlError with the server's reason."""
        self.run("create", "-f", "-", text_in=self._dump(objects))

    def convert(self, manifests: str) -> str:
        return self._dump(document for document in yaml.safe_load_all(manifests) if document)

    def delete(self, kind: str, *names: str, wait: bool = True, now: bool = False) -> None:
        """Delete objects; those that are gone already do not matter."""
        flags = ["--ignore-not-found", f"--wait={str(wait).lower()}", *(["--grace-period=1"] if now else [])]
        self.run("delete", kind, *names, *flags, timeout=180)

    def get(self, kind: str, name: str) -> JsonObject:
        return dict(json.loads(self.run("get", kind, name, "-o", "json")))

    def find(self, kind: str, name: str) -> JsonObject | None:
        """The object, or None where it is not there."""
        text = self.run("get", kind, name, "-o", "json", "--ignore-not-found")
        return dict(json.loads(text)) if text.strip() else None

    def list(self, kind: str, *, selector: str = "", all_namespaces: bool = False) -> list[JsonObject]:
        flags = [*(["--selector", selector] if selector else []), *(["--all-namespaces"] if all_namespaces else [])]
        return list(json.loads(self.run("get", kind, "-o", "json", *flags))["items"])

    def exec(self, pod: str, *argv: str, container: str | None = None) -> str:
        chosen = [] if container is None else ["--container", container]
        return self.run("exec", pod, *chosen, "--", *argv)

    def logs(self, pod: str, *arguments: str) -> str:
        return self.run("logs", pod, *arguments)

    def wait(self, what: str, look: Callable[[], object], *, within: float = 60, every: float = 0.2) -> None:
        """Ask until `look` returns something true; NotYetError with what it last returned or raised otherwise."""
        deadline = time.monotonic() + within
        while True:
            try:
                seen = look()
                if seen:
                    return
            except KubectlError as problem:
                seen = problem
            if time.monotonic() > deadline:
                raise NotYetError(f"waited {within:.0f} s for {what}, in vain; last seen: {seen}")
            time.sleep(every)

    def wait_pod(self, name: str, *, phase: str = "Running", within: float = 60) -> JsonObject:
        """Wait until a pod is Running and Ready, or has another phase; returns it."""
        found: JsonObject = {}

        def look() -> bool:
            found.update(self.get("pod", name))
            return pod_is(found, phase)

        try:
            self.wait(f"pod {name} to be {phase}", look, within=within)
        except NotYetError as problem:
            raise NotYetError(f"{problem}\n{self.describe_pod(name, found)}") from None
        return found

    def wait_gone(self, kind: str, name: str, *, within: float = 60) -> None:
        self.wait(f"{kind} {name} to be gone", lambda: self.find(kind, name) is None, within=within)

    def describe_pod(self, name: str, pod: JsonObject) -> str:
        """What a person would look at first: states of the containers, and events."""
        statuses = pod.get("status", {}).get("containerStatuses", [])
        lines = [f"  {status['name']}: {json.dumps(status.get('state', {}))}" for status in statuses]
        for event in self.list("events"):
            if event.get("involvedObject", {}).get("name") == name:
                lines.append(f"  {event.get('reason')}: {event.get('message')}")
        return "\n".join(lines)

    def _dump(self, objects: Iterable[JsonObject]) -> str:
        documents: Sequence[JsonObject] = [to_version(document, self.resource_version) for document in objects]
        return yaml.safe_dump_all(documents, sort_keys=False)


def pod_is(pod: JsonObject, phase: str) -> bool:
    """Whether the pod has the phase; Running counts only when it is Ready, too."""
    if pod.get("status", {}).get("phase") != phase:
        return False
    return phase != "Running" or condition(pod, "Ready") == "True"


def condition(obj: JsonObject, kind: str) -> str | None:
    """The status of one of an object's conditions: True, False, Unknown, or None where it has none."""
    conditions = obj.get("status", {}).get("conditions", [])
    return next((str(one["status"]) for one in conditions if one.get("type") == kind), None)


def container_ids(pod: JsonObject) -> list[str]:
    """Of a pod's containers: the same ones later say that none was restarted."""
    return [str(status["containerID"]) for status in pod["status"]["containerStatuses"]]
