"""What Prometheus reads, under the names of the original (API contract 9.1 and 9.2), and how the process does.

A metric is here once something sets it. Queues are numbers of the last cycle: they are written down when somebody
asks, so a queue that is gone leaves no series behind.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterable, Iterator, Mapping
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
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kai_sched.api import names
from kai_sched.model.objects import Queue
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Bind, Evict
from kai_sched.plan.result import CycleResult, QueueState

BUCKETS_MS = tuple(5.0 * 2**k for k in range(10))
MILLI = 1000.0  # a second in milliseconds, a core in millicores
GIGABYTE = 1e9
PLACES = 4  # decimals of what is allocated

_QUEUE_LABELS = ("queue_name", "queue_metadata_name", "queue_display_name")


@dataclass(frozen=True, slots=True)
class CycleTimes:
    """How many seconds a cycle took: all of it, up to the first action, each action by its name, and after them."""

    whole_s: float
    open_s: float
    actions_s: Mapping[str, float]
    close_s: float


class Metrics:
    """All metrics of one process, in a registry of its own. For one thread."""

    def __init__(self, namespace: str = "kai") -> None:
        # The client's own time series of when a metric began are not in the contract.
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
        self._scheduled = _Counter(
            f"{self._prefix}podgroups_scheduled_by_action", "Pod groups that an action found places for", "action"
        )
        self._preemptions = _Counter(
            f"{self._prefix}total_preemption_attempts", "Pod groups for which preempt made room"
        )
        self._evicted = Counter(
            f"{self._prefix}pod_group_evicted_pods",
            "Pods that were evicted",
            ("podgroup", "namespace", "uid", "nodepool", "action"),
            registry=self._registry,
        )
        self._leader = self._gauge("leader", "1 while this process holds the lease, else 0")
        self._ready = self._gauge("ready", "1 for each check of /readyz/scheduling that finds nothing, else 0", "check")
        self._failures = Counter(self._prefix + "cycle_failures", "Cycles that failed", registry=self._registry)
        self._success = self._gauge(
            "last_successful_cycle_timestamp_seconds", "When the last cycle went well, in seconds since the epoch"
        )
        self._quarantined = self._gauge(
            "quarantined_objects", "Objects without which cycles are decided, as they fail with them", "kind"
        )
        self._quarantined_kinds: set[str] = set()
        self._queues = _Queues(self._prefix)
        self._registry.register(self._queues)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def observe_cycle(self, cluster: Cluster, result: CycleResult, times: CycleTimes) -> None:
        """A cycle has ended, all that it wants written included."""
        self._whole.set(times.whole_s * MILLI)
        self._open.set(times.open_s * MILLI)
        self._close.set(times.close_s * MILLI)
        for action, action_s in times.actions_s.items():
            self._action.labels(action).set(action_s * MILLI)
        self._scheduled.add("allocate", len(_placed_groups(cluster, result)))
        for action, count in _helped_groups(result).items():
            self._scheduled.add(action, count)
            if action == "preempt":
                self._preemptions.add("", count)
        self._queues.show(cluster.queues, result.queues)

    def observe_failure(self) -> None:
        """A cycle has failed."""
        self._failures.inc()

    def observe_success(self, now_s: float) -> None:
        """A cycle went well at that time (seconds since the epoch)."""
        self._success.set(now_s)

    def observe_left_out(self, counts: Mapping[str, int]) -> None:
        """A cycle was decided without so many objects of these kinds."""
        self._quarantined_kinds |= counts.keys()
        for kind in self._quarantined_kinds:
            self._quarantined.labels(kind).set(counts.get(kind, 0))

    def observe_binding(self, created_to_sent_s: float, sent_to_done_s: float) -> None:
        """A pod is bound. The first time may be below zero where clocks differ, and is none then."""
        self._created_to_sent.observe(max(created_to_sent_s, 0.0) * MILLI)
        self._sent_to_done.observe(sent_to_done_s * MILLI)

    def observe_eviction(self, eviction: Evict, cluster: Cluster) -> None:
        """A pod has been evicted, as decided on this view."""
        group = cluster.pod_groups.get(eviction.group)
        space, _, name = eviction.group.removeprefix(names.BARE_MARK).partition("/")
        pool = group.labels.get(names.NODE_POOL_LABEL, "") if group else ""
        uid = group.uid if group else ""
        self._evicted.labels(name, space, uid, pool or names.DEFAULT_POOL, eviction.action).inc()

    def observe_readiness(self, leader: bool, checks: Mapping[str, bool]) -> None:
        """Whether this process leads, and whether each check by its name finds all well. Others are dropped."""
        self._leader.set(leader)
        self._ready.clear()
        for name, well in checks.items():
            self._ready.labels(name).set(well)

    def render(self) -> bytes:
        """All of it in Prometheus' text format 0.0.4."""
        return prometheus_client.generate_latest(self._registry) + self._scheduled.render() + self._preemptions.render()

    def _gauge(self, name: str, documentation: str, *labels: str) -> Gauge:
        return Gauge(self._prefix + name, documentation, labels, registry=self._registry)

    def _histogram(self, name: str, documentation: str) -> Histogram:
        return Histogram(self._prefix + name, documentation, buckets=BUCKETS_MS, registry=self._registry)


