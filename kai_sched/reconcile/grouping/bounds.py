"""The bounds of a PodGroup: numbers of sub-groups and pods, lengths of names; a draft beyond them is refused here,
where its workload can be named.
"""

from __future__ import annotations

from collections.abc import Sequence

from kai_sched.api.custom import LABEL_KEY_LENGTH, NAME_LENGTH
from kai_sched.api.podgroup import SUB_GROUPS_MAX
from kai_sched.model.field_errors import shown
from kai_sched.model.objects import SubGroup, TopologyConstraint
from kai_sched.reconcile.grouping.draft import Draft
from kai_sched.reconcile.grouping.fields import COUNT_MAX
from kai_sched.reconcile.grouping.owners import Owner


def check(source: Owner, draft: Draft, topology: TopologyConstraint | None) -> None:
    """Raises GroupingError for a PodGroup that the API server would never store, whatever its sub-groups."""
    _check_least(source, draft.min_member)
    _check_topology(source, topology)


def check_sub_groups(source: Owner, sub_groups: Sequence[SubGroup]) -> None:
    """Raises GroupingError for sub-groups that the API server would never store."""
    if len(sub_groups) > SUB_GROUPS_MAX:
        message = f"{len(sub_groups):,} sub-groups are needed, and {SUB_GROUPS_MAX:,} are the most"
        raise source.error("", f"{message}: make it of fewer parts")
    seen: set[str] = set()
    for each in sub_groups:
        if each.name in seen:
            raise source.error("", f"two parts of it need a sub-group named {each.name!r}: rename one of them")
        seen.add(each.name)
        _check_least(source, each.min_member or 0)
        _check_topology(source, each.topology)


def _check_least(source: Owner, least: int) -> None:
    if least > COUNT_MAX:
        raise source.error("", f"{least:,} pods are to start together, and {COUNT_MAX:,} are the most: ask for fewer")


def _check_topology(source: Owner, topology: TopologyConstraint | None) -> None:
    if topology is None:
        return
    if len(topology.topology) > NAME_LENGTH:
        raise source.error("", f"no Topology has a name such as {shown(topology.topology)}: correct it")
    for level in (topology.required_level, topology.preferred_level):
        if len(level) > LABEL_KEY_LENGTH:
            raise source.error("", f"no level of a Topology has a name such as {shown(level)}: correct it")
