"""Refuses pods with reserved labels (``app``, priority class) or with impossible owner references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kai_sched.api import names
from kai_sched.api.legal import segment_fault
from kai_sched.model.field_errors import shown
from kai_sched.model.priorities import is_reserved
from kai_sched.reconcile.admission.types import AdmissionRequest, AdmissionSettings, reserved

# Kubernetes accepts any text as the name of an owner. Each owner is checked.
OWNERS_MAX = 100


def claim_faults(request: AdmissionRequest, settings: AdmissionSettings) -> Iterator[str]:
    """What is wrong with the labels and owners of the pod. What an update leaves as it was is let pass."""
    meta, before = request.object.get("metadata") or {}, request.old.get("metadata") or {}
    namespace = meta.get("namespace") or request.namespace
    labels, known = meta.get("labels") or {}, before.get("labels") or {}
    app, priority = labels.get(names.APP_LABEL) or "", labels.get(names.PRIORITY_CLASS_LABEL) or ""
    if app != known.get(names.APP_LABEL) and (fault := _app_fault(app, namespace, settings)):
        yield f"metadata.labels[{names.APP_LABEL}]: {fault}"
    if priority != known.get(names.PRIORITY_CLASS_LABEL) and is_reserved(priority, namespace):
        yield f"metadata.labels[{names.PRIORITY_CLASS_LABEL}]: {reserved(priority)}"
    owners = meta.get("ownerReferences") or ()
    if owners != (before.get("ownerReferences") or ()):
        yield from _owner_faults(owners)


def _app_fault(app: str, namespace: str, settings: AdmissionSettings) -> str:
    if app != settings.reservation_app_label or namespace == settings.reservation_namespace:
        return ""
    where = f"the namespace {settings.reservation_namespace}"
    return f"{shown(app)} is for pods that hold a GPU for those who share it, in {where}: give another name"


def _owner_faults(owners: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    field = "metadata.ownerReferences"
    if len(owners) > OWNERS_MAX:
        yield f"{field}: {len(owners):,} owners, and {OWNERS_MAX} are the most: leave some out"
        return
    for i, owner in enumerate(owners):
        if fault := segment_fault(owner.get("name") or ""):
            yield f"{field}[{i}].name: {fault}"
