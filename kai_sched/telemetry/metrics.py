"""The Prometheus metrics: names, labels, buckets and how each is computed (API 9.1, 9.2, and our own).

A metric appears once something sets it. The values of queues are those of the last cycle, computed when somebody reads
them, so a queue that is gone leaves no series behind. docs/metrics.md lists all metrics.
"""

from __future__ import annotations

import time
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from kai_sched.model.objects import Queue
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Bind, Evict
from kai_sched.plan.result import CycleResult, QueueState
from kai_sched.telemetry.series import EvictedPods, Series
from kai_sched.telemetry.unexpected import FAULTS, FaultLog

BUCKETS_MS = tuple(5.0 * 2**k for k in range(10))
MILLI = 1000.0  # a second in milliseconds, a core in millicores
GIGABYTE = 1e9
PLACES = 4  # decimals of what is allocated

_WAITING = ("Pending", "Gated", "Pipelined")
_QUEUE_LABELS = ("queue_name", "queue_metadata_name", "queue_display_name")


@dataclass(frozen=True, slots=True)
class CycleTimes:
    """How many seconds a cycle took: all of it, up to the first action, each action by its name, and after them."""

    whole_s: float
    open_s: float
    actions_s: Mapping[str, float]
    close_s: float


class Metrics:
    """All metrics of one process, in a registry of its own. May be used by several threads.

    ``clock`` gives seconds that never go back.
    """

    def __init__(
        self, namespace: str = "kai", clock: Callable[[], float] = time.monotonic, faults: FaultLog = FAULTS
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
        self._scheduled = Series(
            f"{self._prefix}podgroups_scheduled_by_action", "Pod groups that an action found places for", ("action",)
        )
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
        self._queues = _Queues(self._prefix)
        self._registry.register(self._queues)
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
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def observe_cycle(self, cluster: Cluster, result: CycleResult, times: CycleTimes) -> None:
        """A cycle has ended. The cost does not grow with the cluster."""
        self._whole.set(times.whole_s * MILLI)
        self._open.set(times.open_s * MILLI)
        self._close.set(times.close_s * MILLI)
        for action, action_s in times.actions_s.items():
            self._action.labels(action).set(action_s * MILLI)
        self._queues.show(cluster.queues, result.queues)

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

    def show_pending(self, result: CycleResult) -> None:
        """Show the pending pods and groups of this cycle, by queue and reason."""
        self._queues.show_pending(result)

    def observe_binding(self, created_to_sent_s: float, sent_to_done_s: float) -> None:
        """A pod is bound. If clocks differ the first time may be negative; it counts as 0 then."""
        self._created_to_sent.observe(max(created_to_sent_s, 0.0) * MILLI)
        self._sent_to_done.observe(sent_to_done_s * MILLI)

    def observe_eviction(self, eviction: Evict, cluster: Cluster) -> None:
        """A pod has been evicted, as decided on this view."""
        self._evicted.add(eviction, cluster)

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
        own = "".join(series.render() for series in (self._scheduled, self._preemptions, self._evicted.series))
        return prometheus_client.generate_latest(self._registry) + own.encode()

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
        """One gauge."""
        family = GaugeMetricFamily(self._name, "What waits in this process, by what it is", labels=("what",))
        for name, depth in list(self.ask.items()):
            family.add_metric((name,), depth())
        yield family


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


class _Queues(Collector):
    """The queues as of the last cycle."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._shown: tuple[Mapping[str, Queue], tuple[QueueState, ...]] = ({}, ())
        self._pending: Mapping[tuple[str, str], tuple[int, int]] = {}

    def show(self, queues: Mapping[str, Queue], states: tuple[QueueState, ...]) -> None:
        self._shown = (queues, states)

    def show_pending(self, result: CycleResult) -> None:
        """Show pods and groups by queue and reason, in the order of names."""
        found: dict[tuple[str, str], tuple[int, int]] = {}
        for state in result.groups.values():
            pods = sum(map(state.counts.get, _WAITING, (0, 0, 0)))
            if pods:
                key = state.queue, state.reason.code if state.reason else "Pipelined"
                before = found.get(key, (0, 0))
                found[key] = before[0] + pods, before[1] + 1
        self._pending = dict(sorted(found.items()))

    def collect(self) -> Iterator[Metric]:
        yield from self._collect_pending()
        queues, states = self._shown
        every = queues.values()
        yield self._family("queue_info", "1 for each queue", ((q, 1.0) for q in every))
        yield self._family("queue_deserved_gpus", "GPU quota, -1 for unlimited", ((q, q.gpu.quota) for q in every))
        yield self._family(
            "queue_quota_cpu_cores", "CPU quota, -1 for unlimited", ((q, _scaled(q.cpu.quota, MILLI)) for q in every)
        )
        yield self._family(
            "queue_quota_memory_bytes", "Memory quota, -1 for unlimited", ((q, q.memory.quota) for q in every)
        )
        # A queue that the last cycle left out, as its parent is missing, has a quota, but no share.
        known = [(queues[state.name], state) for state in states if state.name in queues]
        asked = ((queue, round(state.requested[2], PLACES)) for queue, state in known)
        yield self._family("queue_requested_gpus", "GPUs in use and asked for", asked)
        for name, documentation, resource, unit in (
            ("queue_allocated_cpu_cores", "CPU in use", 0, MILLI),
            ("queue_allocated_memory_bytes", "Memory in use", 1, 1.0),
            ("queue_allocated_gpus", "GPUs in use", 2, 1.0),
        ):
            values = ((queue, round(state.allocated[resource] / unit, PLACES)) for queue, state in known)
            yield self._family(name, documentation, values)
        for name, documentation, resource, unit in (
            ("queue_fair_share_cpu_cores", "The queue's share of the CPU", 0, MILLI),
            ("queue_fair_share_memory_gb", "The queue's share of the memory, in units of 10^9 bytes", 1, GIGABYTE),
            ("queue_fair_share_gpu", "The queue's share of the GPUs", 2, 1.0),
        ):
            values = ((queue, state.fair_share[resource] / unit) for queue, state in known)
            yield self._family(name, documentation, values, shown=True)

    def _collect_pending(self) -> Iterator[Metric]:
        labels = ("queue", "reason")
        pods = GaugeMetricFamily(
            f"{self._prefix}pending_pods", "Pods that wait, by the reason of their group", labels=labels
        )
        groups = GaugeMetricFamily(f"{self._prefix}pending_podgroups", "Pod groups with such pods", labels=labels)
        for key, (n_pods, n_groups) in self._pending.items():
            pods.add_metric(key, n_pods)
            groups.add_metric(key, n_groups)
        yield pods
        yield groups

    def _family(
        self, name: str, documentation: str, values: Iterable[tuple[Queue, float]], shown: bool = False
    ) -> GaugeMetricFamily:
        """Return a gauge. With ``shown`` queue_name is the display name, if there is one, as the contract wants it."""
        family = GaugeMetricFamily(self._prefix + name, documentation, labels=_QUEUE_LABELS)
        for queue, value in values:
            first = queue.display_name if shown and queue.display_name else queue.name
            family.add_metric((first, queue.name, queue.display_name), value)
        return family


def _placed_groups(cluster: Cluster, result: CycleResult) -> set[GroupKey]:
    """The groups of the pods that are to be bound; a pod without one is a group of its own."""
    bound = [effect.pod for effect in result.effects if isinstance(effect, Bind)]
    return {cluster.pods[key].group_key for key in bound}


def _helped_groups(result: CycleResult) -> Mapping[str, int]:
    """For how many groups each action made room."""
    found = {(effect.action, effect.cause) for effect in result.effects if isinstance(effect, Evict) and effect.cause}
    return Counts(action for action, _ in found)


def _scaled(quota: float, unit: float) -> float:
    return quota if quota < 0 else quota / unit
