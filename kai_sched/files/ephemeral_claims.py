"""Offline, which PersistentVolumeClaims are made for generic ephemeral volumes of pods, as the controller of Kubernetes
would: named after the pod and the volume, and owned by the pod. Claims that the input has are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kai_sched.api import core
from kai_sched.files.items import Item
from kai_sched.model.field_errors import FieldError, decode_part
from kai_sched.model.read.kinds import POD, VOLUME_CLAIM
from kai_sched.model.read.meta import DEFAULT_NAMESPACE


class _ClaimTemplate(core.Wire):
    metadata: core.Meta | None = None
    spec: dict[str, Any] | None = None


class _Ephemeral(core.Wire):
    volume_claim_template: _ClaimTemplate | None = None


class _Volume(core.Wire):
    name: str | None = None
    ephemeral: _Ephemeral | None = None


class _SpecWithVolumes(core.Wire):
    volumes: list[_Volume] | None = None


class _PodWithVolumes(core.Wire):
    metadata: core.Meta | None = None
    spec: _SpecWithVolumes | None = None


class _Named(core.Wire):
    metadata: core.Meta | None = None


_pod = msgspec.json.Decoder(_PodWithVolumes)
_named = msgspec.json.Decoder(_Named)


def with_ephemeral_claims(items: Sequence[Item]) -> list[Item]:
    """The items with the claims that are made for pods. What cannot be read is left to the readers of the objects."""
    pods = [item for item in items if item.kind == POD and b'"volumeClaimTemplate"' in bytes(item.raw)]
    if not pods:
        return list(items)
    there = {_key(item) for item in items if item.kind == VOLUME_CLAIM}
    return [*items, *(claim for pod in pods for claim in _claims(pod, there))]


def _key(item: Item) -> tuple[str, str]:
    try:
        meta = decode_part(_named, item.raw, "").metadata or core.Meta()
    except FieldError:
        return "", ""
    return meta.namespace or DEFAULT_NAMESPACE, meta.name or ""


def _claims(item: Item, there: set[tuple[str, str]]) -> list[Item]:
    """The claims of the volumes of one pod that are not ``there``."""
    try:
        pod = decode_part(_pod, item.raw, "")
    except FieldError:
        return []
    meta, made = pod.metadata or core.Meta(), []
    namespace = meta.namespace or DEFAULT_NAMESPACE
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid or "", "controller": True}
    for volume in (pod.spec or _SpecWithVolumes()).volumes or ():
        template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
        name = f"{meta.name}-{volume.name}"
        if template is None or (namespace, name) in there:
            continue
        labels = (template.metadata or core.Meta()).labels or {}
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [owner]},
            "spec": template.spec or {},
            "status": {"phase": "Pending"},
        }
        made.append(Item(item.source, VOLUME_CLAIM, msgspec.json.encode(claim)))
    return made
