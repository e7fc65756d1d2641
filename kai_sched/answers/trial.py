"""Trials: what becomes of a cluster that is changed and then left alone, until no cycle changes anything any more.

All trials of a cluster share one store, which is put back after each, and one cache of lowered tables: a trial costs
what its changes and its cycles cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

from kai_sched.answers.changes import Change
from kai_sched.answers.goal import group_pods
from kai_sched.cycle.pool_amounts import Count, count_pool
from kai_sched.cycle.run import run_cycle
from kai_sched.cycle.shards import AllShards, Decide, ShardCycles
from kai_sched.cycle.world.pods import SECOND_NS, World, advance, stamp_stale
from kai_sched.lowering.cache import Cache
from kai_sched.model.config import Config, in_pool
from kai_sched.model.hints import SchedulingHints
from kai_sched.model.objects import Object, Pod, PodGroup
from kai_sched.model.store import Cluster, Store
from kai_sched.plan.effects import Bind, Evict
from kai_sched.plan.result import CycleResult

CYCLES_MAX = 16
FIXED_WORK = 1000
_WORLD = World(SECOND_NS, revives=False, restarts_clocks=False, keeps_devices=False, stamped=True)


def decide_unasked(cluster: Cluster, config: Config, now_ns: int, cache: Cache, hints: SchedulingHints) -> CycleResult:
    """A cycle in which no selector of devices is evaluated."""
    return run_cycle(cluster, config, now_ns, cache, hints=hints)


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """What became of a cluster.

    Attributes
    ----------
    start, end
        The cluster before the first cycle, with the changes of the trial, and after the last one.
    first, last
        The results of the first and the last cycle.
    evicted
        All evictions, in the order of the decisions.
    bound
        Keys of the pods that were bound, in that order.
    cycles
        How many there were.
    settled
        Whether the last cycle changed nothing; else there were CYCLES_MAX.
    """

    start: Cluster
    end: Cluster
    first: CycleResult
    last: CycleResult
    evicted: tuple[Evict, ...]
    bound: tuple[str, ...]
    cycles: int
    settled: bool


class Trials:
    """Trials of one cluster.

    Parameters
    ----------
    config
        The settings of the shard that is decided, or of all of them at once (``model.shards.Shards.whole``).
    decide, count
        Decide a cycle, and count what a pool has (``cycle.shards.AllShards``).

    Attributes
    ----------
    shards
        The settings of each shard of the cluster, as far as they are known.
    work
        What all trials so far have cost, in a unit that does not depend on the machine: pods and nodes that their
        cycles looked at, and FIXED_WORK for each cycle.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: Config,
        now_ns: int,
        decide: Decide = decide_unasked,
        shards: Sequence[Config] = (),
        count: Count = count_pool,
    ) -> None:
        self.config = config
        self.now_ns = now_ns
        self.work = 0
        self.shards = tuple(shards)
        self._of_shards: dict[str, Trials] = {}  # by node pool
        self._decided = AllShards(shards if config.node_pools else (config,), decide, count)
        self._store = Store.of(cluster)
        stamp_stale(self._store, now_ns)
        self._base = self._store.cluster()

    @property
    def cluster(self) -> Cluster:
        """The cluster without changes."""
        return self._base

    @property
    def cycle_cost(self) -> int:
        """The work of one cycle without changes."""
        return self._cycle_cost(self._base)

    @cached_property
    def base(self) -> TrialOutcome:
        """What becomes of the cluster without changes."""
        return self.outcome()

    def outcome(self, changes: Sequence[Change] = ()) -> TrialOutcome:
        """What becomes of the cluster with these changes. Raises FieldError for changes that do not fit it."""
        with self.left_alone() as course:
            for each in changes:
                course.apply(each)
            return course.outcome(self.now_ns)

    def alone(self, group: str) -> Trials:
        """Trials of the cluster without any pod or group but this one."""
        kept: list[Object] = [each for each in self._store.everything() if not isinstance(each, Pod | PodGroup)]
        kept += group_pods(self._base.pods, self._base.pod_groups, group)
        if (own := self._base.pod_groups.get(group)) is not None:
            kept.append(own)
        return self._of(Cluster.of(kept), self.config)

    def of_all_shards(self) -> Trials:
        """Trials of the same cluster, in which all its shards are decided."""
        if self.config.node_pools:
            return self
        pools = tuple(sorted(each.node_pool for each in self.shards))
        return self._of(self._base, replace(self.config, node_pool="", node_pools=pools))

    def of_shard_of(self, labels: Mapping[str, str]) -> Trials:
        """Trials of the same cluster, in which the shard is decided that has an object with these labels."""
        if in_pool(labels, self.config):
            return self
        found = next((each for each in self.shards if in_pool(labels, each)), None)
        if found is None:
            return self
        if found.node_pool not in self._of_shards:
            own = replace(found, fair_share=self.config.fair_share)
            self._of_shards[found.node_pool] = self._of(self._base, own)
        return self._of_shards[found.node_pool]

    def _of(self, cluster: Cluster, config: Config) -> Trials:
        decided = self._decided
        return Trials(cluster, config, self.now_ns, decided.decide, self.shards, decided.count)

    @contextmanager
    def left_alone(self) -> Iterator[Course]:
        """A course of the cluster that may be changed and left alone several times; then all is as it was."""
        base = self._store.cluster()
        try:
            yield Course(self, self._store)
        finally:
            if self._store.changes_since(base.serial) is None:
                # So much has changed that the journal no longer reaches back.
                self._store = Store.of(self._base)
            else:
                self._store.restore(base)

    def begin(self) -> ShardCycles:
        """Cycles that know of none before."""
        return self._decided.begin()

    def count(self, cluster: Cluster) -> None:
        """Count the work of a cycle on this cluster."""
        self.work += self._cycle_cost(cluster)

    def _cycle_cost(self, cluster: Cluster) -> int:
        return (FIXED_WORK + len(cluster.pods) + len(cluster.nodes)) * len(self._decided.configs)


