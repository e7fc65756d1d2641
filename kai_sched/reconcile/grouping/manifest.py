"""What the PodGroups of all kinds have in common: name, queue, labels, preemptibility, topology, and how an existing
one is updated (API 3.3, 3.4, 4.3).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from kai_sched.api import core, legal, names
from kai_sched.api.custom import NAME_LENGTH
from kai_sched.model.field_errors import shown
from kai_sched.model.objects import SubGroup, TopologyConstraint
from kai_sched.model.times import is_too_long, parse_duration
from kai_sched.reconcile.grouping.bounds import check, check_sub_groups
from kai_sched.reconcile.grouping.draft import Draft, GroupingCase, group_name
from kai_sched.reconcile.grouping.owners import Owner
from kai_sched.reconcile.grouping.priority_classes import priority_class
from kai_sched.reconcile.grouping.workload_errors import GroupingError, Note

PREEMPTIBILITIES = ("preemptible", "non-preemptible")
_PLAIN_YAML = re.compile(r"[A-Za-z][A-Za-z0-9./-]*|[0-9a-f]+(-[0-9a-f]+)+", re.ASCII)
_YAML_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})

# What tells of the object alone: how kubectl made it, and what the scheduler notes of a PodGroup itself.
_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        names.STALE_ANNOTATION,
        names.LAST_START_ANNOTATION,
        names.LAST_EVICTION_ANNOTATION,
    }
)

Manifest = dict[str, Any]


class QueueChoice(NamedTuple):
    """The queue of a group, and the object and the field that name it; for the default queue the field is empty, and
    the object is the one that could name another."""

    name: str
    subject: str
    field: str


class Decider(NamedTuple):
    """Who gives a group that pods of several owners share what it does not say itself: what owns the pod, or the pod.

    ``names_queue``: it has the label of a queue. ``source`` is what the group itself says, to be compared.
    """

    subject: str
    names_queue: bool
    source: object


class Grouping(NamedTuple):
    """The group that a pod belongs to, as it should be, and the place of the pod in it.

    ``sub_group`` is empty if the pod has none. ``notes`` say what was ignored. ``by`` is set where pods of other owners
    may be in the group as well (``deciders``).
    """

    manifest: Manifest
    sub_group: str
    queue: QueueChoice
    notes: tuple[Note, ...]
    by: Decider | None = None

    @property
    def name(self) -> str:
        """The group's, in the namespace of the pod."""
        return str(self.manifest["metadata"]["name"])


def finish(case: GroupingCase, draft: Draft) -> Grouping:
    """Complete the draft. Raises GroupingError for impossible sub-groups."""
    owner, source = draft.owner, draft.source or draft.owner
    name = draft.name or group_name(owner)
    if fault := legal.name_fault(names.POD_GROUP_VERSION, name):
        message = f"its PodGroup cannot have the name that follows from the owner's: {fault}; use a shorter, plain name"
        raise owner.error("metadata.name", message)
    topology = draft.topology or (topology_in(source.annotations) if draft.has_topology else None)
    check(source, draft, topology)
    sub_groups = _sub_groups(source, draft)
    queue = choose_queue(case, source)
    if len(queue.name) > NAME_LENGTH:
        raise GroupingError(queue.subject, queue.field, f"no queue has a name such as {shown(queue.name)}: correct it")
    spec: Manifest = {}
    if draft.min_sub_group is None:
        spec["minMember"] = draft.min_member
    else:
        spec["minSubGroup"] = draft.min_sub_group
    spec["queue"] = queue.name
    spec["priorityClassName"] = priority_class(case, draft)
    spec |= _policy(case, draft.listed or (source,)) if draft.has_policy else {}
    if topology is not None:
        spec["topologyConstraint"] = _wire_topology(topology)
    if sub_groups:
        spec["subGroups"] = sub_groups
    manifest: Manifest = {
        "apiVersion": names.POD_GROUP_VERSION,
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": case.pod.namespace,
            "labels": _labels(case, source),
            "annotations": _annotations(case, source),
            "ownerReferences": [
                {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
            ],
        },
        "spec": spec,
    }
    return Grouping(manifest, draft.sub_group, queue, tuple(case.notes))


