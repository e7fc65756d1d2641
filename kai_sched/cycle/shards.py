"""The cycles of several shards (semantics 11.3): each is decided by itself, in the order given, with what the ones
before it took of what pools share; what they decide as one result.

``kai-sched simulate``, trials and notebooks run all their cycles by it, also those of a single shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TypeVar

from kai_sched.cycle.hint_tracker import HintTracker
from kai_sched.cycle.lift import Lifted
from kai_sched.cycle.pool_amounts import Count, count_pool, together
from kai_sched.cycle.world.shared import with_taken
from kai_sched.lowering.cache import Cache
from kai_sched.model.config import CLUSTER, Config
from kai_sched.model.hints import NO_POOLS, PoolAmounts, SchedulingHints
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Evict
from kai_sched.plan.result import CycleResult, GroupState, PodState, QueueState

# A cycle of the cluster at that time, with what the cache and the hints bring from the one before.
Decide = Callable[[Cluster, Config, int, Cache, SchedulingHints], CycleResult]
Value = TypeVar("Value")


class AllShards:
    """The shards of one process, and what their cycles on the same store can share.

    Attributes
    ----------
    configs
        The settings of each shard.
    """

    def __init__(self, configs: Sequence[Config], decide: Decide, count: Count = count_pool) -> None:
        self.configs = tuple(configs)
        self.decide = decide
        self.count = count
        self.caches = [Cache() for _ in configs]

    def begin(self) -> ShardCycles:
        """Cycles that know of none before."""
        return ShardCycles(self, [HintTracker() for _ in self.configs])


@dataclass(slots=True)
class ShardCycles:
    """Cycles of all shards that follow each other.

    Attributes
    ----------
    results
        Of the last cycle of each shard.
    changed
        Whether the next cycles are told something else than the last ones were, or have work left.
    """

    shards: AllShards
    trackers: list[HintTracker]
    results: list[CycleResult] = field(default_factory=list)
    changed: bool = True

    def decide(self, cluster: Cluster, now_ns: int, remember: bool = True) -> CycleResult:
        """Decide a cycle of each shard on the view.

        ``remember``: the next cycles are told what these pipelined.
        """
        shards = self.shards
        pools = self._count(cluster, now_ns)
        given = [tracker.next_hints() for tracker in self.trackers]
        self.results, again, view = [], False, cluster
        for place, config in enumerate(shards.configs):
            others = together(each for at, each in enumerate(pools) if at != place)
            hints = replace(given[place], elsewhere=others) if pools else given[place]
            result = shards.decide(view, config, now_ns, shards.caches[place], hints)
            self.results.append(result)
            if pools:
                pools[place] = result.pool
            if remember:
                tracker = self.trackers[place]
                again = tracker.record(view, result, config) or tracker.due or again
            if place + 1 < len(shards.configs):
                view = with_taken(view, result)
        self.changed = again or [tracker.next_hints() for tracker in self.trackers] != given
        return merged(cluster, self.results)

    def _count(self, cluster: Cluster, now_ns: int) -> list[PoolAmounts]:
        """What each pool brings to shares of the cluster; nothing where each pool has its own, or there is one."""
        configs = self.shards.configs
        if len(configs) < 2 or configs[0].fair_share != CLUSTER:
            return []
        later = list(zip(configs, self.shards.caches, self.trackers, strict=True))[1:]
        # The first shard is decided before another one asks what it brings.
        counts = [self.shards.count(cluster, config, now_ns, cache, each.pipelined) for config, cache, each in later]
        return [NO_POOLS, *counts]


def merged(cluster: Cluster, results: Sequence[CycleResult]) -> CycleResult:
    """What several shards have decided on the view, in this order, as the result of one cycle.

    A queue that is in several of them is as the last one leaves it: it counts what the others hold (2.8).
    """
    if len(results) == 1:
        return results[0]
    effects = list(chain.from_iterable(each.effects for each in results))
    deadlines = [each.next_deadline_ns for each in results if each.next_deadline_ns]
    return CycleResult(
        effects=(*(e for e in effects if isinstance(e, Evict)), *(e for e in effects if not isinstance(e, Evict))),
        evicted=tuple(chain.from_iterable(each.evicted for each in results)),
        pods=Lifted(partial(_pods, cluster, results)),
        groups=Lifted(partial(_joined, [each.groups for each in results])),
        queues=_queues(results),
        nodes=Lifted(partial(_joined, [each.nodes for each in results])),
        pipelined_free=frozenset(chain.from_iterable(each.pipelined_free for each in results)),
        solver_s=sum(each.solver_s for each in results),
        open_s=sum(each.open_s for each in results),
        actions_s=_sums(each.actions_s for each in results),
        next_deadline_ns=min(deadlines, default=0),
        left_out={name: problem for each in results for name, problem in each.left_out.items()},
        tried=_counts(results),
        simulated=_sums(each.simulated for each in results),
        hard_claims=frozenset(chain.from_iterable(each.hard_claims for each in results)),
        searches=_joined([each.searches for each in results]),
        leaving=_joined([each.leaving for each in results]),
        line=Lifted(partial(_lines, results)),
        questions=tuple(dict.fromkeys(chain.from_iterable(each.questions for each in results))),
        pool=together(each.pool for each in results),
    )


def of_view(result: CycleResult, cluster: Cluster) -> CycleResult:
    """What a shard has decided on another view, of the objects that are in this one."""
    return replace(
        result,
        effects=tuple(effect for effect in result.effects if effect.pod in cluster.pods),
        evicted=tuple(key for key in result.evicted if key in cluster.pods),
        pods=Lifted(lambda: {key: state for key, state in result.pods.items() if key in cluster.pods}),
        groups=Lifted(partial(_groups_of_view, result, cluster)),
        queues=tuple(state for state in result.queues if state.name in cluster.queues),
        nodes=Lifted(lambda: {name: state for name, state in result.nodes.items() if name in cluster.nodes}),
    )


def last_known(result: CycleResult, cluster: Cluster) -> CycleResult:
    """What a shard that was not decided this time said last, of the objects of the view, and without what it did."""
    return replace(
        of_view(result, cluster),
        effects=(),
        evicted=(),
        solver_s=0.0,
        open_s=0.0,
        actions_s={},
        next_deadline_ns=0,
        tried={},
        simulated={},
        searches={},
        questions=(),
    )


def _groups_of_view(result: CycleResult, cluster: Cluster) -> dict[str, GroupState]:
    there = {pod.group_key for pod in cluster.pods.values()} | cluster.pod_groups.keys()
    return {key: state for key, state in result.groups.items() if key in there}


def _joined(tables: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
    """All of them in the order of their keys; of equal keys the last one."""
    found: dict[str, Value] = {}
    for table in tables:
        found.update(table)
    return dict(sorted(found.items()))


def _sums(tables: Iterable[Mapping[str, Value]]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for table in tables:
        for name, value in table.items():
            found[name] = found[name] + value if name in found else value  # type: ignore[operator]
    return found


def _counts(results: Sequence[CycleResult]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for result in results:
        for action, counts in result.tried.items():
            found[action] = _sums((found.get(action, {}), counts))
    return found


def _pods(cluster: Cluster, results: Sequence[CycleResult]) -> dict[str, PodState]:
    """Each pod as the shard of its group sees it, else that of its node, else the first one; without those left out."""
    found = dict(results[0].pods)
    for key, pod in cluster.pods.items():
        for result in results[1:]:
            if key in result.pods and (pod.group_key in result.groups or pod.node in result.nodes):
                found[key] = result.pods[key]
    return found


def _queues(results: Sequence[CycleResult]) -> tuple[QueueState, ...]:
    """The queues of all shards, in the order of the first that has each."""
    last = {state.name: state for result in results for state in result.queues}
    names = dict.fromkeys(state.name for result in results for state in result.queues)
    return tuple(last[name] for name in names)


def _lines(results: Sequence[CycleResult]) -> dict[str, int]:
    """The lines of the shards one after the other."""
    keys = chain.from_iterable(sorted(result.line, key=result.line.__getitem__) for result in results)
    return {key: place for place, key in enumerate(keys)}
