"""Reads queues, pod groups and bind requests: defaults, units, and which fields are refused or warned about."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import msgspec
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from kai_sched.api import core, dra, names, podgroup, queue
from kai_sched.api.custom import INT32_MAX, NAME_LENGTH, Model
from kai_sched.api.node_topology import WirePlacement
from kai_sched.api.podgroup import SUB_GROUP_DEPTH_MAX
from kai_sched.api.queue import SHARE_MAX
from kai_sched.model.claims.objects import EXTENDED_CLAIM, Allocation
from kai_sched.model.field_errors import QUOTED_MAX, FieldError, TypeFault, Warn, as_json, decode_part, shown
from kai_sched.model.numa import NO_PLACEMENT, Placement
from kai_sched.model.objects import (
    NO_LABELS,
    UNLIMITED,
    BindRequest,
    PodGroup,
    Queue,
    Share,
    SubGroup,
    Topology,
    TopologyConstraint,
)
from kai_sched.model.priorities import is_reserved, reserved_text
from kai_sched.model.read.claims import read_allocation
from kai_sched.model.read.meta import duration_s, identity, namespace_of, time_ns
from kai_sched.model.read.numa import read_placement
from kai_sched.model.sub_groups import survey
from kai_sched.model.times import parse_time

if TYPE_CHECKING:
    from kai_sched.api.bindrequest import BindRequestSpec

AnyModel = TypeVar("AnyModel", bound=Model)

DEFAULT_QUEUE_PRIORITY = 100
MEGABYTE = 1_000_000.0
# The most unknown fields of a part that are reported; a broken writer may set any number.
UNKNOWN_SHOWN_MAX = 20
DIGITS_MAX = 19  # of a counter that is read
_TOP_FIELDS = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_allocation = msgspec.json.Decoder(dra.WireAllocation)
_parts = msgspec.json.Decoder(dict[str, msgspec.Raw])
_EXPECTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


def parse_part(model: type[AnyModel], raw: bytes, path: str, warn: Warn) -> AnyModel:
    """The part of an object at ``path``; unknown fields go to ``warn``. Raises FieldError for one that does not fit."""
    try:
        found = model.model_validate_json(raw if raw and raw != b"null" else b"{}")
    except ValidationError as error:
        raise _fault(error.errors(include_url=False)[0], path) from None
    if found.__pydantic_extra__ is not None:
        warn_unknown(found, path, warn)
    return found


def warn_unknown(found: Model, path: str, warn: Warn) -> None:
    """Warn of every field that the model does not have."""
    for place, known in islice(found.unknown_fields(path), UNKNOWN_SHOWN_MAX):
        field = place.lstrip(".")
        name = field.rsplit(".", 1)[-1]
        near = difflib.get_close_matches(name[:QUOTED_MAX], known, n=1)
        remedy = f"did you mean {near[0]}?" if near else f"the fields here are {', '.join(known)}"
        warn(field, f"unknown field, ignored: {remedy}")


def _fault(error: ErrorDetails, path: str) -> FieldError:
    field = path
    for part in error["loc"]:
        field += f"[{part}]" if isinstance(part, int) else f".{part}"
    field = field.lstrip(".")
    expected = _EXPECTED.get(error["type"])
    if expected:
        return TypeFault(field, f"expected {expected}, got {as_json(error['input'])}: correct the value")
    if error["type"] == "missing":
        return FieldError(field, "missing: give it a value")
    return FieldError(field, f"{error['msg'][:1].lower()}{error['msg'][1:]}: correct the value")


def warn_top_fields(raw: bytes, warn: Warn) -> None:
    """Warn of top-level fields that no object has."""
    for name in sorted(decode_part(_parts, raw, "").keys() - _TOP_FIELDS)[:UNKNOWN_SHOWN_MAX]:
        warn(name, "unknown field, ignored: the fields of this kind belong below spec")


def read_queue(wire: core.CustomObject, warn: Warn) -> Queue:
    """Raises FieldError for what makes the queue unusable."""
    meta = wire.metadata or core.Meta()
    name = identity(meta)
    spec = parse_part(queue.QueueSpec, bytes(wire.spec), "spec", warn)
    priority = DEFAULT_QUEUE_PRIORITY if spec.priority is None else spec.priority
    if not -INT32_MAX - 1 <= priority <= INT32_MAX:
        message = f"{shown(priority)} does not fit into 32 bits: give a number from {-INT32_MAX - 1} to {INT32_MAX}"
        raise FieldError("spec.priority", message)
    resources = spec.resources
    if resources is None:
        warn(
            "spec.resources",
            "missing, so every limit is 0 and nothing can run: give quotas and limits, -1 for unlimited",
        )
        resources = queue.QueueResources.model_construct()
    return Queue(
        name,
        uid=meta.uid or "",
        created_ns=time_ns(meta.creation_timestamp, "metadata.creationTimestamp", warn),
        parent=spec.parent_queue or "",
        display_name=(spec.display_name or "")[:NAME_LENGTH],
        priority=priority,
        cpu=_share(resources.cpu, 1.0, "cpu"),
        memory=_share(resources.memory, MEGABYTE, "memory"),
        gpu=_share(resources.gpu, 1.0, "gpu"),
        preempt_min_runtime_s=duration_s(spec.preempt_min_runtime, "spec.preemptMinRuntime", warn),
        reclaim_min_runtime_s=duration_s(spec.reclaim_min_runtime, "spec.reclaimMinRuntime", warn),
        labels=meta.labels or NO_LABELS,
    )


def _share(wire: queue.QueueShare | None, unit: float, resource: str) -> Share:
    wire = wire or queue.QueueShare.model_construct()
    field = f"spec.resources.{resource}"
    return Share(
        quota=_bound(wire.quota, unit, f"{field}.quota"),
        limit=_bound(wire.limit, unit, f"{field}.limit"),
        weight=_bound(wire.over_quota_weight, 1.0, f"{field}.overQuotaWeight", ""),
    )


def _bound(value: float | None, unit: float, field: str, without: str = ", or -1 for unlimited") -> float:
    """The amount in scheduler units. ``without`` ends the remedy: what else may be written."""
    value = value or 0.0
    if value < 0 and value != UNLIMITED:
        raise FieldError(field, f"{value:g} is below 0: give 0 or more{without}")
    if not value <= SHARE_MAX:
        raise FieldError(field, f"{value:g} is more than any cluster has: give at most {SHARE_MAX:g}{without}")
    return UNLIMITED if value < 0 else value * unit


def read_pod_group(wire: core.CustomObject, warn: Warn) -> PodGroup:
    """Raises FieldError for what makes the group unusable."""
    meta = wire.metadata or core.Meta()
    name, namespace = identity(meta), namespace_of(meta)
    spec = parse_part(podgroup.PodGroupSpec, bytes(wire.spec), "spec", warn)
    annotations = meta.annotations or NO_LABELS

    def time_of(annotation: str) -> int:
        text = annotations.get(annotation)
        try:
            return parse_time(text) if text else 0
        except ValueError as error:
            warn(f"metadata.annotations[{annotation}]", f"{error}; the annotation is ignored")
            return 0

    if spec.min_member is not None and spec.min_sub_group is not None:
        warn("spec.minMember", "ignored, as minSubGroup is there: leave one of them out")
    sub_groups = tuple(_sub_group(each, i, warn) for i, each in enumerate(spec.sub_groups or ()))
    _check_depth(sub_groups)
    owner = (meta.owner_references or [core.OwnerReference()])[0]
    return PodGroup(
        namespace,
        name,
        uid=meta.uid or "",
        created_ns=time_ns(meta.creation_timestamp, "metadata.creationTimestamp", warn),
        queue=spec.queue or "",
        priority_class=_class_of(spec, namespace, warn),
        preemptible=None if spec.preemptibility is None else spec.preemptibility == "preemptible",
        min_member=spec.min_member,
        min_sub_group=spec.min_sub_group,
        sub_groups=sub_groups,
        topology=_topology(spec.topology_constraint),
        preemption_delay_s=max(0.0, duration_s(spec.preemption_delay, "spec.preemptionDelay", warn) or 0.0),
        staleness_grace_s=duration_s(spec.staleness_grace_period, "spec.stalenessGracePeriod", warn),
        mark_unschedulable=spec.mark_unschedulable is not False,
        scheduling_backoff=-1 if spec.scheduling_backoff is None else spec.scheduling_backoff,
        given_up_in="" if spec.scheduling_backoff in (None, -1) else _given_up_in(wire, warn),
        stale_since_ns=time_of(names.STALE_ANNOTATION),
        last_start_ns=time_of(names.LAST_START_ANNOTATION),
        last_eviction_ns=time_of(names.LAST_EVICTION_ANNOTATION),
        labels=meta.labels or NO_LABELS,
        owner_kind=owner.kind or "",
        owner_name=owner.name or "",
    )


def _given_up_in(wire: core.CustomObject, warn: Warn) -> str:
    """The node pool that the newest scheduling condition names, the one with the largest transitionID; "" for none."""
    try:
        status = parse_part(podgroup.PodGroupStatus, bytes(wire.status), "status", warn)
    except FieldError as error:
        warn(error.field, f"{error.message}; the status is ignored")
        return ""
    newest, last = "", -1
    for each in status.scheduling_conditions or ():
        text = each.transition_id or ""
        number = int(text) if text.isdecimal() and len(text) < DIGITS_MAX else 0
        if number > last and each.type == names.UNSCHEDULABLE_ON_NODE_POOL and each.status == "True":
            newest, last = each.node_pool or "", number
    return newest


def _class_of(spec: podgroup.PodGroupSpec, namespace: str, warn: Warn) -> str:
    """The priority class; a class reserved for Kubernetes is ignored with a warning."""
    name = spec.priority_class_name or ""
    if not is_reserved(name, namespace):
        return name
    warn("spec.priorityClassName", reserved_text(name, "the default priority"))
    return ""


def _check_depth(sub_groups: Sequence[SubGroup]) -> None:
    depths, _ = survey({each.name: each.parent for each in sub_groups})
    for i, each in enumerate(sub_groups):
        if depths[each.name] > SUB_GROUP_DEPTH_MAX:
            raise FieldError(f"spec.subGroups[{i}].parent", too_deep(each.name))


def too_deep(name: str) -> str:
    """The error about a sub-group that is nested too deeply."""
    return f"sub-group {name!r} is nested too deeply: use at most {SUB_GROUP_DEPTH_MAX} levels"


def _sub_group(wire: podgroup.SubGroupSpec, index: int, warn: Warn) -> SubGroup:
    if not wire.name:
        # The empty name stands for the root of the tree.
        raise FieldError(f"spec.subGroups[{index}].name", "empty: give the sub-group a name")
    if wire.min_member is not None and wire.min_sub_group is not None:
        warn(f"spec.subGroups[{index}]", "minMember and minSubGroup exclude each other: leave one of them out")
    return SubGroup(
        wire.name,
        parent=(wire.parent or "").lower(),
        min_member=wire.min_member,
        min_sub_group=wire.min_sub_group,
        topology=_topology(wire.topology_constraint),
    )


def _topology(wire: podgroup.TopologyConstraintSpec | None) -> TopologyConstraint | None:
    if wire is None or not wire.topology:
        return None
    return TopologyConstraint(wire.topology, wire.required_topology_level or "", wire.preferred_topology_level or "")


def read_topology(wire: core.CustomObject, warn: Warn) -> Topology:
    """Raises FieldError where it has no levels, or two levels have one name."""
    from kai_sched.api.topology import LEVELS_MAX, TopologySpec  # few clusters have such objects

    meta = wire.metadata or core.Meta()
    name = identity(meta)
    spec = parse_part(TopologySpec, bytes(wire.spec), "spec", warn)
    labels = tuple(level.node_label for level in spec.levels)
    aliases = tuple(level.alias or "" for level in spec.levels)
    if not labels:
        raise FieldError("spec.levels", "empty: give the labels of nodes that name the domains, the widest first")
    if len(labels) > LEVELS_MAX:
        raise FieldError("spec.levels", f"{len(labels)} levels: {LEVELS_MAX} are the most, leave some of them out")
    names_so_far: set[str] = set()
    for index, (label, alias) in enumerate(zip(labels, aliases, strict=True)):
        for field, word in (("nodeLabel", label), ("alias", alias)):
            if word and word in names_so_far:
                raise FieldError(f"spec.levels[{index}].{field}", f"{shown(word)} is there twice: rename one of them")
            names_so_far.add(word)
    return Topology(name, uid=meta.uid or "", levels=labels, aliases=aliases)


def read_bind_request(wire: core.CustomObject, warn: Warn) -> BindRequest:
    """Raises FieldError where it names no pod or no node."""
    from kai_sched.api.bindrequest import BindRequestSpec, BindRequestStatus  # few clusters have such objects

    meta = wire.metadata or core.Meta()
    name = identity(meta)
    spec = parse_part(BindRequestSpec, bytes(wire.spec), "spec", warn)
    status = parse_part(BindRequestStatus, bytes(wire.status), "status", warn)
    if not spec.pod_name:
        raise FieldError("spec.podName", "missing: name the pod that is to be bound")
    if not spec.selected_node:
        raise FieldError("spec.selectedNode", "missing: name the node that the pod is to be bound to")
    is_final = spec.backoff_limit is None or (status.failed_attempts or 0) >= spec.backoff_limit
    return BindRequest(
        namespace_of(meta),
        name,
        spec.pod_name,
        spec.selected_node,
        is_live=status.phase != "Succeeded" and not (status.phase == "Failed" and is_final),
        gpu_groups=tuple(sorted({*(spec.selected_gpu_groups or ())} - {""})),
        claims=tuple(_claim_allocations(spec)),
        zones=_zones(spec, warn) if spec.predicted_numa_zones else NO_PLACEMENT,
    )


def _zones(spec: BindRequestSpec, warn: Warn) -> Placement:
    """What the pod will hold of NUMA zones. What cannot be read does not count: the bind goes on without it."""
    field = "spec.predictedNUMAZones"
    wires = [WirePlacement(each.zone, {**(each.amount or {})}) for each in spec.predicted_numa_zones or ()]
    try:
        return read_placement(wires, field)
    except FieldError as error:
        warn(error.field, f"{error.message}; what the pod holds of NUMA zones is not known from it")
        return NO_PLACEMENT


def _claim_allocations(spec: BindRequestSpec) -> Iterator[tuple[str, Allocation]]:
    listed = [
        (each.name or "", each.allocation, f"spec.resourceClaimAllocations[{i}].allocation")
        for i, each in enumerate(spec.resource_claim_allocations or ())
    ]
    if spec.extended_resource_claim_allocation is not None:
        content = spec.extended_resource_claim_allocation.allocation
        listed.append((EXTENDED_CLAIM, content, "spec.extendedResourceClaimAllocation.allocation"))
    for name, content, path in listed:
        if content is not None:
            raw = msgspec.json.encode(content)
            yield name, read_allocation(decode_part(_allocation, raw, path), path)