def _labels(case: GroupingCase, source: Owner) -> dict[str, str]:
    found = dict(source.labels)
    for key in (names.USER_LABEL, case.settings.config.node_pool_label):
        value = case.pod.labels.get(key)
        if value is not None:
            found.setdefault(key, value)
    return found


def _annotations(case: GroupingCase, source: Owner) -> dict[str, str]:
    user = case.pod.annotations.get(names.USER_LABEL)
    own = {} if user is None else {names.USER_LABEL: user}
    parts = (
        ("name", source.name),
        ("uid", source.uid),
        ("group", source.group),
        ("version", source.version),
        ("kind", source.kind),
    )
    own[names.TOP_OWNER_ANNOTATION] = "".join(f"{key}: {_yaml(value)}\n" for key, value in parts)
    return {**own, **{key: text for key, text in source.annotations.items() if key not in _NOT_COPIED}}


def _yaml(text: str) -> str:
    plain = _PLAIN_YAML.fullmatch(text) and text.lower() not in _YAML_WORDS
    return text if plain else msgspec.json.encode(text).decode()


def choose_queue(case: GroupingCase, source: Owner) -> QueueChoice:
    """The queue by label, of the owner first; then that of older set-ups; then the default one (4.3)."""
    config = case.settings.config
    for item in (source, case.pod):
        if name := item.labels.get(config.queue_label):
            return QueueChoice(name, item.subject, f"metadata.labels[{config.queue_label}]")
    for item in (source, case.pod):
        if project := item.labels.get(names.PROJECT_LABEL):
            pool = case.pod.labels.get(config.node_pool_label)
            name = f"{project}-{pool}" if pool else project
            return QueueChoice(name, item.subject, f"metadata.labels[{names.PROJECT_LABEL}]")
    return QueueChoice(names.DEFAULT_QUEUE, source.subject, "")


def _policy(case: GroupingCase, listed: tuple[Owner, ...]) -> Manifest:
    found: Manifest = {}
    preemptibility = _preemptibility(case, listed)
    if preemptibility:
        found["preemptibility"] = preemptibility
    for field, key, least in (
        ("preemptionDelay", names.PREEMPTION_DELAY_ANNOTATION, 0.0),
        ("stalenessGracePeriod", names.STALENESS_GRACE_ANNOTATION, float("-inf")),
    ):
        for item in (*listed, case.pod):
            text = item.annotations.get(key)
            if text is None:
                continue
            try:
                if parse_duration(text) >= least and not is_too_long(text):
                    found[field] = text
                    break
                wrong = "longer than ten years" if is_too_long(text) else "below 0"
                message = f"{text!r} is {wrong}: write it as 90s, 10m or 1h30m"
            except ValueError as error:
                message = str(error)
            case.note(item.subject, f"metadata.annotations[{key}]", f"{message}; until then the next choice holds")
    return found


def _preemptibility(case: GroupingCase, listed: tuple[Owner, ...]) -> str:
    for item in (*listed, case.pod):
        value = item.labels.get(names.PREEMPTIBILITY_LABEL)
        if value == "" or value in PREEMPTIBILITIES:
            return str(value)
        if value is not None:
            message = (
                f"{shown(value)} is neither {' nor '.join(PREEMPTIBILITIES)}, so the next choice holds: correct it"
            )
            case.note(item.subject, f"metadata.labels[{names.PREEMPTIBILITY_LABEL}]", message)
    for owner in listed:
        default = case.settings.default(owner.group, owner.kind)
        value = (default.preemptibility or "").lower() if default is not None else ""
        if value in PREEMPTIBILITIES:
            return value
    return ""


def topology_in(annotations: Mapping[str, str]) -> TopologyConstraint | None:
    """Return the topology constraint in the annotations; None if they name no topology."""
    topology = annotations.get(names.TOPOLOGY_ANNOTATION, "")
    required = annotations.get(names.TOPOLOGY_REQUIRED_ANNOTATION, "")
    preferred = annotations.get(names.TOPOLOGY_PREFERRED_ANNOTATION, "")
    return TopologyConstraint(topology, required, preferred) if topology else None


def _wire_topology(topology: TopologyConstraint) -> Manifest:
    found = {"topology": topology.topology}
    if topology.required_level:
        found["requiredTopologyLevel"] = topology.required_level
    if topology.preferred_level:
        found["preferredTopologyLevel"] = topology.preferred_level
    return found


