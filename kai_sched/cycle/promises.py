"""What each cycle is told of the ones before: who was promised room, and who had its turn to look for some."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from kai_sched.cycle.rounds import Round
from kai_sched.model.config import Config
from kai_sched.model.inflight import NO_TURNS, Turns
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Evict, Pipeline
from kai_sched.plan.result import CycleResult


@dataclass(slots=True)
class Promises:
    """Groups ("namespace/name") that were promised free room: ``promised``.

    ``first``: with minimal victims, how many pods of a group wait for room that is theirs, or moved: so many get it
    before all others. ``nodes``: where, by pod.

    With the victims of the original a group that loses pods after that is told so no more: quotas may contradict each
    other so that two take the same room from each other in turn, and then pods would start only to be evicted.
    """

    promised: frozenset[str] = frozenset()
    first: Mapping[str, int] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)
    searching: Round = field(default_factory=Round)
    _barred: frozenset[str] = frozenset()

    @property
    def due(self) -> bool:
        """Whether the next cycle is due at once: it goes on with searches that were cut."""
        return self.searching.due

    def turns(self, first: Mapping[str, int] = NO_TURNS.first, later: frozenset[str] = frozenset()) -> Turns:
        """What the next cycle is to be told; with other groups that go ``first``, and those that are not tried."""
        searching = self.searching
        return Turns({**self.first, **first}, later, self.promised, self.nodes, searching.had, searching.only)

    def note(self, cluster: Cluster, result: CycleResult, config: Config) -> bool:
        """Take over what a cycle on ``cluster`` decided; whether somebody is told from now on."""
        self.searching.note(cluster, result)
        if config.victims == "minimal":
            self.nodes = {each.pod: each.node for each in result.effects if isinstance(each, Pipeline)}
            self.first = Counter(cluster.pods[key].group_key for key in self.nodes)
            return False
        evicted = {each.group for each in result.effects if isinstance(each, Evict)}
        self._barred = _there(self._barred | (self.promised & evicted), cluster)
        known, self.promised = self.promised, _there(self.promised | result.promised, cluster) - self._barred
        return not self.promised <= known


def _there(groups: frozenset[str], cluster: Cluster) -> frozenset[str]:
    return frozenset(key for key in groups if key in cluster.pod_groups or key in cluster.pods)
