"""Workloads with their pods, and the group of each as one line of text."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from kai_sched.api import core
from kai_sched.model.objects import Pod, PodGroup, Shape
from kai_sched.reconcile.grouping.manifest import Grouping
from kai_sched.reconcile.grouping.owners import ObjectReference, Owner, read_owner, resolve
from kai_sched.reconcile.grouping.registry import group_of
from kai_sched.reconcile.grouping.settings import GroupingSettings

T = TypeVar("T")
Thing = dict[str, Any]
CLASSES = frozenset({"train", "build-preemptible", "build", "inference"})
SETTINGS = GroupingSettings(priority_classes=CLASSES)
QUEUE = {"kai.scheduler/queue": "team-a"}


def owner(kind: str, name: str, by: Thing | None = None, **parts: Any) -> Thing:
    """An object. ``kind`` is such as "batch/v1 Job"; labels, annotations, spec and status are ``parts``."""
    version, _, kind = kind.rpartition(" ")
    meta: Thing = {"name": name, "namespace": "ml", "uid": f"uid-{name}"}
    meta |= {key: parts.pop(key) for key in ("labels", "annotations") if key in parts}
    if by is not None:
        meta["ownerReferences"] = [reference(by)]
    return {"apiVersion": version, "kind": kind, "metadata": meta, **parts}


def job(by: Thing | None = None, **meta: Any) -> Thing:
    return owner("batch/v1 Job", "train", by, **meta)


def reference(to: Thing) -> Thing:
    meta = to["metadata"]
    return {"apiVersion": to["apiVersion"], "kind": to["kind"], "name": meta["name"], "uid": meta["uid"]}


def pod(name: str, by: Thing | None = None, **parts: Any) -> Thing:
    """A pod of the scheduler's; what is no label, annotation or status is part of its spec."""
    meta = {key: parts.pop(key) for key in ("labels", "annotations", "status") if key in parts}
    container = {"name": "main", "image": "example.com/main:1", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": "kai-scheduler", "containers": [container], **parts}
    return owner("v1 Pod", name, by, spec=spec, **meta)


@dataclass
class World:
    """A view of a few objects. ``asked`` are the references that were looked up."""

    things: Iterable[Thing] = ()
    groups: Mapping[str, PodGroup] = field(default_factory=dict)
    there: Iterable[Pod] = ()
    forbidden: frozenset[str] = frozenset()  # kinds
    asked: list[ObjectReference] = field(default_factory=list)

    def fetch(self, reference: ObjectReference) -> Owner | None:
        self.asked.append(reference)
        if reference.kind in self.forbidden:
            raise PermissionError(reference.subject)
        for thing in self.things:
            if (thing["apiVersion"], thing["kind"], thing["metadata"]["name"]) == (
                reference.api_version,
                reference.kind,
                reference.name,
            ):
                parts = thing if reference.whole else {"metadata": thing["metadata"]}
                return read_owner(json.dumps(parts).encode(), reference)
        return None

    def group(self, namespace: str, name: str) -> PodGroup | None:
        return self.groups.get(f"{namespace}/{name}")

    def pods(self, namespace: str, label: str, value: str) -> Iterable[Pod]:
        return [each for each in self.there if each.namespace == namespace and each.labels.get(label) == value]

    def once(self, _: Hashable, make: Callable[[], T]) -> T:
        return make()


def wire(thing: Thing) -> core.WirePod:
    return msgspec.json.decode(json.dumps(thing), type=core.WirePod)


def member(name: str, labels: Mapping[str, str], **more: Any) -> Pod:
    return Pod("ml", name, Shape(), uid=f"uid-{name}", labels=labels, **more)


def grouping(the_pod: Thing, world: World, settings: GroupingSettings = SETTINGS) -> Grouping:
    found = wire(the_pod)
    return group_of(found, resolve(found, world.fetch), world, settings)


def line(found: Grouping) -> str:
    """Such as "pg-train-uid-train of Job train | 1 | team-a train | | "."""
    of = found.manifest["metadata"]["ownerReferences"][0]
    group = f"{found.name} of {of['kind']} {of['name']} ({of['uid']})"
    return " | ".join((group, *spec_line(found.manifest["spec"]), found.sub_group))


def spec_line(spec: Thing) -> tuple[str, str, str]:
    policy = [spec[key] for key in ("preemptibility", "preemptionDelay", "stalenessGracePeriod") if key in spec]
    terms = " ".join((spec["queue"], spec["priorityClassName"], *policy, *topology(spec)))
    return minimum(spec), terms, ", ".join(sub_group(each) for each in spec.get("subGroups", ()))


def minimum(part: Thing) -> str:
    found = [str(part[key]) + unit for key, unit in (("minMember", ""), ("minSubGroup", " parts")) if key in part]
    return " and ".join(found)


def sub_group(each: Thing) -> str:
    parent = f"{each['parent']}/" if "parent" in each else ""
    return " ".join((f"{parent}{each['name']} {minimum(each)}", *topology(each)))


def topology(part: Thing) -> list[str]:
    found = part.get("topologyConstraint")
    if found is None:
        return []
    levels = [found[key] for key in ("requiredTopologyLevel", "preferredTopologyLevel") if key in found]
    return [f"in {found['topology']}:{'+'.join(levels)}"]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value inside this one."""
    found = [path] if path else []
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        found += places(inner, (*path, key))
    return found
