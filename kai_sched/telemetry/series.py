"""Counters that the Prometheus client cannot keep: without the suffix "_total"; and for how long evicted pods are
counted by group.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from kai_sched.api import names
from kai_sched.model.keys import group_key, split_key, unmarked
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Evict

Labels = tuple[str, ...]

KEPT_S = 600.0  # how long the series of a group that is gone are shown: Prometheus scrapes about once a minute
CHECK_S = 30.0
SERIES_MAX = 10_000


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


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
