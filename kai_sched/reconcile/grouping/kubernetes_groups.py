"""The grouping rule for pods that name a PodGroup of Kubernetes itself (scheduling.k8s.io): what its policy, minimum,
priority and constraints mean here, and which of its fields have no effect (API 4.13).
"""

from __future__ import annotations

from dataclasses import replace

from kai_sched.api import names
from kai_sched.model.field_errors import shown
from kai_sched.model.objects import TopologyConstraint
from kai_sched.reconcile.grouping.draft import Draft, GroupingCase
from kai_sched.reconcile.grouping.fields import Fields
from kai_sched.reconcile.grouping.manifest import Decider
from kai_sched.reconcile.grouping.owners import Owner, named_group
from kai_sched.reconcile.grouping.plain import annotated_minimum

_NAME_FIELD = "spec.schedulingGroup.podGroupName"
_ONE_POLICY = "give one of basic and gang"
_COMPOSITE = "CompositePodGroups are not read, so this group starts alone: have one PodGroup for what starts together"
_ALL = "pods of a group with the policy basic are evicted one by one: use gang, with all of them as minCount"
_NEVER = (
    "Never has no effect: quotas and priorities decide who is evicted; use a lower priority class, or a queue "
    "within its quota"
)
_PRIORITY = "the number alone is not read: name its class in spec.priorityClassName"


def pod_group(case: GroupingCase) -> Draft:
    """Return the group of the PodGroup that the pod names. It comes before what owns the pod.

    Labels and annotations that it lacks come from its Workload, then from the top owner of the pod.
    """
    name = named_group(case.spec)
    found = case.named(*names.KUBERNETES_GROUP, name)
    if found is None:
        message = f"there is no PodGroup {shown(name)} of {names.KUBERNETES_GROUP[0]} that can be read: create it"
        raise case.pod.error(_NAME_FIELD, message)
    group = replace(found, uid=found.uid or found.kind.lower())  # one in a file has no uid, of which its name is made
    spec = group.fields.at("spec")
    source = _with_labels_above(case, group)
    _note_what_has_no_effect(case, group, spec)
    return Draft(
        group,
        source=source,
        listed=(source, *case.owners),
        min_member=_minimum(source, spec),
        fixed_class=spec.text("priorityClassName"),
        topology=_topology(case, source, spec),
    )


def decider(case: GroupingCase) -> Decider:
    """What owns the pod as one that may decide about the group, which can be read."""
    group = case.named(*names.KUBERNETES_GROUP, named_group(case.spec))
    workload = None if group is None else _workload_of(case, group)
    labels = case.owner.labels
    said = [(each.labels, each.annotations, each.body.get("spec")) for each in (group, workload) if each is not None]
    names_queue = bool(labels.get(case.settings.config.queue_label) or labels.get(names.PROJECT_LABEL))
    return Decider(case.owner.subject, names_queue, said)


def _workload_of(case: GroupingCase, group: Owner) -> Owner | None:
    name = group.fields.at("spec").at("workloadRef").text("workloadName")
    return case.named(*names.KUBERNETES_WORKLOAD, name, whole=False) if name else None


def _with_labels_above(case: GroupingCase, group: Owner) -> Owner:
    """The PodGroup with the labels and annotations of what is above it, as far as it has none of its own."""
    workload = _workload_of(case, group)
    labels, annotations = group.labels, group.annotations
    for each in (workload, case.owners[-1] if case.owners else None):
        if each is not None:
            labels, annotations = {**each.labels, **labels}, {**each.annotations, **annotations}
    return replace(group, labels=labels, annotations=annotations)


def _minimum(source: Owner, spec: Fields) -> int:
    """That of a gang; else what an annotation asks for, as for a Job: its controller makes basic groups of all Jobs."""
    policy = spec.at("schedulingPolicy")
    if policy.has("basic") == policy.has("gang"):
        both = "both basic and gang" if policy.has("gang") else "neither basic nor gang"
        raise spec.error("schedulingPolicy", f"{both}: {_ONE_POLICY}")
    if policy.has("basic"):
        return annotated_minimum(source)
    gang = policy.at("gang")
    minimum = gang.count("minCount")
    if not minimum:
        raise gang.error("minCount", "missing or 0: give the number of pods that start together")
    return minimum


def _topology(case: GroupingCase, source: Owner, spec: Fields) -> TopologyConstraint | None:
    """The constraint of the key, a level of the Topology that an annotation names, else of the first that has it.

    Annotations may name a preferred level besides. Without a key they alone hold.
    """
    constraints = spec.at("schedulingConstraints")
    entries = constraints.entries("topology")
    if not entries:
        return None
    if len(entries) > 1:
        raise constraints.error("topology", f"{len(entries)} constraints, and a group can have one: leave one of them")
    key = entries[0].text("key")
    if not key:
        raise entries[0].error("key", "missing: give the label of nodes whose value names the domain")
    preferred = source.annotations.get(names.TOPOLOGY_PREFERRED_ANNOTATION, "")
    if topology := source.annotations.get(names.TOPOLOGY_ANNOTATION, ""):
        return TopologyConstraint(topology, key, preferred)
    having = [name for name, levels in case.settings.topologies.items() if key in levels]
    if not having:
        message = f"no Topology has the level {shown(key)}: create one ({names.TOPOLOGY_VERSION}), or correct the key"
        raise entries[0].error("key", message)
    return TopologyConstraint(min(having), key, preferred)


def _note_what_has_no_effect(case: GroupingCase, group: Owner, spec: Fields) -> None:
    notes = (
        ("parentCompositePodGroupName", _COMPOSITE, bool(spec.text("parentCompositePodGroupName"))),
        (
            "disruptionMode.all",
            _ALL,
            spec.at("disruptionMode").has("all") and spec.at("schedulingPolicy").has("basic"),
        ),
        ("preemptionPolicy", _NEVER, spec.text("preemptionPolicy") == "Never"),
        ("priority", _PRIORITY, bool(spec.values.get("priority")) and not spec.text("priorityClassName")),
    )
    for field, message, holds in notes:
        if holds:
            case.note(group.subject, f"spec.{field}", message)
