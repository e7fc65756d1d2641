"""Reads single objects from Python values."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from kai_sched.model.config import Config
from kai_sched.model.objects import Node, Object, Pod, PodGroup, Queue, Topology
from kai_sched.model.read.kinds import VERSIONS, Reader

AnyObject = TypeVar("AnyObject", bound=Object)
Findings = list[tuple[str, str]]


def read(kind: str, document: dict[str, Any], reader: Reader | None = None) -> tuple[Any, Findings]:
    """The object of this kind, and what the reader warned of."""
    found: Findings = []
    raw = msgspec.json.encode({"apiVersion": VERSIONS[kind], "kind": kind, **document})
    reader = reader or Reader(Config())
    return reader.read((VERSIONS[kind], kind), raw, lambda field, message: found.append((field, message))), found


def clean(kind: type[AnyObject], document: dict[str, Any], reader: Reader | None = None) -> AnyObject:
    """The object, which must be read without a warning."""
    names: dict[type, str] = {Pod: "Pod", Node: "Node", Queue: "Queue", PodGroup: "PodGroup", Topology: "Topology"}
    item, found = read(names[kind], document, reader)
    assert found == []
    assert isinstance(item, kind)
    return item


def pod(spec: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    """A pod "ml/p"."""
    return {"metadata": {"name": "p", "namespace": "ml", **meta}, "spec": spec or {}}


def container(
    requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """A container that asks for this."""
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value is not None}
    return {"name": "main", "resources": resources, **more}
