"""The work of the status thread: which status writes, Events, metrics and log lines follow from cycles, binds and
evictions.

Everything here belongs to that thread; however long it takes, the event loop goes on with requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from kai_sched.cluster.backoff import Backoff
from kai_sched.model.config import Config
from kai_sched.model.keys import split_key
from kai_sched.model.shards import UnservedPool, pool_texts, unserved_pools
from kai_sched.model.store import Cluster
from kai_sched.operator.decided_cycle import DecidedCycle
from kai_sched.operator.reporting.first_starts import FirstStarts
from kai_sched.operator.reporting.observations import Found, observe_all
from kai_sched.plan import waits
from kai_sched.plan.effects import Bind, Evict, Pipeline, Plan, Ref, Write
from kai_sched.plan.reasons import some_of
from kai_sched.plan.receipts import rule
from kai_sched.plan.result import CycleResult
from kai_sched.reconcile import events
from kai_sched.reconcile.eviction_notices import plan_writes, victim_writes
from kai_sched.reconcile.status.reconciler import StatusReconciler
from kai_sched.telemetry.metrics import Metrics
from kai_sched.telemetry.unexpected import FAULTS

PART = "status"  # of the process, where faults are counted
AGAIN = Backoff(1.0, 60.0)  # after a computation of statuses that failed: an idle cluster has no cycle that asks anew
OTHERS = "..."  # in place of the node pools that are not named; no label can have that value

log = structlog.get_logger("cycle")


@dataclass(frozen=True, slots=True)
class Bound:
    """A bind that the API server has accepted.

    Attributes
    ----------
    seconds
        How long the request took.
    done_ns, created_ns
        When it was done, and when the pod was created (None for a pod that is gone already).
    group, queue
        The group of the pod and its queue.
    unlabelled
        Whether the pod is in the default queue because no queue is named.
    pool
        The node pool; "" for the default one.
    """

    bind: Bind
    seconds: float
    done_ns: int
    created_ns: int | None
    group: str
    queue: str
    unlabelled: bool
    pool: str = ""


@dataclass(slots=True)
class Batch:
    """What has happened since the last batch.

    ``statuses`` is the last cycle if statuses are due, of which ``most`` writes are computed at most.
    """

    found: Found = field(default_factory=dict)
    cycles: list[DecidedCycle] = field(default_factory=list)
    bound: list[Bound] = field(default_factory=list)
    planned: list[tuple[Plan, Cluster, int]] = field(default_factory=list)
    evicted: list[tuple[Evict, Plan, Cluster]] = field(default_factory=list)
    statuses: DecidedCycle | None = None
    most: int = 0
    now_ns: int = 0
    steady_ns: int = 0


class StatusComputer:
    """For one thread."""

    def __init__(self, config: Config, metrics: Metrics) -> None:
        self._config = config
        self._reconciler = StatusReconciler(config)
        self._metrics = metrics
        self._starts = FirstStarts(metrics.observe_first_start)
        self._pipelined: dict[str, str] = {}  # the nodes that pods wait for, by uid of the pod
        self._failures = 0  # of the computation of statuses, in a row
        self._unserved: set[str] = set()  # node pools that no shard has, of several, as they were told last

    def compute(self, batch: Batch) -> tuple[list[Write], float | None]:
        """Return what is to be written, and after how many seconds statuses are due again (None: not by time)."""
        writes: list[Write] = []
        steps: list[tuple[str, Callable[[], Iterable[Write]]]] = [
            ("cycles", lambda: self._cycles(batch.cycles)),
            ("binds", lambda: self._bound(batch.bound)),
            ("plans", lambda: self._planned(batch.planned)),
            ("evictions", lambda: self._evicted(batch.evicted)),
        ]
        for what, step in steps:
            try:
                writes += step()
            except Exception as error:
                FAULTS.note(PART, what, error)
        observe_all(batch.found, self._reconciler)
        if batch.statuses is None:
            return writes, None
        try:
            found, again_s = self._statuses(batch, batch.statuses)
        except Exception as error:
            self._reconciler.mark_all()
            FAULTS.note(PART, "all of them", error)
            self._failures += 1
            return writes, AGAIN.wait_s(self._failures)
        self._failures = 0
        return writes + found, again_s

    def _statuses(self, batch: Batch, decided: DecidedCycle) -> tuple[list[Write], float | None]:
        self._metrics.show_pending(decided.cluster, decided.result)
        self._metrics.forget_groups(decided.cluster)
        self._starts.forget(decided.cluster)
        self._reconciler.follow(decided.config)
        if decided.config.node_pools:
            self._log_unserved(unserved_pools(decided.cluster, decided.config))
        found = self._reconciler.writes(decided.cluster, decided.result, batch.now_ns, batch.steady_ns, batch.most)
        faults, self._reconciler.faults = self._reconciler.faults, []
        for fault in faults:
            FAULTS.note(PART, f"{fault.kind} {fault.key}", fault.error)
        return found

    def _log_unserved(self, found: Mapping[str, UnservedPool]) -> None:
        """Log the first node pools that no shard has, each once until there is one, and that there are others."""
        named, others = pool_texts(found)
        if others:
            named[OTHERS] = others
        for pool in [each for each in named if each not in self._unserved]:
            log.warning("pool.not_served", pool=pool, problem=named[pool])
        self._unserved = set(named)

    def _cycles(self, cycles: Sequence[DecidedCycle]) -> Iterable[Write]:
        writes: list[Write] = []
        for decided in cycles:
            result = decided.result
            self._metrics.count_cycle(decided.cluster, result)
            self._starts.decided(decided.cluster, result)
            places = {effect.uid: effect for effect in result.effects if isinstance(effect, Pipeline)}
            news = [effect for uid, effect in places.items() if self._pipelined.get(uid) != effect.node]
            writes += _pipelined(news, decided)
            self._pipelined = {uid: effect.node for uid, effect in places.items()}
        return writes

    def _bound(self, found: Sequence[Bound]) -> Iterable[Write]:
        writes: list[Write] = []
        groups: dict[str, list[Bound]] = {}
        for each in found:
            groups.setdefault(each.group, []).append(each)
            if each.created_ns is not None:
                self._metrics.observe_binding((each.done_ns - each.created_ns) / 1e9 - each.seconds, each.seconds)
            self._starts.bound(each.bind.uid, each.done_ns)
            ref = pod_ref(each.bind)
            if each.unlabelled:
                writes.append(events.queue_label_missing(ref, self._config.queue_label))
            writes.append(events.scheduled(ref, each.bind.node, each.pool))
        for group, members in groups.items():
            nodes = some_of(list(dict.fromkeys(each.bind.node for each in members)))
            log.info("group.bound", group=group, queue=members[0].queue, pods=len(members), nodes=nodes)
        return writes

    def _planned(self, planned: Sequence[tuple[Plan, Cluster, int]]) -> Iterable[Write]:
        return [write for plan, cluster, at_ns in planned for write in plan_writes(plan, cluster, at_ns)]

    def _evicted(self, evicted: Sequence[tuple[Evict, Plan, Cluster]]) -> Iterable[Write]:
        writes: list[Write] = []
        groups: dict[tuple[str, str, str], list[Evict]] = {}
        for eviction, plan, cluster in evicted:
            writes += victim_writes(eviction, plan, cluster)
            self._metrics.observe_eviction(eviction, cluster)
            groups.setdefault((eviction.group, eviction.action, eviction.cause), []).append(eviction)
        for (group, action, cause), victims in groups.items():
            nodes = some_of(list(dict.fromkeys(each.node for each in victims)))
            facts = {"for": cause} if cause else {}
            why = rule(victims[0])
            log.info("group.evicted", group=group, pods=len(victims), action=action, why=why, nodes=nodes, **facts)
        return writes


def _pipelined(news: Sequence[Pipeline], decided: DecidedCycle) -> Iterator[Write]:
    """The events of pods that wait for another node than before."""
    result, pods = decided.result, decided.cluster.pods
    effects = result.effects if news else ()
    groups, moved = waits.by_group(effects, pods), waits.moves(effects)
    for each in news:
        pod = pods[each.pod]
        mates = groups[pod.group_key if pod.group else pod.key]
        yield events.pipelined(pod_ref(each), waits.of_pod(each, mates, result.leaving, moved))


def kinds_of(result: CycleResult) -> tuple[int, int, int]:
    """Return how many binds, pipelined pods and evictions the cycle decided."""
    kinds = Counter(map(type, result.effects))
    return kinds[Bind], kinds[Pipeline], kinds[Evict]


def pod_ref(effect: Bind | Pipeline) -> Ref:
    """Return the reference of the pod of the effect."""
    namespace, name = split_key(effect.pod)
    return Ref("v1", "Pod", namespace, name, effect.uid)