class Course:
    """A cluster that takes its course: changes, and cycles until nothing changes any more."""

    def __init__(self, trials: Trials, store: Store) -> None:
        self._trials = trials
        self._store = store

    @property
    def cluster(self) -> Cluster:
        """The cluster as it is now."""
        return self._store.cluster()

    def apply(self, change: Change) -> None:
        """Change it. Raises FieldError."""
        change.apply(self._store)

    def settle(self, now_ns: int) -> Cluster:
        """Leave it alone from this time on; what it is then."""
        return self.outcome(now_ns).end

    def outcome(self, now_ns: int) -> TrialOutcome:
        """As ``settle``, with all that happens."""
        store, cycles, trials = self._store, self._trials.begin(), self._trials
        start = view = store.cluster()
        results: list[CycleResult] = []
        evicted: list[Evict] = []
        bound: list[str] = []
        settled = False
        while not settled and len(results) < CYCLES_MAX:
            trials.count(view)
            result = cycles.decide(view, now_ns)
            results.append(result)
            evicted += [each for each in result.effects if isinstance(each, Evict)]
            bound += [each.pod for each in result.effects if isinstance(each, Bind)]
            before = store.serial
            if may_change(view, result):
                advance(store, view, result, now_ns, _WORLD)
            settled = store.serial == before and not cycles.changed
            view, now_ns = store.cluster(), now_ns + SECOND_NS
        return TrialOutcome(start, view, results[0], results[-1], tuple(evicted), tuple(bound), len(results), settled)


def may_change(cluster: Cluster, result: CycleResult) -> bool:
    """Whether the cluster is another one after the cycle: pods are bound, evicted or leave."""
    if any(isinstance(each, Bind | Evict) for each in result.effects) or cluster.bind_requests:
        return True
    return any(pod.deleted_ns for pod in cluster.pods.values())
