"""What all simulated controllers share: children with an owner reference, and pods from a template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kai_sched.files.controllers.kinds import made_up_uid
from kai_sched.reconcile.grouping.fields import Fields
from kai_sched.reconcile.grouping.owners import ObjectReference, Owner

Manifest = dict[str, Any]
Texts = Mapping[str, str]

_NONE: Texts = {}


@dataclass(frozen=True, slots=True)
class ControlledWorkload:
    """A workload for which a controller makes objects. ``find`` returns other objects of the input."""

    owner: Owner
    warn: Callable[[str, str], None]  # (field, message)
    find: Callable[[ObjectReference], Owner | None]

    @property
    def spec(self) -> Fields:
        """Its spec."""
        return self.owner.fields.at("spec")

    @property
    def name(self) -> str:
        """Its own name."""
        return self.owner.name

    def child(self, api_version: str, kind: str, name: str, labels: Texts = _NONE, **parts: Any) -> Manifest:
        """An object that it owns. ``parts`` are annotations, spec and status, each where there is one."""
        owner = self.owner
        reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
        meta: Manifest = {
            "name": name,
            "namespace": owner.namespace,
            "uid": made_up_uid(kind),
            "ownerReferences": [{**reference, "controller": True}],
        }
        if labels:
            meta["labels"] = dict(labels)
        if parts.get("annotations"):
            meta["annotations"] = dict(parts["annotations"])
        rest = {key: value for key, value in parts.items() if key != "annotations"}
        return {"apiVersion": api_version, "kind": kind, "metadata": meta, **rest}

    def pod(self, name: str, template: Fields, labels: Texts = _NONE, **more: Any) -> Manifest:
        """A pod of the template, with ``labels`` on top of its own, and ``annotations`` and parts of its spec in
        ``more``. Raises GroupingError."""
        meta = template.at("metadata")
        annotations = {**meta.texts("annotations"), **more.pop("annotations", {})}
        spec = {**(template.at("spec").values), **more}
        return self.child(
            "v1",
            "Pod",
            name,
            {**meta.texts("labels"), **labels},
            annotations=annotations,
            spec=spec,
            status={"phase": "Pending"},
        )


# What a controller makes of a workload: pods, other objects, or the workload anew with its status.
Controller = Callable[[ControlledWorkload], Iterator[Manifest]]


def count_of(fields: Fields, name: str, default: int) -> int:
    """A number of replicas. Raises GroupingError."""
    count = fields.count(name)
    return default if count is None else count


def with_labels(template: Fields, labels: Texts) -> Manifest:
    """The template with more labels. Raises GroupingError."""
    meta = template.at("metadata")
    return {**template.values, "metadata": {**meta.values, "labels": {**meta.texts("labels"), **labels}}}
