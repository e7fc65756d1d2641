"""The shape of a gang: PodGroup fields to a tree of sets in numbers (semantics 0.4)."""

from __future__ import annotations

from dataclasses import dataclass

from kai_sched.lowering.limits import whole
from kai_sched.model.checks import DEFAULT_SET, tree_fault
from kai_sched.model.objects import PodGroup
from kai_sched.snapshot.columns import NULL


@dataclass(frozen=True, slots=True)
class Layout:
    """Sets of one job: the root first, children side by side and by name; ``pod_sets`` gives a row by its name."""

    names: tuple[str, ...]
    parent: tuple[int, ...]
    child_ptr: tuple[int, ...]
    child_end: tuple[int, ...]
    minimum: tuple[int, ...]
    pod_sets: dict[str, int]
    topology: bool  # some set has a topology constraint


def layout_key(group: PodGroup) -> object:
    """What the layout depends on; equal keys, equal layouts."""
    return (group.min_member, group.min_sub_group, group.sub_groups, group.topology is not None)


def make_layout(group: PodGroup) -> Layout:
    """The tree of the group. Without sub-groups, or with sub-groups that contradict themselves, it is one pod set."""
    topology = group.topology is not None or any(entry.topology for entry in group.sub_groups)
    if not group.sub_groups:
        return _single(1 if group.min_member is None else group.min_member, topology)
    if tree_fault(group) is not None:
        return _single(1, topology)
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
    return Layout(tuple(names), tuple(parent), tuple(child_ptr), tuple(child_end), tuple(minimum), pod_sets, topology)


def _single(minimum: int, topology: bool) -> Layout:
    return Layout((DEFAULT_SET,), (NULL,), (1,), (1,), (whole(minimum),), {DEFAULT_SET: 0}, topology)
