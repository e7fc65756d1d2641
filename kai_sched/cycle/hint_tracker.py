"""Which hints the results of earlier cycles give the next one: pipelined pods first and on the same nodes, and whether
it is due at once.

A cycle is a pure function; the ``HintTracker`` is the state between cycles. The operator, ``kai-sched simulate`` and
programs that run several cycles keep one. All of it may be lost (a restart): the next cycles then decide anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from kai_sched.cycle.claim_turns import ClaimTurns
from kai_sched.cycle.search_rounds import SearchRound
from kai_sched.model.config import Config
from kai_sched.model.hints import NO_HINTS, SchedulingHints
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Evict, Pipeline
from kai_sched.plan.result import CycleResult


@dataclass(slots=True)
class HintTracker:
    """Call ``next_hints`` before each cycle and ``record`` after it.

    With ``victims: minimal``, pods that the last cycle pipelined come first in the next one, on the same nodes
    (``first`` and ``nominated_nodes``).

    With ``victims: original``, groups that were pipelined onto free room are listed in ``pipelined_free``. A group
    that then loses pods is never listed again: queues whose quotas contradict each other could otherwise take the same
    room from each other in turn, so that pods start only to be evicted.

    ``pipelined`` has the node of each pod that the last cycle pipelined.
    """

    pipelined_free: frozenset[str] = frozenset()
    pipelined: Mapping[str, str] = field(default_factory=dict)
    first: Mapping[str, int] = field(default_factory=dict)
    nominated_nodes: Mapping[str, str] = field(default_factory=dict)
    search_round: SearchRound = field(default_factory=SearchRound)
    claim_turns: ClaimTurns = field(default_factory=ClaimTurns)
    _barred: frozenset[str] = frozenset()

    @property
    def due(self) -> bool:
        """Whether the next cycle should start at once, because it continues searches that were cut short."""
        return self.search_round.due

    def next_hints(
        self,
        first: Mapping[str, int] = NO_HINTS.first,
        deferred: frozenset[str] = frozenset(),
        closed_nodes: frozenset[str] = frozenset(),
    ) -> SchedulingHints:
        """The hints for the next cycle, with more groups that go ``first``, groups that are ``deferred``, and
        ``closed_nodes``."""
        return SchedulingHints(
            first={**self.first, **first},
            deferred=deferred,
            pipelined_free=self.pipelined_free,
            nominated_nodes=self.nominated_nodes,
            searched=self.search_round.searched,
            may_search=self.search_round.may_search,
            closed_nodes=closed_nodes,
            brief=self.claim_turns.brief,
        )

    def record(self, cluster: Cluster, result: CycleResult, config: Config) -> bool:
        """Take over the result of a cycle on ``cluster``.

        Returns whether the next cycle may bind more although nothing changes: a group was added to ``pipelined_free``,
        or waits for the full search for its devices.
        """
        self.search_round.record(cluster, result)
        self.claim_turns.record(cluster, result)
        self.pipelined = {each.pod: each.node for each in result.effects if isinstance(each, Pipeline)}
        if config.victims == "minimal":
            self.nominated_nodes = self.pipelined
            self.first = Counter(cluster.pods[key].group_key for key in self.nominated_nodes)
            return self.claim_turns.due
        evicted = {each.group for each in result.effects if isinstance(each, Evict)}
        self._barred = _existing(self._barred | (self.pipelined_free & evicted), cluster)
        before = self.pipelined_free
        self.pipelined_free = _existing(before | result.pipelined_free, cluster) - self._barred
        return self.claim_turns.due or not self.pipelined_free <= before


def _existing(groups: frozenset[str], cluster: Cluster) -> frozenset[str]:
    return frozenset(key for key in groups if key in cluster.pod_groups or key in cluster.pods)
