"""Refuses Queues, PodGroups and Topologies that the scheduler cannot use (API 5.2, 6.2, 8.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from kai_sched.api import core
from kai_sched.api.custom import DNS_LABEL_LENGTH, DURATION_MAX_H
from kai_sched.api.podgroup import SUB_GROUP_DEPTH_MAX, SUB_GROUPS_MAX
from kai_sched.model.field_errors import FieldError, decode_part, shown
from kai_sched.model.objects import UNLIMITED
from kai_sched.model.priorities import is_reserved
from kai_sched.model.read.custom import read_pod_group, read_queue, too_deep
from kai_sched.model.sub_groups import survey
from kai_sched.model.times import is_too_long
from kai_sched.plan.reasons import some_of
from kai_sched.reconcile.admission.types import (
    SHOWN_MAX,
    AdmissionRequest,
    AdmissionSettings,
    Answer,
    reserved,
    together,
    word,
)

_wire = msgspec.json.Decoder(core.CustomObject)
PETABYTE_MB = 1e9
RESOURCES = ("cpu", "memory", "gpu")
BOTH = "minMember and minSubGroup exclude each other: leave one of them out"


def validate_queue(request: AdmissionRequest, _settings: AdmissionSettings, _suffix: str) -> Answer:
    """Refuse a queue that the scheduler cannot use, and name the field. A parent that does not exist yet is allowed."""
    spec = request.object.get("spec") or {}
    if request.keeps_spec:
        return Answer()
    if spec.get("resources") is None:
        text = (
            f"{request.label}: spec.resources: resources have to be specified: give cpu, memory and gpu a quota and a "
            "limit each, -1 for unlimited"
        )
        return Answer(denied=text, warnings=(text,))
    meta = request.object.get("metadata") or {}
    if spec.get("parentQueue") and spec["parentQueue"] == meta.get("name"):
        return Answer(denied=f"{request.label}: spec.parentQueue: a queue cannot be its own parent: name another one")
    refusals = list(_long_durations(spec, ("preemptMinRuntime", "reclaimMinRuntime")))
    if refusals:
        return Answer(denied=f"{request.label}: {together(refusals)}")
    fault = _unreadable(request)
    return Answer(fault) if fault else Answer(warnings=tuple(_share_warnings(spec["resources"])))


def _share_warnings(resources: Mapping[str, Any]) -> Iterator[str]:
    """Shares that can be meant otherwise: no limit, a limit below the quota, other units."""
    yield from _closed(resources)
    for name in RESOURCES:
        share = resources.get(name) or {}
        quota, limit = share.get("quota") or 0.0, share.get("limit")
        if limit is not None and limit != UNLIMITED and (quota > limit or quota == UNLIMITED):
            much = "unlimited" if quota == UNLIMITED else f"{quota:g}"
            text = f"below the quota, which is {much}, so that no more than {limit:g} can be used"
            yield f"spec.resources.{name}.limit: {text}: raise it, or lower the quota"
        for field in ("quota", "limit"):
            if hint := _unit_hint(name, share.get(field) or 0.0):
                yield f"spec.resources.{name}.{field}: {hint}"


def _unit_hint(resource: str, amount: float) -> str:
    """Whether an amount was probably written in cores, in gigabytes or in bytes; "" for no."""
    if resource == "cpu" and 0 < amount < 1000:
        return f"{amount:g} millicores are {amount / 1000:g} cores: write {amount * 1000:g} for {amount:g} cores"
    if resource == "memory" and 0 < amount < 1000:
        return f"{amount:g} counts in MB (10^6 bytes): write {amount * 1000:g} for {amount:g} GB"
    if resource == "memory" and amount >= PETABYTE_MB:
        return f"{amount:g} counts in MB (10^6 bytes): write {amount / 1e6:g} for {amount:g} bytes"
    return ""


def _closed(resources: Mapping[str, Any]) -> Iterator[str]:
    """The resources that a queue leaves out, so that nothing may use them. A written limit of 0 is intended."""
    closed = [name for name in RESOURCES if (resources.get(name) or {}).get("limit") is None]
    if closed:
        fields = ", ".join(f"spec.resources.{name}.limit" for name in closed)
        yield f"{fields}: missing, which is 0: nothing that asks for it can run in the queue; give a limit, -1 for none"


def _long_durations(spec: Mapping[str, Any], fields: tuple[str, ...]) -> Iterator[str]:
    """Durations that the scheduler would cut. Texts that are no durations are reported by the readers."""
    for field in fields:
        text = spec.get(field)
        with suppress(ValueError):
            if isinstance(text, str) and text and is_too_long(text):
                yield f"spec.{field}: {shown(text)} is longer than ten years: give at most {DURATION_MAX_H}h"


def _unreadable(request: AdmissionRequest) -> str:
    """Why the readers of the scheduler would refuse the object; empty where they would not."""
    read = read_queue if request.object.get("kind") == "Queue" else read_pod_group
    try:
        read(decode_part(_wire, msgspec.json.encode(request.object), ""), lambda _field, _message: None)
    except FieldError as error:
        return f"{request.label}: {error}"
    return ""


def validate_pod_group(request: AdmissionRequest, _settings: AdmissionSettings, _suffix: str) -> Answer:
    """Check that minima and sub-groups fit together; all problems are reported at once, up to a limit."""
    spec = request.object.get("spec") or {}
    entries = spec.get("subGroups") or ()
    if request.keeps_spec:
        return Answer()
    if len(entries) > SUB_GROUPS_MAX:
        text = f"spec.subGroups: {len(entries):,} sub-groups, and {SUB_GROUPS_MAX:,} are the most: have fewer"
        return Answer(denied=f"{request.label}: {text}")
    groups = sorted(enumerate(entries), key=lambda pair: str(pair[1].get("name")))
    refusals = list(_spec_faults(request, spec))
    warnings: list[str] = []
    children = Counter(entry.get("parent") or "" for entry in entries)
    refusals += _tree_faults(groups)
    for i, entry in groups:
        for text, on_update in _minimum_faults(i, entry, children):
            (warnings if on_update and request.operation == "UPDATE" else refusals).append(text)
    warnings += _never_met(spec, groups, children)
    if len(warnings) > SHOWN_MAX:
        warnings[SHOWN_MAX:] = [f"and {len(warnings) - SHOWN_MAX:,} more"]
    if refusals:
        return Answer(denied=f"{request.label}: {together(refusals)}", warnings=tuple(warnings))
    return Answer(_unreadable(request), tuple(warnings))


def _spec_faults(request: AdmissionRequest, spec: Mapping[str, Any]) -> Iterator[str]:
    if spec.get("minMember") is not None and spec.get("minSubGroup") is not None:
        yield f"spec.minMember: {BOTH}"
    yield from _long_durations(spec, ("preemptionDelay", "stalenessGracePeriod"))
    name = spec.get("priorityClassName") or ""
    if is_reserved(name, (request.object.get("metadata") or {}).get("namespace") or request.namespace):
        yield f"spec.priorityClassName: {reserved(name)}"


def _never_met(
    spec: Mapping[str, Any], groups: list[tuple[int, Mapping[str, Any]]], children: Counter[str]
) -> Iterator[str]:
    """Minima larger than what exists."""
    wanted = [("spec", "the group", spec, children[""])]
    wanted += [
        (f"spec.subGroups[{i}]", f"sub-group {shown(entry.get('name'))}", entry, children[entry.get("name") or ""])
        for i, entry in groups
        if children[entry.get("name") or ""]
    ]
    for field, what, entry, there in wanted:
        minimum = entry.get("minSubGroup")
        if minimum is not None and minimum > there:
            yield f"{field}.minSubGroup: {what} wants {minimum} sub-groups and has {there}: it never starts"


def _tree_faults(groups: list[tuple[int, Mapping[str, Any]]]) -> Iterator[str]:
    """Names that repeat, parents that are not there, circles of parents, trees that are too deep."""
    seen: dict[str, int] = {}
    parents = {str(entry.get("name")): entry.get("parent") or "" for _, entry in groups}
    depths, circles = survey(parents)
    for i, entry in groups:
        name, parent = str(entry.get("name")), entry.get("parent") or ""
        field = f"spec.subGroups[{i}]"
        if name in seen:
            yield f"{field}.name: {shown(name)} is the name of sub-group {seen[name]}, too: give each its own"
        seen[name] = i
        if parent and parent not in parents:
            yield f"{field}.parent: there is no sub-group {shown(parent)}: add it, or correct the name"
        if name in circles:
            text = f"sub-group {shown(name)} is its own ancestor ({_circle(name, parents)})"
            yield f"{field}.parent: {text}: give one another parent"
        elif depths[name] > SUB_GROUP_DEPTH_MAX:
            yield f"{field}.parent: {too_deep(name)}"


def _circle(name: str, parents: Mapping[str, str]) -> str:
    """The way from parent to parent back to the name, or its beginning where it is long."""
    path = [name, parents[name]]
    while path[-1] != name and len(path) <= SHOWN_MAX:
        path.append(parents[path[-1]])
    return " -> ".join(each[:DNS_LABEL_LENGTH] for each in path) + ("" if path[-1] == name else " -> ...")


def _minimum_faults(i: int, entry: Mapping[str, Any], children: Counter[str]) -> Iterator[tuple[str, bool]]:
    """The faults in the minimums of one sub-group, and whether each is only a warning in an update."""
    field, name = f"spec.subGroups[{i}]", entry.get("name")
    member, sub_group = entry.get("minMember"), entry.get("minSubGroup")
    has_children = bool(children[name or ""])
    if member is not None and sub_group is not None:
        yield f"{field}.minMember: {BOTH} in sub-group {shown(name)}", False
    elif has_children and member is not None:
        count = children[name or ""]
        text = f"sub-group {shown(name)} has {count} sub-groups below it, so that pods are not counted in it"
        yield f"{field}.minMember: {text}: use minSubGroup", True
    elif not has_children and sub_group is not None:
        yield f"{field}.minSubGroup: sub-group {shown(name)} has no sub-groups below it: use minMember", False
    elif not has_children and member is None:
        yield f"{field}.minMember: missing in sub-group {shown(name)}: give the pods needed at the least, or 0", False


def validate_topology(request: AdmissionRequest, _settings: AdmissionSettings, _suffix: str) -> Answer:
    """Another name of a level must name nothing else."""
    if request.keeps_spec:
        return Answer()
    levels = (request.object.get("spec") or {}).get("levels") or ()
    labels = {level.get("nodeLabel") for level in levels}
    aliases = [level["alias"] for level in levels if level.get("alias")]
    repeated = some_of([word(alias) for alias, count in sorted(Counter(aliases).items()) if count > 1])
    taken = some_of([word(label) for label in sorted(labels & set(aliases))])
    refusals = []
    if repeated:
        refusals.append(f"aliases must be unique, these are not: {repeated}: give each level its own")
    if taken:
        refusals.append(f"an alias must not be a nodeLabel of the topology, these are: {taken}: rename them")
    return Answer(denied=f"{request.label}: spec.levels: " + "; ".join(refusals) if refusals else "")
