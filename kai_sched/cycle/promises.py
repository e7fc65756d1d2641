"""Who is told that it was promised free room, from one cycle to the next (``Turns.promised``)."""

from __future__ import annotations

from dataclasses import dataclass, field

from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Evict
from kai_sched.plan.result import CycleResult


@dataclass(slots=True)
class Promises:
    """Groups ("namespace/name") to be told so in the next cycle: ``promised``.

    A group that loses pods after it was told is told no more: quotas may contradict each other so that two take the
    same room from each other in turn, and then pods would start only to be evicted.
    """

    promised: frozenset[str] = frozenset()
    _told: set[str] = field(default_factory=set)
    _barred: set[str] = field(default_factory=set)

    def note(self, cluster: Cluster, result: CycleResult) -> None:
        """Take over what a cycle on ``cluster`` decided."""
        self._told |= self.promised
        self._barred |= self._told & {each.group for each in result.effects if isinstance(each, Evict)}
        for groups in (self._told, self._barred):
            groups &= {key for key in groups if key in cluster.pod_groups or key in cluster.pods}
        self.promised = result.promised - self._barred
