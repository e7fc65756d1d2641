"""Metrics whose labels tenants choose, and how many series of each there are at most; counters without the suffix
"_total".
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Container

from prometheus_client import CollectorRegistry, Histogram

from kai_sched.api import names
from kai_sched.model.keys import group_key, split_key, unmarked
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Evict

Labels = tuple[str, ...]

KEPT_S = 600.0  # how long the series of a group that is gone are shown: Prometheus scrapes about once a minute
CHECK_S = 30.0
SERIES_MAX = 10_000
QUEUES_MAX = 1_000
OTHERS = "(others)"  # the label of all that is beyond a bound
# From a second to a week: a gang may wait for days until others end.
WAIT_BUCKETS_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400, 259_200, 604_800)


class Series:
    """A counter by labels, without the suffix "_total" that the client would add and dashboards do not expect."""

    def __init__(self, name: str, documentation: str, labels: Labels = ()) -> None:
        self._head = f"# HELP {name} {documentation}\n# TYPE {name} counter\n"
        self._name = name
        self._labels = labels
        self._lock = threading.Lock()
        self._counts: OrderedDict[Labels, int] = OrderedDict()

    def add(self, values: Labels, count: int = 1) -> None:
        """Add ``count``; the series is the youngest then."""
        with self._lock:
            self._counts[values] = self._counts.get(values, 0) + count
            self._counts.move_to_end(values)

    def drop(self, values: Labels) -> None:
        """Remove this series."""
        with self._lock:
            self._counts.pop(values, None)

    def render(self) -> str:
        """Return the text format 0.0.4 of Prometheus."""
        with self._lock:
            counts = list(self._counts.items())
        return self._head + "".join(f"{self._name}{self._shown(values)} {count}\n" for values, count in counts)

    def _shown(self, values: Labels) -> str:
        pairs = zip(self._labels, values, strict=True)
        shown = ",".join(f'{label}="{_escaped(value)}"' for label, value in pairs)
        return f"{{{shown}}}" if shown else ""


class EvictedPods:
    """How many pods of each group were evicted, until the group has been gone for KEPT_S; at most SERIES_MAX series.

    ``add`` and ``forget`` are for one thread.
    """

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self.series = Series(name, "Pods that were evicted", ("podgroup", "namespace", "uid", "nodepool", "action"))
        self._clock = clock
        self._seen: OrderedDict[Labels, float] = (
            OrderedDict()
        )  # when its group was there last, the youngest series last
        self._checked_at = clock()

    def add(self, eviction: Evict, cluster: Cluster) -> None:
        """A pod has been evicted, as decided on this view."""
        group = cluster.pod_groups.get(eviction.group)
        space, name = split_key(unmarked(eviction.group))
        pool = group.labels.get(names.NODE_POOL_LABEL, "") if group else ""
        values = (name, space, group.uid if group else "", pool or names.DEFAULT_POOL, eviction.action)
        self.series.add(values)
        self._seen[values] = self._clock()
        self._seen.move_to_end(values)
        while len(self._seen) > SERIES_MAX:
            self.series.drop(self._seen.popitem(last=False)[0])

    def forget(self, cluster: Cluster) -> None:
        """Drop the series of groups that have been gone for KEPT_S. Checks all of them once in CHECK_S."""
        now = self._clock()
        if now - self._checked_at < CHECK_S:
            return
        self._checked_at = now
        for values, seen in list(self._seen.items()):
            name, space, uid = values[:3]
            group = cluster.pod_groups.get(group_key(space, name))
            if group is not None and group.uid == uid:
                self._seen[values] = now
            elif now - seen > KEPT_S:
                del self._seen[values]
                self.series.drop(values)


class FirstStartWaits:
    """How long groups waited for their first start, by queue, until the queue is gone; at most QUEUES_MAX queues.

    ``observe`` and ``forget`` are for one thread.
    """

    def __init__(self, name: str, registry: CollectorRegistry) -> None:
        text = "From the creation of a pod group until its minimum was bound for the first time"
        self._histogram = Histogram(name, text, ("queue",), buckets=WAIT_BUCKETS_S, registry=registry)
        self._queues: set[str] = set()

    def observe(self, queue: str, wait_s: float) -> None:
        """A group of the queue runs for the first time. If clocks differ the time may be negative; it is 0 then."""
        if queue not in self._queues and len(self._queues) >= QUEUES_MAX:
            queue = OTHERS
        self._queues.add(queue)
        self._histogram.labels(queue).observe(max(0.0, wait_s))

    def forget(self, queues: Container[str]) -> None:
        """Only these queues exist: drop the series of others."""
        for queue in [each for each in self._queues if each != OTHERS and each not in queues]:
            self._queues.discard(queue)
            self._histogram.remove(queue)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
