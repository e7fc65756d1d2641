"""The grouping rule for Grove: the sub-groups, minimums and topology constraints of a PodGang (API 4.9)."""

from __future__ import annotations

from dataclasses import replace

from kai_sched.api import names
from kai_sched.model.objects import SubGroup, TopologyConstraint
from kai_sched.reconcile.grouping.draft import Draft, GroupingCase, usable_name
from kai_sched.reconcile.grouping.fields import Fields
from kai_sched.reconcile.grouping.manifest import PREEMPTIBILITIES
from kai_sched.reconcile.grouping.owners import Owner

GANG_VERSION = "scheduler.grove.io/v1alpha1"


def pod_gang(case: GroupingCase) -> Draft:
    """Return the group of the PodGang that the pod names."""
    label = names.POD_GANG_LABEL
    name = case.pod.labels.get(label, "")
    if not name:
        message = f"missing: {case.owner.subject} owns the pod, so Grove's own controller has to name its PodGang"
        raise case.pod.error(f"metadata.labels[{label}]", message)
    gang = case.named(GANG_VERSION, "PodGang", name)
    if gang is None:
        raise case.pod.error(f"metadata.labels[{label}]", f"there is no PodGang {name!r} that can be read: wait for it")
    top = case.owner
    merged = replace(gang, labels={**top.labels, **gang.labels}, annotations={**top.annotations, **gang.annotations})
    preemptibility = merged.labels.get(names.PREEMPTIBILITY_LABEL)
    if preemptibility and preemptibility not in PREEMPTIBILITIES:
        field = f"metadata.labels[{names.PREEMPTIBILITY_LABEL}]"
        raise merged.error(field, f"{preemptibility!r} is neither {' nor '.join(PREEMPTIBILITIES)}: correct it")
    spec = gang.fields.at("spec")
    parents, parent_of = _parents(gang, spec)
    leaves, place = [], ""
    for part in spec.entries("podgroups"):
        leaf = usable_name(part, "name", part.text("name"))
        least = part.count("minReplicas")
        if not least:
            raise part.error("minReplicas", "missing or 0: give the pods needed at the least")
        leaves.append(
            SubGroup(leaf, parent=parent_of.get(leaf, ""), min_member=least, topology=_constraint(gang, part))
        )
        if _refers_to(part, case.pod):
            place = leaf
    if not place:
        case.note(gang.subject, "spec.podgroups", f"none of them refers to {case.pod.subject}, so the pod stays out")
    return Draft(
        merged,
        min_member=sum(each.min_member or 0 for each in leaves),
        sub_groups=(*parents, *leaves),
        sub_group=place,
        fixed_class=merged.labels.get(names.PRIORITY_CLASS_LABEL, "") or spec.text("priorityClassName"),
        topology=_group_constraint(gang, merged),
    )


def _parents(gang: Owner, spec: Fields) -> tuple[list[SubGroup], dict[str, str]]:
    """Sub-groups of pod groups that share a constraint, and the parent of each pod group that has one."""
    parents: list[SubGroup] = []
    parent_of: dict[str, str] = {}
    for part in spec.entries("topologyConstraintGroupConfigs"):
        members = part.values.get("podGroupNames") or []
        if not isinstance(members, list) or not all(isinstance(each, str) for each in members):
            raise part.error("podGroupNames", "expected a list of names: correct the value")
        if not members:
            continue
        name = usable_name(part, "name", part.text("name"))
        parents.append(SubGroup(name, min_sub_group=len(members), topology=_constraint(gang, part)))
        parent_of |= dict.fromkeys(members, name)
    return parents, parent_of


def _constraint(gang: Owner, part: Fields) -> TopologyConstraint | None:
    pack = part.at("topologyConstraint", "packConstraint")
    required, preferred = pack.text("required"), pack.text("preferred")
    if not required and not preferred:
        return None
    topology = _topology_name(gang)
    if not topology:
        field = f"metadata.annotations[{names.GROVE_TOPOLOGY_ANNOTATION}]"
        raise gang.error(field, f"missing: name the topology of the levels at {pack.path('')}")
    return TopologyConstraint(topology, required, preferred)


def _topology_name(gang: Owner) -> str:
    keys = (names.GROVE_TOPOLOGY_ANNOTATION, names.TOPOLOGY_ANNOTATION)
    return next((name for key in keys if (name := gang.annotations.get(key))), "")


def _group_constraint(gang: Owner, merged: Owner) -> TopologyConstraint | None:
    """The constraint of the whole PodGang; annotations fill in what it leaves open."""
    own = _constraint(gang, gang.fields.at("spec")) or TopologyConstraint("")
    texts = merged.annotations
    topology = own.topology or texts.get(names.TOPOLOGY_ANNOTATION, "")
    required = own.required_level or texts.get(names.TOPOLOGY_REQUIRED_ANNOTATION, "")
    preferred = own.preferred_level or texts.get(names.TOPOLOGY_PREFERRED_ANNOTATION, "")
    return TopologyConstraint(topology, required, preferred) if topology else None


def _refers_to(part: Fields, pod: Owner) -> bool:
    found = False
    for reference in part.entries("podReferences"):
        namespace = reference.text("namespace")
        if namespace and namespace != pod.namespace:
            raise reference.error("namespace", f"{namespace!r} is not that of the PodGang: a group has one namespace")
        found = found or reference.text("name") == pod.name
    return found
