"""Which workloads of an overview are shown, and in which order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from kai_sched.answers.changes import unknown
from kai_sched.answers.overview import Overview, PlacedWorkload, RunningWorkload
from kai_sched.answers.waiting import Waiting
from kai_sched.answers.workloads import workloads_of
from kai_sched.model.constraints import Requirement
from kai_sched.model.field_errors import FieldError
from kai_sched.model.queue_tree import path_to_root
from kai_sched.model.selectors import holds
from kai_sched.model.store import Cluster

# One requirement of a label selector as kubectl reads it: key, !key, key=value, key!=value, key in (a, b).
_REQUIREMENT = re.compile(
    r"\s*(?P<no>!)?\s*(?P<key>[A-Za-z0-9][A-Za-z0-9./_-]*)\s*"
    r"(?:(?P<equals>==?|!=)\s*(?P<value>[A-Za-z0-9._-]*)|(?P<word>in|notin)\s*\((?P<values>[A-Za-z0-9._,\s-]*)\))?\s*"
)
SORTS = ("age", "name", "queue", "gpus")
Row = TypeVar("Row", Waiting, PlacedWorkload, RunningWorkload)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which workloads are wanted; "" for all. ``labels`` is a label selector, as kubectl has it, on the labels of
    PodGroups and pods: what it asks for is on one of them, and what it excludes on none."""

    namespace: str = ""
    queue: str = ""
    labels: str = ""
    pending: bool = False
    sort: str = "age"


def selected(found: Overview, wanted: Selection, cluster: Cluster) -> Overview:
    """The part of the overview that is wanted. Raises FieldError for a queue or namespace that does not exist."""
    if wanted.queue and wanted.queue not in cluster.queues:
        raise unknown("queue", wanted.queue, cluster.queues, "--queue")
    if wanted.namespace:
        there = cluster.namespaces.keys() | {each.namespace for each in workloads_of(cluster).by_group.values()}
        if wanted.namespace not in there:
            raise unknown("namespace", wanted.namespace, there, "--namespace")
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
    """Whether a group, by its key, meets the label selector. Raises FieldError."""
    if not text:
        return lambda _: True
    wanted = _requirements(text)
    pods: dict[str, list[str]] = {}
    for key, group in workloads_of(cluster).pods.items():
        pods.setdefault(group, []).append(key)

    def matches(group: str) -> bool:
        known = cluster.pod_groups.get(group)
        labels = [known.labels] if known is not None else []
        labels += [cluster.pods[key].labels for key in pods.get(group, ())]
        return all((any if each.op in ("In", "Exists") else all)(holds(each, one) for one in labels) for each in wanted)

    return matches


def _requirements(text: str) -> list[Requirement]:
    """The requirements of a label selector. Raises FieldError."""
    found: list[Requirement] = []
    rest: str | None = text
    while rest is not None:
        match = _REQUIREMENT.match(rest)
        end = match.end() if match else 0
        if (
            match is None
            or rest[end : end + 1] not in ("", ",")
            or (match["no"] and (match["equals"] or match["word"]))
        ):
            text = "write key=value, key!=value, key in (a, b), key or !key, with commas between them"
            raise FieldError("--selector", f"{rest!r} is no label selector: {text}")
        found.append(_requirement(match))
        rest = rest[end + 1 :] if rest[end:] else None
    return found


def _requirement(match: re.Match[str]) -> Requirement:
    if match["equals"]:
        return Requirement(match["key"], "NotIn" if match["equals"] == "!=" else "In", (match["value"],))
    if match["word"]:
        values = tuple(each.strip() for each in match["values"].split(","))
        return Requirement(match["key"], "NotIn" if match["word"] == "notin" else "In", values)
    return Requirement(match["key"], "DoesNotExist" if match["no"] else "Exists")


def names(rows: Iterable[Waiting | PlacedWorkload | RunningWorkload]) -> Iterable[str]:
    """ "kind/namespace/name" of each workload."""
    for row in rows:
        for each in row.workloads if isinstance(row, Waiting) else (row.workload,):
            yield f"{each.kind.lower()}/{each.namespace}/{each.name}"