class _Counter:
    """A counter that goes by its bare name: the client would append "_total", and dashboards would not find it."""

    def __init__(self, name: str, documentation: str, label: str = "") -> None:
        self._head = f"# HELP {name} {documentation}\n# TYPE {name} counter\n"
        self._name = name
        self._label = label
        self._counts: dict[str, int] = {} if label else {"": 0}

    def add(self, value: str, count: int) -> None:
        self._counts[value] = self._counts.get(value, 0) + count

    def render(self) -> bytes:
        """``value`` is an action's name, in which nothing needs to be escaped; empty where there is no label."""
        labels = {value: f'{{{self._label}="{value}"}}' if self._label else "" for value in self._counts}
        return (
            self._head + "".join(f"{self._name}{labels[value]} {n}\n" for value, n in self._counts.items())
        ).encode()


class _Queues(Collector):
    """The queues as of the last cycle."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._queues: Mapping[str, Queue] = {}
        self._states: tuple[QueueState, ...] = ()

    def show(self, queues: Mapping[str, Queue], states: tuple[QueueState, ...]) -> None:
        self._queues = queues
        self._states = states

    def collect(self) -> Iterator[Metric]:
        every = self._queues.values()
        yield self._family("queue_info", "1 for each queue", ((q, 1.0) for q in every))
        yield self._family("queue_deserved_gpus", "GPU quota, -1 for unlimited", ((q, q.gpu.quota) for q in every))
        yield self._family(
            "queue_quota_cpu_cores", "CPU quota, -1 for unlimited", ((q, _scaled(q.cpu.quota, MILLI)) for q in every)
        )
        yield self._family(
            "queue_quota_memory_bytes", "Memory quota, -1 for unlimited", ((q, q.memory.quota) for q in every)
        )
        # A queue that the last cycle left out, as its parent is missing, has a quota, but no share.
        known = [(self._queues[state.name], state) for state in self._states if state.name in self._queues]
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

    def _family(
        self, name: str, documentation: str, values: Iterable[tuple[Queue, float]], shown: bool = False
    ) -> GaugeMetricFamily:
        """With ``shown`` queue_name is the name for people, where there is one: so the two halves of the contract."""
        family = GaugeMetricFamily(self._prefix + name, documentation, labels=_QUEUE_LABELS)
        for queue, value in values:
            first = queue.display_name if shown and queue.display_name else queue.name
            family.add_metric((first, queue.name, queue.display_name), value)
        return family


def _placed_groups(cluster: Cluster, result: CycleResult) -> set[str]:
    """The groups of the pods that are to be bound; a pod without one is a group of its own."""
    bound = [effect.pod for effect in result.effects if isinstance(effect, Bind)]
    pods = ((key, cluster.pods[key]) for key in bound)
    return {f"{pod.namespace}/{pod.group}" if pod.group else key for key, pod in pods}


def _helped_groups(result: CycleResult) -> Mapping[str, int]:
    """For how many groups each action made room."""
    found = {(effect.action, effect.cause) for effect in result.effects if isinstance(effect, Evict) and effect.cause}
    return Counts(action for action, _ in found)


def _scaled(quota: float, unit: float) -> float:
    return quota if quota < 0 else quota / unit
