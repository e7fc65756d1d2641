"""Which workloads of an overview are shown, and in which order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from kai_sched.answers.changes import unknown
from kai_sched.answers.overview import Overview, PlacedWorkload, RunningWorkload
from kai_sched.answers.waiting import Waiting
from kai_sched.answers.workloads import workloads_of
from kai_sched.model.field_errors import FieldError
from kai_sched.model.queue_tree import path_to_root
from kai_sched.model.store import Cluster

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9./_-]*")
SORTS = ("age", "name", "queue", "gpus")
Row = TypeVar("Row", Waiting, PlacedWorkload, RunningWorkload)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which workloads are wanted; "" for all. ``labels`` is "key=value,key" on the labels of PodGroups or pods."""

    namespace: str = ""
    queue: str = ""
    labels: str = ""
    pending: bool = False
    sort: str = "age"


def selected(found: Overview, wanted: Selection, cluster: Cluster) -> Overview:
    """The part of the overview that is wanted. Raises FieldError for a queue that does not exist."""
    if wanted.queue and wanted.queue not in cluster.queues:
        raise unknown("queue", wanted.queue, cluster.queues, "--queue")
    matches = _labels(wanted.labels, cluster)

    def is_wanted(namespace: str, queue: str, group: str) -> bool:
        if wanted.namespace and namespace != wanted.namespace:
            return False
        if wanted.queue and wanted.queue not in path_to_root(cluster.queues, queue):
            return False
        return matches(group)

    waiting = [
        each for each in found.waiting if is_wanted(each.workloads[0].namespace, each.queue, each.workloads[0].group)
    ]
    placed = [each for each in found.placed if is_wanted(each.workload.namespace, each.queue, each.workload.group)]
    running = [each for each in found.running if is_wanted(each.workload.namespace, each.queue, each.workload.group)]
    headlines = [
        each
        for each in found.headlines
        if any(is_wanted(victim.workload.namespace, victim.queue, victim.workload.group) for victim in each.victims)
        or (each.winner is not None and is_wanted(each.winner.namespace, each.queue, each.winner.group))
    ]
    below = [each for each in found.queues if wanted.queue in path_to_root(cluster.queues, each.name)]
    queues = below if wanted.queue else found.queues
    return replace(
        found,
        queues=() if wanted.pending else tuple(queues),
        waiting=tuple(_sorted(waiting, wanted.sort)),
        placed=() if wanted.pending else tuple(_sorted(placed, wanted.sort)),
        running=() if wanted.pending else tuple(_sorted(running, wanted.sort)),
        headlines=() if wanted.pending else tuple(headlines),
    )


def _sorted(rows: list[Row], sort: str) -> list[Row]:
    """Sorted by that column; as they are for "age", which is their order."""
    match sort:
        case "name":
            return sorted(rows, key=_name)
        case "queue":
            return sorted(rows, key=lambda each: (each.queue, _name(each)))
        case "gpus":
            return sorted(rows, key=lambda each: (-each.gpus, _name(each)))
        case _:
            return rows


def _name(row: Waiting | PlacedWorkload | RunningWorkload) -> tuple[str, str]:
    first = row.workloads[0] if isinstance(row, Waiting) else row.workload
    return first.name, first.namespace


def _labels(text: str, cluster: Cluster) -> Callable[[str], bool]:
    """Whether a group, by its key, or one of its pods has the labels. Raises FieldError."""
    if not text:
        return lambda _: True
    wanted = [_requirement(part) for part in text.split(",")]
    pods: dict[str, list[str]] = {}
    for key, group in workloads_of(cluster).pods.items():
        pods.setdefault(group, []).append(key)

    def matches(group: str) -> bool:
        known = cluster.pod_groups.get(group)
        labels = [known.labels] if known is not None else []
        labels += [cluster.pods[key].labels for key in pods.get(group, ())]
        return any(all(_has(each, key, value) for key, value in wanted) for each in labels)

    return matches


def _requirement(part: str) -> tuple[str, str | None]:
    key, equals, value = part.partition("=")
    if not _LABEL.fullmatch(key.strip()):
        raise FieldError("--selector", f"{part!r} is no label: write key=value, or key")
    return key.strip(), value.lstrip("=").strip() if equals else None


def _has(labels: Mapping[str, str], key: str, value: str | None) -> bool:
    found = labels.get(key)
    return found is not None if value is None else found == value


def names(rows: Iterable[Waiting | PlacedWorkload | RunningWorkload]) -> Iterable[str]:
    """ "kind/namespace/name" of each workload."""
    for row in rows:
        for each in row.workloads if isinstance(row, Waiting) else (row.workload,):
            yield f"{each.kind.lower()}/{each.namespace}/{each.name}"
