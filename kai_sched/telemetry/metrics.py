"""The Prometheus metrics: names, labels, buckets and how each is computed (API 9.1, 9.2, and our own).

A metric appears once something sets it. The values of queues are those of the last cycle, computed when somebody reads
them, so a queue that is gone leaves no series behind. docs/metrics.md lists all metrics.
"""

from __future__ import annotations

import time
from collections import Counter as Counts
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import prometheus_client
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kai_sched.model.keys import GroupKey
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Bind, Evict
from kai_sched.plan.receipts import reason_code
from kai_sched.plan.result import CycleResult
from kai_sched.telemetry.memory_limit import memory_limit_bytes
from kai_sched.telemetry.queue_metrics import Labels, QueueMetrics
from kai_sched.telemetry.search_metrics import SearchMetrics
from kai_sched.telemetry.series import OTHERS, EvictedPods, FirstStartWaits, Series
from kai_sched.telemetry.unexpected import FAULTS, FaultLog

BUCKETS_MS = tuple(5.0 * 2**k for k in range(10))
MILLI = 1000.0  # a second in milliseconds
BIND_REASONS_MAX = 50  # webhooks of others may refuse a bind for any reason that they like


@dataclass(frozen=True, slots=True)
class CycleTimes:
    """How many seconds a cycle took: all of it, up to the first action, each action by its name, and after them."""

    whole_s: float
    open_s: float
    actions_s: Mapping[str, float]
    close_s: float


