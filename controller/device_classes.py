"""DeviceClass objects, and what has to be done so that the stored ones are those wanted. Pure.

    values file -> class_list -> encode -> plan(wanted, stored) -> keeper -> API server

A class is ours only where its annotation names our release, our namespace and the class's own name: a copy that somebody
makes of one of ours under another name is theirs. Everything else is foreign and never written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller.class_list import WantedClass
from gpu_dra import device_class
from gpu_dra.api import JsonObject
from gpu_dra.names import RESOURCE_GROUP

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
INSTANCE: Final = "app.kubernetes.io/instance"
MANAGER: Final = "gpu-dra-controller"
MARK: Final = "gpu-dra.io/kept-for"
"""Annotation: NAMESPACE/RELEASE/CLASS."""


@dataclass(frozen=True, slots=True)
class Release:
    """The Helm release whose classes these are."""

    namespace: str
    name: str

    def mark(self, class_name: str) -> str:
        return f"{self.namespace}/{self.name}/{class_name}"


@dataclass(frozen=True, slots=True)
class Owner:
    """The cluster-scoped object with which the classes go: the release's ClusterRole."""

    name: str
    uid: str

    def reference(self) -> JsonObject:
        return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": self.name, "uid": self.uid}


@dataclass(frozen=True, slots=True)
class ForeignClass:
    """A class with a name that we want, made by somebody else."""

    name: str
    uid: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write, in the order of names, and what to leave alone."""

    create: tuple[JsonObject, ...] = ()
    replace: tuple[JsonObject, ...] = ()
    delete: tuple[JsonObject, ...] = ()
    foreign: tuple[ForeignClass, ...] = ()


def encode(wanted: WantedClass, release: Release, owner: Owner | None) -> JsonObject:
    """The object to store, in the shape of v1 (all versions have one shape for this kind)."""
    spec: JsonObject = {"selectors": [{"cel": {"expression": device_class.selector(wanted.driver, wanted.type)}}]}
    if wanted.extended_resource:
        spec["extendedResourceName"] = wanted.extended_resource
    metadata: JsonObject = {
        "name": wanted.name,
        "labels": {MANAGED_BY: MANAGER, INSTANCE: release.name},
        "annotations": {MARK: release.mark(wanted.name)},
    }
    if owner is not None:
        metadata["ownerReferences"] = [owner.reference()]
    return {"apiVersion": f"{RESOURCE_GROUP}/v1", "kind": "DeviceClass", "metadata": metadata, "spec": spec}


def is_ours(obj: Mapping[str, Any], release: Release) -> bool:
    """Whether we made this object for this release."""
    metadata = obj.get("metadata") or {}
    marks = metadata.get("annotations") or {}
    return bool(marks.get(MARK) == release.mark(str(metadata.get("name", ""))))


def plan(
    wanted: Iterable[JsonObject],
    stored: Iterable[JsonObject],
    release: Release,
    accepted: Mapping[str, JsonObject] | None = None,
) -> Plan:
    """What turns `stored` into `wanted`.

    `accepted` holds, by name, the essence of what the server made of our last write: an object that still looks so is
    as good as it gets with this server, and writing it again would only loop.
    """
    targets = {name_of(obj): obj for obj in wanted}
    found = {name_of(obj): obj for obj in stored}
    create: list[JsonObject] = []
    replace: list[JsonObject] = []
    foreign: list[ForeignClass] = []
    for name, target in sorted(targets.items()):
        current = found.get(name)
        if current is None:
            create.append(target)
        elif not is_ours(current, release):
            foreign.append(ForeignClass(name, str(current["metadata"].get("uid", "")), _whose(current)))
        elif not _is_going(current):
            changed = merged(current, target)
            if changed != current and essence(current) != (accepted or {}).get(name):
                replace.append(changed)
    unwanted = [obj for name, obj in sorted(found.items()) if name not in targets and is_ours(obj, release)]
    return Plan(tuple(create), tuple(replace), tuple(obj for obj in unwanted if not _is_going(obj)), tuple(foreign))


def merged(current: JsonObject, target: JsonObject) -> JsonObject:
    """The stored object with our spec and marks; what others added to its metadata stays."""
    metadata = dict(current["metadata"])
    for field in ("labels", "annotations"):
        metadata[field] = {**(metadata.get(field) or {}), **target["metadata"].get(field, {})}
    wanted_owners: list[JsonObject] = target["metadata"].get("ownerReferences", [])
    if wanted_owners:
        # A reference to an earlier install's role would let the garbage collector take the class.
        ours = {(owner["kind"], owner["name"]) for owner in wanted_owners}
        others = [
            owner
            for owner in metadata.get("ownerReferences") or []
            if owner not in wanted_owners and (owner["kind"], owner["name"]) not in ours
        ]
        metadata["ownerReferences"] = [*others, *wanted_owners]
    return {**current, "metadata": metadata, "spec": target["spec"]}


def essence(obj: JsonObject) -> JsonObject:
    """What of an object we write, without what the server keeps for itself."""
    metadata = obj["metadata"]
    kept = {field: metadata.get(field) or None for field in ("labels", "annotations", "ownerReferences")}
    return {"spec": obj.get("spec") or {}, **kept}


def lost_fields(asked: JsonObject, answered: JsonObject) -> tuple[str, ...]:
    """The fields of the spec that the server did not store as asked."""
    spec, stored = asked["spec"], answered.get("spec") or {}
    return tuple(f"spec.{field}" for field in sorted({*spec, *stored}) if spec.get(field) != stored.get(field))


def name_of(obj: JsonObject) -> str:
    return str(obj["metadata"]["name"])


def _is_going(obj: JsonObject) -> bool:
    """Deleted already and held by a finalizer: it can only be made again when it is gone."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def _whose(obj: JsonObject) -> str:
    name = name_of(obj)
    mark = str((obj["metadata"].get("annotations") or {}).get(MARK, ""))
    namespace, _, rest = mark.partition("/")
    release, _, marked = rest.partition("/")
    if marked == name:
        maker, advice = f"by the release {release} in namespace {namespace}", "install gpu-dra once in a cluster"
    else:
        maker, advice = "by somebody else", "delete that class so that it is made anew"
    return (
        f"DeviceClass {name} was made {maker} and is left alone;"
        f" {advice}, or take the name out of the chart's deviceClasses."
    )
