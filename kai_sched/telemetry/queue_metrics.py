"""The metrics of queues (API 9.1, 9.2, and our own): what the last cycle says of each queue, and who waits in it.

They are computed when somebody reads them, so a queue that is gone leaves no series behind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kai_sched.model.objects import Queue
from kai_sched.model.store import Cluster
from kai_sched.plan import reasons
from kai_sched.plan.result import QUEUE_RESOURCES, CycleResult, QueueState

MILLI = 1000.0  # a core in millicores
GIGABYTE = 1e9
SECOND_NS = 1_000_000_000
PLACES = 4  # decimals of what is allocated
Labels = tuple[tuple[str, str, str], ...]  # of queues: key, label of the metric, value where a queue has none
NO_QUEUE = ""  # the label of groups whose queue does not exist: anybody may name one

_WAITING = ("Pending", "Gated", "Pipelined")
_QUEUE_LABELS = ("queue_name", "queue_metadata_name", "queue_display_name")

# By resource: the word in names of metrics, its place in the triples of a QueueState, and what one of its units is.
_RESOURCES = (("cpu_cores", 0, MILLI), ("memory_bytes", 1, 1.0), ("gpus", 2, 1.0))


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Pods and groups that wait in a queue for one reason."""

    pods: int = 0
    groups: int = 0


class QueueMetrics(Collector):
    """The queues as of the last cycle. ``wall_s`` gives seconds since the epoch."""

    def __init__(self, prefix: str, wall_s: Callable[[], float]) -> None:
        self._prefix = prefix
        self._wall_s = wall_s
        self._shown: tuple[Mapping[str, Queue], tuple[QueueState, ...]] = ({}, ())
        self._labels: Labels = ()
        self._pending: Mapping[tuple[str, str], _Waiting] = {}
        self._oldest_ns: Mapping[str, int] = {}

    def show(self, queues: Mapping[str, Queue], states: tuple[QueueState, ...], labels: Labels) -> None:
        """Show these queues from now on, with these labels of theirs (``Config.queue_metric_labels``)."""
        self._shown = (queues, states)
        self._labels = labels

    def show_pending(self, cluster: Cluster, result: CycleResult) -> None:
        """Show pods and groups by queue and reason, in the order of names, and since when groups wait that never ran.

        A group with too few pods, or with gates, does not wait for the scheduler.
        """
        found: dict[tuple[str, str], _Waiting] = {}
        oldest_ns: dict[str, int] = {}
        for state in result.groups.values():
            pods = sum(map(state.counts.get, _WAITING, (0, 0, 0)))
            if not pods:
                continue
            queue = state.queue if state.queue in cluster.queues else NO_QUEUE
            code = state.reason.code if state.reason else "Pipelined"
            before = found.get((queue, code), _Waiting())
            found[queue, code] = _Waiting(before.pods + pods, before.groups + 1)
            group = cluster.pod_groups.get(state.key)
            if group is not None and not group.last_start_ns and code != reasons.NOT_READY and group.created_ns:
                oldest_ns[queue] = min(group.created_ns, oldest_ns.get(queue, group.created_ns))
        self._pending, self._oldest_ns = dict(sorted(found.items())), dict(sorted(oldest_ns.items()))

    def collect(self) -> Iterator[Metric]:
        """All gauges of queues."""
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
        for word, place, unit in _RESOURCES:
            limits = ((q, _scaled((q.cpu, q.memory, q.gpu)[place].limit, unit)) for q in every)
            yield self._family(f"queue_limit_{word}", f"Limit on {word}, -1 for unlimited", limits)
        for place, word in enumerate(QUEUE_RESOURCES):
            used = ((q, q.usage[place]) for q in every)
            text = f"What part of the {word} was the queue's in the past"
            yield self._family(f"queue_{word}_usage", text, used, shown=True)
        # A queue that the last cycle left out, as its parent is missing, has a quota, but no share.
        known = [(queues[state.name], state) for state in states if state.name in queues]
        for word, place, unit in _RESOURCES:
            held = ((queue, round(state.allocated[place] / unit, PLACES)) for queue, state in known)
            yield self._family(f"queue_allocated_{word}", f"{word} in use", held)
            asked = ((queue, round(state.requested[place] / unit, PLACES)) for queue, state in known)
            yield self._family(f"queue_requested_{word}", f"{word} in use and asked for", asked)
        yield from self._collect_fair_shares(known)

    def _collect_fair_shares(self, known: Sequence[tuple[Queue, QueueState]]) -> Iterator[Metric]:
        for name, documentation, place, unit in (
            ("queue_fair_share_cpu_cores", "The queue's share of the CPU", 0, MILLI),
            ("queue_fair_share_memory_gb", "The queue's share of the memory, in units of 10^9 bytes", 1, GIGABYTE),
            ("queue_fair_share_gpu", "The queue's share of the GPUs", 2, 1.0),
        ):
            values = ((queue, state.fair_share[place] / unit) for queue, state in known)
            yield self._family(name, documentation, values, shown=True)

    def _collect_pending(self) -> Iterator[Metric]:
        labels = ("queue", "reason")
        pods = GaugeMetricFamily(
            f"{self._prefix}pending_pods", "Pods that wait, by the reason of their group", labels=labels
        )
        groups = GaugeMetricFamily(f"{self._prefix}pending_podgroups", "Pod groups with such pods", labels=labels)
        for key, waiting in self._pending.items():
            pods.add_metric(key, waiting.pods)
            groups.add_metric(key, waiting.groups)
        longest = GaugeMetricFamily(
            f"{self._prefix}longest_first_start_wait_seconds",
            "For how long the oldest group has been waiting that has all its pods and never ran",
            labels=("queue",),
        )
        now_s = self._wall_s()
        for queue, since_ns in self._oldest_ns.items():
            longest.add_metric((queue,), max(0.0, now_s - since_ns / SECOND_NS))
        yield from (pods, groups, longest)

    def _family(
        self, name: str, documentation: str, values: Iterable[tuple[Queue, float]], shown: bool = False
    ) -> GaugeMetricFamily:
        """Return a gauge. With ``shown`` queue_name is the display name, if there is one, as the contract wants it, and
        labels of the queue are not there."""
        chosen = () if shown else self._labels
        names = (*_QUEUE_LABELS, *(metric_label for _, metric_label, _ in chosen))
        family = GaugeMetricFamily(self._prefix + name, documentation, labels=names)
        for queue, value in values:
            first = queue.display_name if shown and queue.display_name else queue.name
            more = (queue.labels.get(key, default) for key, _, default in chosen)
            family.add_metric((first, queue.name, queue.display_name, *more), value)
        return family


def _scaled(quota: float, unit: float) -> float:
    """The quota or limit in its unit; -1 for unlimited."""
    return -1.0 if quota < 0 or math.isinf(quota) else quota / unit