def _sub_groups(source: Owner, draft: Draft) -> list[Manifest]:
    """The sub-groups as the PodGroup has them. Raises GroupingError."""
    if draft.shared is not None and draft.shared.wire is not None:
        return draft.shared.wire
    check_sub_groups(source, draft.sub_groups)
    found = [_wire_sub_group(each) for each in draft.sub_groups]
    if draft.shared is not None:
        draft.shared.wire = found
    return found


def _wire_sub_group(sub_group: SubGroup) -> Manifest:
    found: Manifest = {"name": sub_group.name}
    if sub_group.parent:
        found["parent"] = sub_group.parent
    if sub_group.min_sub_group is not None:
        found["minSubGroup"] = sub_group.min_sub_group
    else:
        found["minMember"] = sub_group.min_member or 0
    if sub_group.topology is not None:
        found["topologyConstraint"] = _wire_topology(sub_group.topology)
    return found


# What people may change in a PodGroup, and its owner's next event must not undo.
_KEPT = ("queue", "markUnschedulable", "schedulingBackoff")


def merged(
    old: Mapping[str, Any], new: Manifest, queue_label: str, node_pool_label: str, moves: bool = False
) -> Manifest:
    """The PodGroup ``old`` as it should be, now that the rules say ``new`` (4.3). Equal to ``old`` where nothing is
    to be written.

    ``moves``: whether the group follows the queue label of its workload, as nothing of it is bound. It does not where
    somebody has given the PodGroup another queue than its own label says.
    """
    meta, spec = dict(old.get("metadata") or {}), dict(old.get("spec") or {})
    wanted = new["spec"]
    moves = moves and _is_from_label(meta, spec, queue_label) and queue_label in new["metadata"]["labels"]
    kept = {name: spec[name] for name in _KEPT if name in spec and not (moves and name == "queue")}
    if "topologyConstraint" not in wanted and "topologyConstraint" in spec:
        kept["topologyConstraint"] = spec["topologyConstraint"]
    labels = dict(meta.get("labels") or {})
    old_choices = {key: labels.get(key) for key in (queue_label, node_pool_label)}
    labels |= new["metadata"]["labels"]
    for key, value in _choices(old_choices, queue_label):
        if moves and key == queue_label:
            continue
        if value is None:
            labels.pop(key, None)
        else:
            labels[key] = value
    annotations = {**(meta.get("annotations") or {}), **new["metadata"]["annotations"]}
    meta["annotations"] = annotations
    # One without an owner has lost it with `--cascade=orphan`. With the reference again it would end with the owner.
    if meta.get("ownerReferences"):
        meta["ownerReferences"] = new["metadata"]["ownerReferences"]
    if labels or "labels" in meta:
        meta["labels"] = labels
    return {**old, "metadata": meta, "spec": {**wanted, **kept}}


def _is_from_label(meta: Mapping[str, Any], spec: Mapping[str, Any], queue_label: str) -> bool:
    """Whether the PodGroup has the queue of its label, or the default one where it has no label."""
    return bool(spec.get("queue") == ((meta.get("labels") or {}).get(queue_label) or names.DEFAULT_QUEUE))


def _choices(old: Mapping[str, str | None], queue_label: str) -> Iterator[tuple[str, str | None]]:
    """The labels to keep; a queue label that is not there may be added, a node pool may not."""
    return ((key, value) for key, value in old.items() if value is not None or key != queue_label)


def pod_patch(pod: core.WirePod, grouping: Grouping) -> Manifest | None:
    """Return the merge patch that puts the pod into its group; None if it is there already (4.1)."""
    meta = pod.metadata or core.Meta()
    found: Manifest = {}
    if (meta.annotations or {}).get(names.POD_GROUP_ANNOTATION) != grouping.name:
        found["annotations"] = {names.POD_GROUP_ANNOTATION: grouping.name}
    if grouping.sub_group and (meta.labels or {}).get(names.SUB_GROUP_LABEL) != grouping.sub_group:
        found["labels"] = {names.SUB_GROUP_LABEL: grouping.sub_group}
    return {"metadata": found} if found else None
