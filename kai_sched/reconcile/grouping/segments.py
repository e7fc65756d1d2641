"""The topology constraint of segments, parts of the workers of a gang, and how many there may be (API 4.6, 4.8)."""

from __future__ import annotations

from collections.abc import Mapping

from kai_sched.api import names
from kai_sched.api.podgroup import SUB_GROUPS_MAX
from kai_sched.model.objects import TopologyConstraint
from kai_sched.reconcile.grouping.owners import Owner
from kai_sched.reconcile.grouping.workload_errors import GroupingError

Texts = Mapping[str, str]


def topology_of_segments(pod: Owner, template: Texts, owner: Owner, template_path: str) -> TopologyConstraint | None:
    """Return the constraint of each segment: the level by the pod or its template, the topology also by the owner.

    Raises GroupingError for a level without a topology.
    """
    sources = (pod.annotations, template)
    required = _first(names.SEGMENT_REQUIRED_ANNOTATION, *sources)
    preferred = _first(names.SEGMENT_PREFERRED_ANNOTATION, *sources)
    if not required and not preferred:
        return None
    topology = _first(names.TOPOLOGY_ANNOTATION, *sources, owner.annotations)
    if not topology:
        field = f"{template_path}[{names.TOPOLOGY_ANNOTATION}]"
        raise owner.error(field, "missing: name the topology that the level of the segments is one of")
    return TopologyConstraint(topology, required, preferred)


def check_segments(count: int, size: int, subject: str, field: str) -> None:
    """Raises GroupingError for more segments than a PodGroup can hold."""
    if count > SUB_GROUPS_MAX:
        message = f"{size} gives {count:,} segments, and {SUB_GROUPS_MAX:,} are the most: make them larger"
        raise GroupingError(subject, field, message)


def _first(key: str, *sources: Texts) -> str:
    return next((value for source in sources if (value := source.get(key))), "")
