"""The content of a queue's status (API 5.1): children, allocated, requested, fair share; and what is wrong with its
place in the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kai_sched.api import names
from kai_sched.model.config import Config, sees_queue
from kai_sched.model.objects import Queue
from kai_sched.model.store import Cluster
from kai_sched.plan.result import QUEUE_RESOURCES, QueueState
from kai_sched.reconcile.status.shown_objects import Finding
from kai_sched.reconcile.status.usage import Amounts, QueueUsage, add_amounts, resource_list


def queue_statuses(
    cluster: Cluster, states: Iterable[QueueState], config: Config, usage: QueueUsage
) -> dict[str, dict[str, Any]]:
    """The status of each queue of the node pool but its conditions, as JSON values.

    Every level of the tree is summed up at once, from the pods. Empty fields are left out.
    """
    queues = {name: queue for name, queue in cluster.queues.items() if sees_queue(queue.labels, config)}
    children: dict[str, list[str]] = {}
    for name in sorted(queues):
        children.setdefault(queues[name].parent, []).append(name)
    sums = {name: usage.queue_amounts(name) for name in queues}
    for name in reversed(_parents_first(queues, children)):
        above = sums.get(queues[name].parent)
        if above is not None:
            for total, more in zip(above, sums[name], strict=True):
                add_amounts(total, more)
    fair = {state.name: dict(zip(QUEUE_RESOURCES, state.fair_share, strict=True)) for state in states}
    return {name: _status(children.get(name, []), sums[name], fair.get(name)) for name in queues}


def _parents_first(queues: Mapping[str, Queue], children: Mapping[str, list[str]]) -> list[str]:
    """Return the queues, parents first, without cycles of parents and what is below them."""
    order = [name for name, queue in queues.items() if queue.parent not in queues]
    for name in order:  # grows while it is walked
        order.extend(children.get(name, ()))
    return order


def _status(children: list[str], sums: tuple[Amounts, Amounts, Amounts], fair: Amounts | None) -> dict[str, Any]:
    held, fixed, asked = sums
    fields: dict[str, Any] = {
        "childQueues": children,
        "allocated": resource_list(held),
        "allocatedNonPreemptible": resource_list(fixed),
        "requested": resource_list(asked),
        "fairShare": resource_list(fair or {}),
    }
    return {name: value for name, value in fields.items() if value}


def queue_findings(cluster: Cluster, config: Config) -> dict[str, Finding]:
    """Return what is wrong with the place of a queue in the tree, for queues that are ignored because of it."""
    queues = {name: queue for name, queue in cluster.queues.items() if sees_queue(queue.labels, config)}
    return {name: found for name in queues if (found := _finding(name, queues)) is not None}


def _finding(start: str, queues: Mapping[str, Queue]) -> Finding | None:
    path = [start]
    while queues[path[-1]].parent:
        name, parent = path[-1], queues[path[-1]].parent
        if parent in path:
            circle = " -> ".join([*path[path.index(parent) :], parent])
            if parent != start:
                text = f"queue {parent!r} above this one is its own ancestor ({circle}), so this one is left out, too"
                return names.ORPHAN, "AncestorLeftOut", text
            text = f"spec.parentQueue: the queue is its own ancestor ({circle}): give one of them another parent"
            return names.ORPHAN, "CircleOfParents", text
        if parent not in queues:
            if name == start:
                text = f"spec.parentQueue: there is no queue {parent!r}, so this one is left out: "
                return names.ORPHAN, "ParentDoesNotExist", f"{text}create the parent, or correct the name"
            text = f"parent {parent!r} of queue {name!r} does not exist, so {name!r} and this queue are left out"
            return names.ORPHAN, "AncestorLeftOut", text
        path.append(parent)
    return None
