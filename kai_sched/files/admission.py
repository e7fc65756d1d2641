"""Offline admission: the webhooks' answers (``reconcile.admission``) to objects of files, and to the pods that
controllers would make.

What a person wrote is refused with the same text. An object from a cluster is there already; only warnings about it
are told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kai_sched.api import names
from kai_sched.files.items import Item, problem_in
from kai_sched.files.strict import is_from_cluster
from kai_sched.model.problems import Problem
from kai_sched.model.read.kinds import POD
from kai_sched.reconcile.admission.review import VALIDATED, AdmissionSettings, validate
from kai_sched.reconcile.admission.types import AdmissionRequest

# Only pods with one of these in them can be refused: the others are not decoded.
_MARKS = tuple(
    text.encode()
    for text in ("gpu-", names.MPS_ANNOTATION, names.APP_LABEL, names.PRIORITY_CLASS_LABEL, "ownerReferences")
)


def admission_problems(items: Sequence[Item], settings: AdmissionSettings) -> Iterator[Problem]:
    """What the webhooks say about the creation of these objects; of the pods of one workload only the first fault."""
    reported: set[object] = set()
    for item in items:
        if item.kind not in VALIDATED or (item.kind == POD and not any(mark in bytes(item.raw) for mark in _MARKS)):
            continue
        try:
            content = msgspec.json.decode(item.raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue  # its reader reports the error
        if not isinstance(content, dict) or (item.kind == POD and not _is_new(content)):
            continue
        content |= {"apiVersion": item.kind[0], "kind": item.kind[1]}  # which items of lists may leave out
        answer = validate(item.kind, content, settings)
        if answer.denied and item.source not in reported and not is_from_cluster(item):
            reported.add(item.source)
            label = AdmissionRequest("CREATE", "", "", content).label
            text = answer.denied.removeprefix(f"{item.subject}: ").removeprefix(f"{label}: ")
            yield _problem(item, text, fatal=True)
        for text in answer.warnings if not answer.denied else ():
            yield _problem(item, text)


def _problem(item: Item, text: str, fatal: bool = False) -> Problem:
    """The finding; its text may begin with the field."""
    field, colon, rest = text.partition(": ")
    if colon and field.startswith(("spec.", "metadata.")):
        return problem_in(item, field, rest, fatal)
    return problem_in(item, "", text, fatal)


def _is_new(pod: Mapping[str, Any]) -> bool:
    """Whether the pod has no node yet and is not over: what it says about its devices was written by the scheduler."""
    spec, status = pod.get("spec"), pod.get("status")
    phase = status.get("phase") if isinstance(status, dict) else None
    return isinstance(spec, dict) and not spec.get("nodeName") and phase in (None, "", "Pending")