class Metrics:
    """All metrics of one process, in a registry of its own. May be used by several threads.

    ``clock`` gives seconds that never go back, ``version`` is that of kai-sched.
    """

    def __init__(
        self,
        namespace: str = "kai",
        clock: Callable[[], float] = time.monotonic,
        faults: FaultLog = FAULTS,
        version: str = "",
    ) -> None:
        # The contract does not have the client's series about when a metric was created.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._prefix = f"{namespace}_" if namespace else ""
        self._registry = CollectorRegistry()
        self._whole = self._gauge("e2e_scheduling_latency_milliseconds", "The last cycle, all of it")
        self._open = self._gauge("open_session_latency_milliseconds", "The last cycle, up to its first action")
        self._close = self._gauge("close_session_latency_milliseconds", "The last cycle, after its last action")
        self._action = self._gauge("action_scheduling_latency_milliseconds", "Each action of the last cycle", "action")
        self._created_to_sent = self._histogram(
            "task_scheduling_latency_milliseconds", "From a pod's creation until its binding is sent"
        )
        self._sent_to_done = self._histogram("task_bind_latency_milliseconds", "How long the API server takes to bind")
        self._usage_query = self._histogram("usage_query_latency_milliseconds", "How long a query for past usage takes")
        self._scheduled = Series(
            f"{self._prefix}podgroups_scheduled_by_action", "Pod groups that an action found places for", ("action",)
        )
        self._searches = SearchMetrics(self._prefix)
        self._leader = self._gauge("leader", "1 while this process holds the lease, else 0")
        self._ready = self._gauge("ready", "1 for each check of /readyz/scheduling that finds nothing, else 0", "check")
        self._failures = Counter(self._prefix + "cycle_failures", "Cycles that failed", registry=self._registry)
        self._running = self._gauge(
            "cycle_running_seconds", "For how long the cycle under way has been running, else 0"
        )
        self._success = self._gauge(
            "last_successful_cycle_timestamp_seconds", "When the last cycle went well, in seconds since the epoch"
        )
        self._quarantined = self._gauge(
            "quarantined_objects", "Objects that cycles leave out because cycles fail with them", "kind"
        )
        self._quarantined_kinds: set[str] = set()
        self._preemptions = Series(f"{self._prefix}total_preemption_attempts", "Pod groups for which preempt made room")
        self._preemptions.add((), 0)
        self._evicted = EvictedPods(f"{self._prefix}pod_group_evicted_pods_total", clock)
        self._evictions = self._counter("evictions", "Pods that were evicted", "action", "reason")
        self._bind_failures = self._counter("bind_failures", "Binds that were given up", "reason")
        self._bind_reasons: set[str] = set()
        self._first_starts = FirstStartWaits(f"{self._prefix}podgroup_first_start_wait_seconds", self._registry)
        self._queues = QueueMetrics(self._prefix, time.time)
        self._registry.register(self._queues)
        self._show_process(version)
        self._depths = Depths(self._prefix)
        self._registry.register(self._depths)
        self._registry.register(_Faults(self._prefix, faults))
        self._lost_writes = self._counter("lost_writes", "Statuses and events that were not written", "why")
        self._api_errors = self._counter(
            "api_request_errors",
            "Requests to the API server that failed; code 0 is no answer",
            "verb",
            "resource",
            "code",
        )
        self._restarts = self._counter("watch_restarts", "Watches that were started again", "resource")

    def _show_process(self, version: str) -> None:
        """Show the process itself: its version, its memory, and the limit on that."""
        self._gauge("build_info", "1, with the version of kai-sched", "version").labels(version).set(1)
        limit = self._gauge("memory_limit_bytes", "Memory that the container may have; infinite without a limit")
        limit.set_function(memory_limit_bytes)
        self._recording_failures = self._counter("recording_failures", "Files of recordings that were not written")
        self._certificate_end = self._gauge(
            "webhook_certificate_end_timestamp_seconds",
            "When the certificate of the webhooks ends, in seconds since the epoch; 0 while none is served",
        )
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def observe_cycle(self, cluster: Cluster, result: CycleResult, times: CycleTimes, labels: Labels = ()) -> None:
        """A cycle has ended; metrics of queues have these labels of theirs. The cost does not grow with the cluster."""
        self._whole.set(times.whole_s * MILLI)
        self._open.set(times.open_s * MILLI)
        self._close.set(times.close_s * MILLI)
        for action, action_s in times.actions_s.items():
            self._action.labels(action).set(action_s * MILLI)
        self._queues.show(cluster.queues, result.queues, labels)

    def observe_failure(self) -> None:
        """A cycle has failed."""
        self._failures.inc()

    def watch_cycle(self, running_s: Callable[[], float]) -> None:
        """Ask for how long a cycle has been running when somebody reads the metrics."""
        self._running.set_function(running_s)

    def observe_success(self, now_s: float) -> None:
        """A cycle succeeded at that time (seconds since the epoch)."""
        self._success.set(now_s)

    def observe_left_out(self, counts: Mapping[str, int]) -> None:
        """A cycle was decided without this many objects of each kind."""
        self._quarantined_kinds |= counts.keys()
        for kind in self._quarantined_kinds:
            self._quarantined.labels(kind).set(counts.get(kind, 0))

    def count_cycle(self, cluster: Cluster, result: CycleResult) -> None:
        """Count what a cycle has decided."""
        self._scheduled.add(("allocate",), len(_placed_groups(cluster, result)))
        for action, count in _helped_groups(result).items():
            self._scheduled.add((action,), count)
            if action == "preempt":
                self._preemptions.add((), count)
        self._searches.count(result)

    def observe_usage_query(self, lasted_s: float) -> None:
        """A database of past usage has answered."""
        self._usage_query.observe(lasted_s * MILLI)

    def show_pending(self, cluster: Cluster, result: CycleResult) -> None:
        """Show the pending pods and groups of this cycle, by queue and reason, and how long groups have waited."""
        self._queues.show_pending(cluster, result)
        self._first_starts.forget(cluster.queues)

    def observe_first_start(self, queue: str, wait_s: float) -> None:
        """A group runs its minimum for the first time, so many seconds after it was created."""
        self._first_starts.observe(queue, wait_s)

    def count_bind_failure(self, reason: str) -> None:
        """A bind was given up."""
        if len(self._bind_reasons) < BIND_REASONS_MAX:
            self._bind_reasons.add(reason)
        self._bind_failures.labels(reason if reason in self._bind_reasons else OTHERS).inc()

    def count_recording_failure(self) -> None:
        """The inputs of cycles could not be written to a file."""
        self._recording_failures.inc()

    def observe_certificate(self, end_s: float) -> None:
        """The webhooks are served with a certificate that ends then, in seconds since the epoch."""
        self._certificate_end.set(end_s)

    def observe_binding(self, created_to_sent_s: float, sent_to_done_s: float) -> None:
        """A pod is bound. If clocks differ the first time may be negative; it counts as 0 then."""
        self._created_to_sent.observe(max(created_to_sent_s, 0.0) * MILLI)
        self._sent_to_done.observe(sent_to_done_s * MILLI)

    def observe_eviction(self, eviction: Evict, cluster: Cluster) -> None:
        """A pod has been evicted, as decided on this view."""
        self._evicted.add(eviction, cluster)
        self._evictions.labels(eviction.action, reason_code(eviction)).inc()

    def forget_groups(self, cluster: Cluster) -> None:
        """Drop the series of groups that have been gone for a while."""
        self._evicted.forget(cluster)

    def count_failure(self, verb: str, resource: str, status: int) -> None:
        """A request to the API server failed; ``status`` is 0 without an answer."""
        self._api_errors.labels(verb, resource, str(status)).inc()

    def count_restart(self, resource: str) -> None:
        """A watch was started again."""
        self._restarts.labels(resource).inc()

    def count_lost_write(self, why: str) -> None:
        """A status or event was not written. ``why``: "queue full" or "refused"."""
        self._lost_writes.labels(why).inc()

    def watch(self, name: str, depth: Callable[[], int]) -> None:
        """Show how much of something waits; ``depth`` is called from another thread for each scrape."""
        self._depths.ask[name] = depth

    def add(self, collector: Collector) -> None:
        """Show the metrics of this collector, too. It has to use ``prefix``."""
        self._registry.register(collector)

    @property
    def prefix(self) -> str:
        """The prefix of all names."""
        return self._prefix

    def observe_readiness(self, leader: bool, checks: Mapping[str, bool]) -> None:
        """Show whether this process leads, and the result of each check by its name; earlier checks are dropped."""
        self._leader.set(leader)
        self._ready.clear()
        for name, well in checks.items():
            self._ready.labels(name).set(well)

    def render(self) -> bytes:
        """Return all metrics in the text format 0.0.4 of Prometheus."""
        own = "".join(series.render() for series in self._series())
        return prometheus_client.generate_latest(self._registry) + own.encode()

    def _series(self) -> tuple[Series, ...]:
        return self._scheduled, self._preemptions, self._evicted.series, *self._searches.series

    def _gauge(self, name: str, documentation: str, *labels: str) -> Gauge:
        return Gauge(self._prefix + name, documentation, labels, registry=self._registry)

    def _counter(self, name: str, documentation: str, *labels: str) -> Counter:
        return Counter(self._prefix + name, documentation, labels, registry=self._registry)

    def _histogram(self, name: str, documentation: str) -> Histogram:
        return Histogram(self._prefix + name, documentation, buckets=BUCKETS_MS, registry=self._registry)


