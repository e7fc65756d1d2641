"""Why the scheduler of a workload does not know its queue, and the queue without bounds that stands in for it."""

from __future__ import annotations

from dataclasses import dataclass

from kai_sched.answers.explain.search import Changes
from kai_sched.answers.workload_changes import InQueue
from kai_sched.lowering.queues import visible_queues
from kai_sched.model.config import Config, sees_queue
from kai_sched.model.objects import UNLIMITED, Queue, Share
from kai_sched.model.queue_tree import missing_above, rooted_queues
from kai_sched.model.store import Cluster, Store

_OPEN = Share(UNLIMITED, UNLIMITED, 1.0)
_STAND_IN = "stand-in"


def unknown_queue(cluster: Cluster, name: str, config: Config) -> str:
    """Why the scheduler with these settings does not know the queue; "" where it does."""
    if not name:
        return "it names no queue"
    queue = cluster.queues.get(name)
    if queue is None:
        return f"there is no queue {name!r}"
    if not sees_queue(queue.labels, config):
        pool = queue.labels.get(config.node_pool_label, "")
        return f"queue {name!r} is in {f'node pool {pool}' if pool else 'no node pool'}"
    visible = visible_queues(cluster.queues, config)
    if name in rooted_queues(visible) or name not in visible:
        return ""
    above = missing_above(name, visible)
    return f"queue {name!r} is ignored, as {f'there is no queue {above!r}' if above else 'its parents form a cycle'}"


@dataclass(frozen=True, slots=True)
class InOpenQueue:
    """The group is in a new queue without bounds, with these ``labels``; ``parent`` need not exist."""

    group: str
    labels: tuple[tuple[str, str], ...]
    parent: str

    def apply(self, store: Store) -> None:
        store.put(
            Queue(_STAND_IN, uid="", parent=self.parent, cpu=_OPEN, memory=_OPEN, gpu=_OPEN, labels=dict(self.labels))
        )
        InQueue(self.group, _STAND_IN).apply(store)

    @property
    def flag(self) -> str:
        return InQueue(self.group, _STAND_IN).flag


def with_stand_in(group: str, config: Config) -> Changes:
    """The change that puts the group into a new queue without bounds."""
    labels = ((config.node_pool_label, config.node_pool),) if config.node_pool else ()
    parent = "" if config.full_hierarchy_fairness else f"above-{_STAND_IN}"  # else it counts as a department
    return (InOpenQueue(group, labels, parent),)
