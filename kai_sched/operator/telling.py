"""What is told of a cycle: statuses, conditions and events to the cluster, numbers to Prometheus, a line to the log.

Nothing here decides anything, and all of it can be late.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable

import structlog

from kai_sched.cluster.binding import BindFailure
from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.writing import Writer
from kai_sched.model.config import Config
from kai_sched.model.objects import Pod, PodGroup
from kai_sched.model.read import POD
from kai_sched.model.store import Cluster, Store
from kai_sched.operator.feed import Feed
from kai_sched.operator.loop import Clock, Decided
from kai_sched.plan.effects import Bind, Evict, Pipeline, Plan, Ref, Write
from kai_sched.reconcile import events
from kai_sched.reconcile.evictions import plan_writes, victim_writes
from kai_sched.reconcile.keeper import StatusKeeper
from kai_sched.telemetry.metrics import CycleTimes, Metrics

log = structlog.get_logger("cycle")

STATUS_PERIOD_S = 1.0
BUSY_LOOK_S = 0.2
BUSY_PERIOD_S = 5.0  # while binds wait: they come first


class Telling:
    """For one event loop. ``busy`` says that binds wait, ``may_write`` whether we lead."""

    def __init__(
        self,
        api: Api,
        store: Store,
        feed: Feed,
        keeper: StatusKeeper,
        metrics: Metrics,
        config: Config,
        busy: Callable[[], bool],
        may_write: Callable[[], bool],
        clock: Clock,
        chance: random.Random,
    ) -> None:
        self._store = store
        self._feed = feed
        self._keeper = keeper
        self._metrics = metrics
        self._config = config
        self._busy = busy
        self._may_write = may_write
        self._pipelined: dict[str, str] = {}  # pods that wait for room, by uid, and the node that they wait for
        self._bound: list[tuple[Bind, float, int]] = []  # not told of yet: seconds that it took, when it was done
        self._clock = clock
        self._decided: Decided | None = None
        self._written_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0  # of the timer, monotonic
        now = lambda: clock.wall_ns() / 1e9  # noqa: E731 - the writer wants seconds
        self.writer = Writer(api, config.scheduler_name, busy, now, self._version, self._lost, chance)

    def stop(self) -> None:
        """Tell of the binds that are done, and write no more statuses."""
        self._decided = None
        if self._timer is not None:
            self._timer.cancel()
        self._write()

    def acted(self, decided: Decided) -> None:
        """A cycle was carried out: its statuses are written soon, once a second at the most."""
        self._decided = decided
        result = decided.result
        kinds = Counter(type(effect) for effect in result.effects)
        log.info(
            "cycle.done",
            ms=round(decided.seconds * 1000, 1),
            solver_ms=round(result.solver_s * 1000, 2),
            pods=len(decided.cluster.pods),
            nodes=len(decided.cluster.nodes),
            bound=kinds[Bind],
            pipelined=kinds[Pipeline],
            evicted=kinds[Evict],
        )
        close_s = decided.seconds - result.open_s - sum(result.actions_s.values())
        times = CycleTimes(decided.seconds, result.open_s, result.actions_s, close_s)
        self._metrics.observe_cycle(decided.cluster, result, times)
        waits = {effect.uid: effect for effect in result.effects if isinstance(effect, Pipeline)}
        news = [effect for uid, effect in waits.items() if self._pipelined.get(uid) != effect.node]
        self.writer.submit(events.pipelined(pod_ref(effect), effect.node) for effect in news)
        self._pipelined = {uid: effect.node for uid, effect in waits.items()}
        self._plan(self._written_at + STATUS_PERIOD_S - self._clock.monotonic())

    def planned(self, plan: Plan, cluster: Cluster) -> None:
        """These evictions are about to be sent, as decided on this view."""
        self.writer.submit(plan_writes(plan, cluster, self._clock.wall_ns()))

    def evicted(self, eviction: Evict, plan: Plan, cluster: Cluster) -> None:
        """The pod is on its way out."""
        self.writer.submit(victim_writes(eviction, plan, cluster))
        self._metrics.observe_eviction(eviction, cluster)

    def bound(self, bind: Bind, seconds: float) -> None:
        """The API server has taken the bind, which took so long."""
        self._bound.append((bind, seconds, self._clock.wall_ns()))
        self._plan(STATUS_PERIOD_S if self._busy() else 0.0)

    def _tell_bound(self, bind: Bind, seconds: float, done_ns: int) -> None:
        pod, ref = self._store.get(Pod, bind.pod), pod_ref(bind)
        if isinstance(pod, Pod):
            self._metrics.observe_binding((done_ns - pod.created_ns) / 1e9 - seconds, seconds)
            group = self._store.get(PodGroup, f"{pod.namespace}/{pod.group}")
            unlabelled = self._keeper.owners.is_unlabelled(pod, group if isinstance(group, PodGroup) else None)
            if unlabelled and pod.scheduler == self._config.scheduler_name:
                self.writer.submit([events.queue_label_missing(ref, self._config.queue_label)])
        self.writer.submit((events.scheduled(ref, bind.node, self._config.node_pool), events.bound(ref, bind.node)))

    def failed(self, bind: Bind, failure: BindFailure, again: float | None) -> None:
        """The bind was given up; ``again`` is when its group is tried again, None for as soon as there is news."""
        log.warning("bind.failed", pod=bind.pod, node=bind.node, reason=failure.reason, message=failure.message)
        if again is not None and failure.status != 404:
            wait_s = max(0.0, again - self._clock.monotonic())
            text = f"{failure.message}; tried again in {wait_s:.0f} s"
            self.writer.submit(events.failed_binding(pod_ref(bind), bind.node, text))

    def _plan(self, delay_s: float) -> None:
        """Write in so many seconds, or when it was planned already if that is earlier."""
        due = self._clock.monotonic() + max(0.0, delay_s)
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = asyncio.get_running_loop().call_later(max(0.0, delay_s), self._write)

    def _write(self) -> None:
        self._timer = None
        if self._busy() and self._clock.monotonic() - self._written_at < BUSY_PERIOD_S:
            self._plan(BUSY_LOOK_S)
            return
        bound, self._bound = self._bound, []
        for each in bound:
            self._tell_bound(*each)
        if self._decided is None or not self._may_write():
            return
        self._written_at = self._clock.monotonic()
        writes, again_s = self._keeper.writes(
            self._decided.cluster, self._decided.result, self._clock.wall_ns(), round(self._written_at * 1e9)
        )
        self.writer.submit(writes)
        if again_s is not None:
            self._plan(max(again_s, STATUS_PERIOD_S))

    def _version(self, ref: Ref) -> str:
        """In which version the pod waits for a node; empty where it does not."""
        pod = self._store.get(Pod, ref.key)
        if not isinstance(pod, Pod) or pod.uid != ref.uid or pod.node or pod.deleted_ns:
            return ""
        return str(self._feed.known(POD).get(ref.key, ""))

    def _lost(self, write: Write, failure: ApiFailure | None) -> None:
        if failure is None or failure.status not in (404, 409):
            what = type(write).__name__
            log.warning("write.failed", what=what, object=write.ref.key, problem=str(failure or "too many wait"))


def pod_ref(effect: Bind | Pipeline) -> Ref:
    """The pod that gets a place."""
    namespace, name = effect.pod.split("/", 1)
    return Ref("v1", "Pod", namespace, name, effect.uid)