class Depths(Collector):
    """How much waits in this process, by what it is."""

    def __init__(self, prefix: str) -> None:
        self._name = f"{prefix}waiting"
        self.ask: dict[str, Callable[[], int]] = {}

    def collect(self) -> Iterator[Metric]:
        """The gauge, and the same by the name that controllers of Kubernetes have for it."""
        text = "What waits in this process, by what it is"
        families = [
            GaugeMetricFamily(self._name, text, labels=("what",)),
            GaugeMetricFamily("workqueue_depth", text, labels=("name",)),
        ]
        for name, depth in list(self.ask.items()):
            waiting = depth()
            for family in families:
                family.add_metric((name,), waiting)
        yield from families


class _Faults(Collector):
    """How many unexpected exceptions each part met."""

    def __init__(self, prefix: str, faults: FaultLog) -> None:
        self._name = f"{prefix}faults"
        self._faults = faults

    def collect(self) -> Iterator[Metric]:
        """One counter."""
        family = CounterMetricFamily(self._name, "Unexpected exceptions; each costs one object", labels=("part",))
        for part, count in sorted(dict(self._faults.counts).items()):
            family.add_metric((part,), count)
        yield family


def _placed_groups(cluster: Cluster, result: CycleResult) -> set[GroupKey]:
    """The groups of the pods that are to be bound; a pod without one is a group of its own."""
    bound = [effect.pod for effect in result.effects if isinstance(effect, Bind)]
    return {cluster.pods[key].group_key for key in bound}


def _helped_groups(result: CycleResult) -> Mapping[str, int]:
    """For how many groups each action made room."""
    found = {(effect.action, effect.cause) for effect in result.effects if isinstance(effect, Evict) and effect.cause}
    return Counts(action for action, _ in found)
