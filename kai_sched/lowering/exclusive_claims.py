"""Which pods wait because a claim of theirs is for one pod alone (ReadWriteOncePod), and which of them compete for one
(semantics 12.1).

A pod waits while another one that is on a node and has not finished uses such a claim: no node could help, and nobody
is evicted for it. Of pending pods with the same claim one gets a node in a cycle, as if each had anti-affinity against
the others on all nodes together. That takes memory for each claim and node; where tenants have too many such claims,
the first pod in canonical order is the one that may go.

Cost: one step for each claim, and, if one of them is exclusive, for each class of the cache and each pod with one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from kai_sched.lowering.cache import Cache
from kai_sched.lowering.cached_rows import PodCell
from kai_sched.lowering.class_records import TaskColumns
from kai_sched.model.objects import Pod
from kai_sched.model.store import Cluster
from kai_sched.snapshot.tables import Ints, Longs

EXCLUSIVE = "ReadWriteOncePod"
CELLS_MAX = 2**23  # claims that pending pods compete for, times nodes


@dataclass(frozen=True, slots=True)
class ExclusiveRows:
    """What exclusive claims mean for tasks.

    Attributes
    ----------
    held
        (T,) the number of the text that says why the task waits; 0: it does not.
    texts
        The texts, "" first.
    contested
        The claims for which several pending tasks compete, by their keys, with the rows of these tasks.
    """

    held: Ints
    texts: list[str] = field(default_factory=lambda: [""])
    contested: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def find_exclusive(cluster: Cluster, cache: Cache, tasks: TaskColumns, n_nodes: int) -> ExclusiveRows:
    """What exclusive claims mean for the tasks; ``n_nodes`` is the number of nodes."""
    held = np.zeros(tasks.pods.size, np.int32)
    claims = {key for key, claim in cluster.volume_claims.items() if EXCLUSIVE in claim.access_modes}
    using = [c for c, each in enumerate(cache.classes) if not claims.isdisjoint(each.shape.claims)] if claims else []
    if not using:
        return ExclusiveRows(held)
    users = _users(cache, np.array(using, np.int64), claims)
    texts: dict[str, int] = {"": 0}
    waiting: dict[str, list[int]] = {}
    for t in np.flatnonzero(np.isin(tasks.numbers, using) & tasks.waits).tolist():
        pod = tasks.pods[t]
        asked = [key for key in pod.shape.claims if key in claims]
        taken = next((key for key in asked if key in users), None)
        if taken is not None:
            held[t] = texts.setdefault(_in_use(taken, users[taken], cache), len(texts))
            continue
        for key in asked:
            waiting.setdefault(key, []).append(t)
    contested = {key: rows for key, rows in sorted(waiting.items()) if len(rows) > 1}
    for key in list(contested)[CELLS_MAX // max(1, n_nodes) :]:
        first, *others = contested.pop(key)
        held[others] = texts.setdefault(_comes_first(key, tasks.pods[first]), len(texts))
    return ExclusiveRows(held, list(texts), {key: tuple(rows) for key, rows in contested.items()})


def _users(cache: Cache, using: Longs, claims: set[str]) -> dict[str, Pod]:
    """By exclusive claim: the oldest pod on a node that uses it, of whatever scheduler and on whatever node."""
    rows = cache.pods.ordered()
    found: dict[str, Pod] = {}
    for row in rows[np.isin(cache.pods.cells[PodCell.CLASS, rows], using)].tolist():
        pod: Pod = cache.pods.objects[row]
        if not pod.has_ended and (pod.node or cache.binding(pod) is not None):
            for key in pod.shape.claims:
                if key in claims:
                    found.setdefault(key, pod)
    return found


def _in_use(key: str, pod: Pod, cache: Cache) -> str:
    request = cache.binding(pod)
    node = pod.node or (request.node if request is not None else "")
    text = f"PersistentVolumeClaim {key} is for one pod alone ({EXCLUSIVE}), and pod {pod.key} on node {node} uses it"
    return f"{text}: it waits until that pod is gone"


def _comes_first(key: str, pod: Pod) -> str:
    return f"PersistentVolumeClaim {key} is for one pod alone ({EXCLUSIVE}), and pod {pod.key} comes first"
