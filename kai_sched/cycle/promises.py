"""Who is told that it was promised free room in an earlier cycle (``Turns.promised``)."""

from __future__ import annotations

from dataclasses import dataclass

from kai_sched.model.config import Config
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Evict, Pipeline
from kai_sched.plan.result import CycleResult


@dataclass(slots=True)
class Promises:
    """Groups ("namespace/name") that were promised free room: ``promised``.

    ``first``: with minimal victims, groups with pods that wait for room that is theirs, or that moved: they get it
    before all others.

    With the victims of the original a group that loses pods after that is told so no more: quotas may contradict each
    other so that two take the same room from each other in turn, and then pods would start only to be evicted.
    """

    promised: frozenset[str] = frozenset()
    first: frozenset[str] = frozenset()
    _barred: frozenset[str] = frozenset()

    def note(self, cluster: Cluster, result: CycleResult, config: Config) -> bool:
        """Take over what a cycle on ``cluster`` decided; whether somebody is told from now on."""
        if config.victims == "minimal":
            self.first = _placed(cluster, result)
            return False
        evicted = {each.group for each in result.effects if isinstance(each, Evict)}
        self._barred = _there(self._barred | (self.promised & evicted), cluster)
        known, self.promised = self.promised, _there(self.promised | result.promised, cluster) - self._barred
        return not self.promised <= known


def _placed(cluster: Cluster, result: CycleResult) -> frozenset[str]:
    """The groups of pods that have a place to come to."""
    moved = {each.group for each in result.effects if isinstance(each, Evict) and each.moves_to}
    waiting = {cluster.pods[each.pod].group_key for each in result.effects if isinstance(each, Pipeline)}
    return frozenset(moved | waiting)


def _there(groups: frozenset[str], cluster: Cluster) -> frozenset[str]:
    return frozenset(key for key in groups if key in cluster.pod_groups or key in cluster.pods)
