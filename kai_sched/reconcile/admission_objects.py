"""Validation of our own kinds: Queue (API contract 5.2), PodGroup (6.2) and Topology (8.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from kai_sched.api import core
from kai_sched.model.faults import FieldError, decode_part
from kai_sched.model.read_custom import read_pod_group, read_queue
from kai_sched.plan.reasons import some_of
from kai_sched.reconcile.admission_types import AdmissionSettings, Answer, Request

_wire = msgspec.json.Decoder(core.CustomObject)
BOTH = "minMember and minSubGroup exclude each other: leave one of them out"


def validate_queue(request: Request, _settings: AdmissionSettings, _suffix: str) -> Answer:
    """What the scheduler cannot use is refused with the field named; a parent that is not there yet is none of it."""
    spec = request.object.get("spec") or {}
    if spec.get("resources") is None:
        text = (
            f"{request.label}: spec.resources: resources have to be specified: give cpu, memory and gpu a quota and a "
            "limit each, -1 for unlimited"
        )
        return Answer(denied=text, warnings=(text,))
    meta = request.object.get("metadata") or {}
    if spec.get("parentQueue") and spec["parentQueue"] == meta.get("name"):
        return Answer(denied=f"{request.label}: spec.parentQueue: a queue cannot be its own parent: name another one")
    return _readable(request)


def _readable(request: Request) -> Answer:
    """Refuses what the readers of the scheduler would."""
    read = read_queue if request.object.get("kind") == "Queue" else read_pod_group
    try:
        read(decode_part(_wire, msgspec.json.encode(request.object), ""), lambda _field, _message: None)
    except FieldError as error:
        return Answer(denied=f"{request.label}: {error}")
    return Answer()


def validate_pod_group(request: Request, _settings: AdmissionSettings, _suffix: str) -> Answer:
    """Minima and sub-groups must make sense together; all refusals are told at once."""
    spec = request.object.get("spec") or {}
    groups = sorted(
        ((i, entry) for i, entry in enumerate(spec.get("subGroups") or ())), key=lambda pair: str(pair[1].get("name"))
    )
    entries = [entry for _, entry in groups]
    refusals: list[str] = []
    warnings: list[str] = []
    if spec.get("minMember") is not None and spec.get("minSubGroup") is not None:
        refusals.append(f"spec.minMember: {BOTH}")
    children = Counter(entry.get("parent") or "" for entry in entries)
    refusals += _tree_faults(groups)
    for i, entry in groups:
        for text, on_update in _minimum_faults(i, entry, children):
            (warnings if on_update and request.operation == "UPDATE" else refusals).append(text)
    wanted = [("spec", "the group", spec, children[""])]
    wanted += [
        (f"spec.subGroups[{i}]", f"sub-group {entry.get('name')!r}", entry, children[entry.get("name") or ""])
        for i, entry in groups
        if children[entry.get("name") or ""]
    ]
    for field, what, entry, there in wanted:
        minimum = entry.get("minSubGroup")
        if minimum is not None and minimum > there:
            warnings.append(f"{field}.minSubGroup: {what} wants {minimum} sub-groups and has {there}: it never starts")
    if refusals:
        return Answer(denied=f"{request.label}: " + "; ".join(refusals), warnings=tuple(warnings))
    found = _readable(request)
    return Answer(found.denied, tuple(warnings))


def _tree_faults(groups: list[tuple[int, Mapping[str, Any]]]) -> Iterator[str]:
    """Names that repeat, parents that are not there, circles of parents."""
    seen: dict[str, int] = {}
    parents = {entry.get("name"): entry.get("parent") or "" for _, entry in groups}
    for i, entry in groups:
        name, parent = entry.get("name"), entry.get("parent") or ""
        field = f"spec.subGroups[{i}]"
        if name in seen:
            yield f"{field}.name: {name!r} is the name of sub-group {seen[name]}, too: give each its own"
        seen[str(name)] = i
        if parent and parent not in parents:
            yield f"{field}.parent: there is no sub-group {parent!r}: add it, or correct the name"
        path = [name]
        while parent and parent in parents and parent not in path:
            path.append(parent)
            parent = parents[parent]
        if parent and parent == name:
            circle = " -> ".join(str(each) for each in [*path, parent])
            yield f"{field}.parent: sub-group {name!r} is its own ancestor ({circle}): give one another parent"


def _minimum_faults(i: int, entry: Mapping[str, Any], children: Counter[str]) -> Iterator[tuple[str, bool]]:
    """What is wrong with the minima of one sub-group, and whether an update that keeps it is let pass."""
    field, name = f"spec.subGroups[{i}]", entry.get("name")
    member, sub_group = entry.get("minMember"), entry.get("minSubGroup")
    has_children = bool(children[name or ""])
    if member is not None and sub_group is not None:
        yield f"{field}.minMember: {BOTH} in sub-group {name!r}", False
    elif has_children and member is not None:
        text = f"sub-group {name!r} has {children[name or '']} sub-groups below it, so that pods are not counted in it"
        yield f"{field}.minMember: {text}: use minSubGroup", True
    elif not has_children and sub_group is not None:
        yield f"{field}.minSubGroup: sub-group {name!r} has no sub-groups below it: use minMember", False
    elif not has_children and member is None:
        yield f"{field}.minMember: missing in sub-group {name!r}: give the pods needed at the least, or 0", False


def validate_topology(request: Request, _settings: AdmissionSettings, _suffix: str) -> Answer:
    """Another name of a level must name nothing else."""
    levels = (request.object.get("spec") or {}).get("levels") or ()
    labels = {level.get("nodeLabel") for level in levels}
    aliases = [level["alias"] for level in levels if level.get("alias")]
    repeated = sorted(alias for alias, count in Counter(aliases).items() if count > 1)
    taken = sorted(labels & set(aliases))
    refusals = []
    if repeated:
        refusals.append(f"aliases must be unique, these are not: {some_of(repeated)}: give each level its own")
    if taken:
        refusals.append(f"an alias must not be a nodeLabel of the topology, these are: {some_of(taken)}: rename them")
    return Answer(denied=f"{request.label}: spec.levels: " + "; ".join(refusals) if refusals else "")
