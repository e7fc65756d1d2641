"""The tree of sub-groups of a PodGroup in numbers: parents, minimums, and what holds if they form no tree
(semantics 0.4).

A set is the whole group, a sub-group with sub-groups below it, or a pod set: a sub-group with pods of its own.
PodGroups with equal layouts share one, so a cluster has few of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from kai_sched.lowering.limits import whole
from kai_sched.model.checks import DEFAULT_SET, tree_fault
from kai_sched.model.objects import PodGroup, TopologyConstraint
from kai_sched.snapshot.columns import NULL


@dataclass(frozen=True, slots=True)
class Layout:
    """The sets of one job, n in number: the root first, then breadth first, children by name.

    Attributes
    ----------
    names
        (n,) the names of the sub-groups; "" for the root, unless the root is the only pod set.
    parent
        (n,) row of the parent; NULL for the root.
    child_ptr, child_end
        (n,) the children of set i are the rows child_ptr[i]:child_end[i].
    minimum
        (n,) how many pods of a pod set, or children of another set, must start together.
    pod_sets
        Row by name of the pod sets.
    constraints
        (n,) the topology constraint of each set, or None.
    """

    names: tuple[str, ...]
    parent: tuple[int, ...]
    child_ptr: tuple[int, ...]
    child_end: tuple[int, ...]
    minimum: tuple[int, ...]
    pod_sets: dict[str, int]
    constraints: tuple[TopologyConstraint | None, ...]


def layout_key(group: PodGroup) -> object:
    """All that the layout depends on: groups with equal keys have equal layouts."""
    return (group.min_member, group.min_sub_group, group.sub_groups, group.topology)


def make_layout(group: PodGroup) -> Layout:
    """The layout of the group. It is a single pod set if there are no sub-groups, or if they form no tree.

    In the latter case its minimum is 1 pod (``model.checks.tree_fault`` reports why).
    """
    if not group.sub_groups:
        return _single(1 if group.min_member is None else group.min_member, group.topology)
    if tree_fault(group) is not None:
        return _single(1, group.topology)
    members: dict[str, list[str]] = {}
    for entry in sorted(group.sub_groups, key=lambda entry: entry.name):
        members.setdefault(entry.parent, []).append(entry.name)
    by_name = {entry.name: entry for entry in group.sub_groups}
    names, parent = [""], [NULL]
    child_ptr: list[int] = []
    child_end: list[int] = []
    for row, name in enumerate(names):  # grows while it is walked: breadth first
        child_ptr.append(len(names))
        for member in members.get(name, []):
            names.append(member)
            parent.append(row)
        child_end.append(len(names))
    minimum, pod_sets = [], {}
    for row, name in enumerate(names):
        n_members = child_end[row] - child_ptr[row]
        found = by_name.get(name)
        if n_members == 0 and found is not None:
            minimum.append(whole(found.min_member or 0))
            pod_sets[name] = row
        else:
            wanted = group.min_sub_group if found is None else found.min_sub_group
            minimum.append(n_members if wanted is None else whole(wanted))
    return Layout(
        names=tuple(names),
        parent=tuple(parent),
        child_ptr=tuple(child_ptr),
        child_end=tuple(child_end),
        minimum=tuple(minimum),
        pod_sets=pod_sets,
        constraints=(group.topology, *(by_name[name].topology for name in names[1:])),
    )


def _single(minimum: int, constraint: TopologyConstraint | None) -> Layout:
    return Layout(
        names=(DEFAULT_SET,),
        parent=(NULL,),
        child_ptr=(1,),
        child_end=(1,),
        minimum=(whole(minimum),),
        pod_sets={DEFAULT_SET: 0},
        constraints=(constraint,),
    )
