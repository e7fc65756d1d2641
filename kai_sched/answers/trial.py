"""Trials: what becomes of a cluster that is changed and then left alone, until no cycle changes anything any more.

All trials of a cluster share one store, which is put back after each, and one cache of lowered tables: a trial costs
what its changes and its cycles cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from kai_sched.answers.changes import Change
from kai_sched.answers.goal import group_pods
from kai_sched.cycle.hint_tracker import HintTracker
from kai_sched.cycle.run import run_cycle
from kai_sched.cycle.world.pods import SECOND_NS, World, advance, stamp_stale
from kai_sched.lowering.cache import Cache
from kai_sched.model.config import Config
from kai_sched.model.hints import SchedulingHints
from kai_sched.model.objects import Object, Pod, PodGroup
from kai_sched.model.store import Cluster, Store
from kai_sched.plan.effects import Bind, Evict
from kai_sched.plan.result import CycleResult

# A cycle of the cluster at that time, with what the cache and the hints bring from the one before.
Decide = Callable[[Cluster, Config, int, Cache, SchedulingHints], CycleResult]
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

    Attributes
    ----------
    work
        What all trials so far have cost, in a unit that does not depend on the machine: pods and nodes that their
        cycles looked at, and FIXED_WORK for each cycle.
    """

    def __init__(self, cluster: Cluster, config: Config, now_ns: int, decide: Decide = decide_unasked) -> None:
        self.config = config
        self.now_ns = now_ns
        self.work = 0
        self._decide = decide
        self._store = Store.of(cluster)
        stamp_stale(self._store, now_ns)
        self._base = self._store.cluster()
        self._cache = Cache()

    @property
    def cluster(self) -> Cluster:
        """The cluster without changes."""
        return self._base

    @property
    def cycle_cost(self) -> int:
        """The work of one cycle without changes."""
        return _cycle_cost(self._base)

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
        return Trials(Cluster.of(kept), self.config, self.now_ns, self._decide)

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

    def decide(self, cluster: Cluster, now_ns: int, hints: SchedulingHints) -> CycleResult:
        """One cycle."""
        self.work += _cycle_cost(cluster)
        return self._decide(cluster, self.config, now_ns, self._cache, hints)


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
        store, tracker, trials = self._store, HintTracker(), self._trials
        start = view = store.cluster()
        results: list[CycleResult] = []
        evicted: list[Evict] = []
        bound: list[str] = []
        settled, hints = False, tracker.next_hints()
        while not settled and len(results) < CYCLES_MAX:
            result = trials.decide(view, now_ns, hints)
            results.append(result)
            evicted += [each for each in result.effects if isinstance(each, Evict)]
            bound += [each.pod for each in result.effects if isinstance(each, Bind)]
            before = store.serial
            if may_change(view, result):
                advance(store, view, result, now_ns, _WORLD)
            again = tracker.record(view, result, trials.config) or tracker.due
            following = tracker.next_hints()
            settled = store.serial == before and following == hints and not again
            hints, view, now_ns = following, store.cluster(), now_ns + SECOND_NS
        return TrialOutcome(start, view, results[0], results[-1], tuple(evicted), tuple(bound), len(results), settled)


def _cycle_cost(cluster: Cluster) -> int:
    return FIXED_WORK + len(cluster.pods) + len(cluster.nodes)


def may_change(cluster: Cluster, result: CycleResult) -> bool:
    """Whether the cluster is another one after the cycle: pods are bound, evicted or leave."""
    if any(isinstance(each, Bind | Evict) for each in result.effects) or cluster.bind_requests:
        return True
    return any(pod.deleted_ns for pod in cluster.pods.values())
