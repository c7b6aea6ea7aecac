"""An example's YAML -> the pods in it and the claims that they bring, as the control plane would make them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from gpu_dra import resource_claim
from gpu_dra.api import JsonObject, is_resource
from gpu_dra.device_class import DeviceClass
from gpu_dra.errors import InputError
from gpu_dra.names import ClaimUid
from gpu_dra.resource_claim import Request, ResourceClaim

EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples" / "resourceclaims"
_NAMESPACE: Final = "default"
_UIDS: Final = uuid.UUID("0d2f1b5e-5b0a-5c58-8f57-6a6f0f2a7f11")


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod and the names of its claims. Two pods that share a claim name the same one."""

    name: str
    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Example:
    """What a file asks for. `about` is the comment at its head."""

    file: str
    about: tuple[str, ...]
    pods: tuple[Pod, ...]
    claims: Mapping[str, ResourceClaim]


def load(name: str, classes: Iterable[DeviceClass]) -> Example:
    """An example by its name, or any file by its path (anything with / or .yaml). InputError says what is wrong."""
    by_path = "/" in name or name.endswith((".yaml", ".yml"))
    path = Path(name) if by_path else EXAMPLES / f"{name}.yaml"
    if not by_path and not path.is_file():
        known = ", ".join(sorted(file.stem for file in EXAMPLES.glob("*.yaml"))) or f"none, as {EXAMPLES} is not there"
        problem = f"there is no such example; choose one of {known}, or give the path of a YAML file"
        raise InputError(f"the example {name!r}", [problem])
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(str(path), [f"the example cannot be read: {problem}"]) from problem
    try:
        objects = [obj for obj in yaml.safe_load_all(text) if obj is not None]
    except (yaml.YAMLError, RecursionError) as problem:
        raise InputError(path.name, [f"this is no YAML: {' '.join(str(problem).split())}"]) from problem
    return decode(objects, path.name, _head(text), classes)


def decode(objects: Iterable[Any], file: str, about: tuple[str, ...], classes: Iterable[DeviceClass]) -> Example:
    """The pods and claims of these objects; InputError where they are not in the shape of their API."""
    templates: dict[str, JsonObject] = {}
    claims: dict[str, ResourceClaim] = {}
    pods: list[Pod] = []
    extended = {each.extended_resource: each for each in classes if each.extended_resource}
    for number, obj in enumerate(objects, 1):
        where = f"{file}, object {number}"
        if not isinstance(obj, dict):
            raise InputError(where, ["is not a Kubernetes object; it has no kind"])
        try:
            match obj.get("kind"):
                case "ResourceClaim" if is_resource(obj):
                    claim = made(obj, obj["metadata"]["name"])
                    claims[claim.name] = claim
                case "ResourceClaimTemplate" if is_resource(obj):
                    templates[obj["metadata"]["name"]] = {"apiVersion": obj["apiVersion"], "spec": obj["spec"]["spec"]}
                case "Pod":
                    pods.append(_pod(obj, templates, claims, extended))
                case kind:
                    raise InputError(where, [f"is a {kind} of {obj.get('apiVersion')}, which this demo has no use for"])
        except (KeyError, TypeError, AttributeError) as problem:
            what = f"the field {problem} is missing" if isinstance(problem, KeyError) else f"a field is odd ({problem})"
            raise InputError(where, [f"is no valid {obj.get('kind')}: {what}"]) from problem
    if not any(pod.claims for pod in pods):
        raise InputError(file, ["holds no Pod that asks for devices"])
    return Example(file, about, tuple(pods), claims)


def made(obj: Mapping[str, Any], name: str) -> ResourceClaim:
    """The claim as the API server stores it: with a uid, here always the same for one name."""
    metadata = {"namespace": _NAMESPACE, "name": name, "uid": str(uuid.uuid5(_UIDS, name))}
    return resource_claim.decode({**obj, "kind": "ResourceClaim", "metadata": metadata})


def _pod(
    obj: JsonObject,
    templates: Mapping[str, JsonObject],
    claims: dict[str, ResourceClaim],
    extended: Mapping[str, DeviceClass],
) -> Pod:
    name, spec = obj["metadata"]["name"], obj["spec"]
    named: list[str] = []
    for entry in spec.get("resourceClaims") or []:
        template = entry.get("resourceClaimTemplateName")
        if template is None:
            claim = entry["resourceClaimName"]
        else:
            claim = f"{name}-{entry['name']}"
            if template not in templates:
                raise InputError(
                    f"the pod {name}", [f"names the template {template}, which is not in the file before it"]
                )
            claims[claim] = made(templates[template], claim)
        if claim not in claims:
            raise InputError(f"the pod {name}", [f"names the claim {claim}, which is not in the file before it"])
        named.append(claim)
    requests = [
        Request(f"container-{at}-request-{number}", extended[resource].name, count=int(count))
        for at, container in enumerate(spec["containers"])
        for number, (resource, count) in enumerate((container.get("resources") or {}).get("limits", {}).items())
        if resource in extended
    ]
    if requests:
        # The scheduler makes this claim itself, and names it so.
        claim = f"{name}-extended-resources"
        claims[claim] = ResourceClaim(_NAMESPACE, claim, ClaimUid(str(uuid.uuid5(_UIDS, claim))), tuple(requests))
        named.append(claim)
    return Pod(name, tuple(named))


def _head(text: str) -> tuple[str, ...]:
    lines: list[str] = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return tuple(lines)
