"""What a node pool brings to fair shares of the whole cluster (semantics 2.8), counted before its cycle; the sum over
several pools. What it brings after a cycle, that says itself (``CycleResult.pool``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from kai_sched.lowering.cache import Cache
from kai_sched.lowering.lower import Lowered, lower
from kai_sched.lowering.settings import lower_settings
from kai_sched.model.config import Config
from kai_sched.model.hints import NOTHING, Amounts, PoolAmounts, QueueAmounts, add
from kai_sched.model.store import Cluster
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Ints, Status
from kai_sched.solver.pipeline import count_amounts
from kai_sched.solver.solution import PoolShares

DECIMALS = 6  # of amounts: sums of parts of GPUs are off by less

# Counts the amounts of a pool: of the cluster, with the config, at a time, with the nodes that pods are pipelined.
Count = Callable[[Cluster, Config, int, Cache, Mapping[str, str]], PoolAmounts]


def count_pool(
    cluster: Cluster, config: Config, now_ns: int, cache: Cache, pipelined: Mapping[str, str]
) -> PoolAmounts:
    """Count what the pool of the config brings before its cycle at ``now_ns``, in nanoseconds since the epoch.

    ``pipelined`` has the node by pod for pods that an earlier cycle promised room that is not free yet: they hold it.
    Raises LoweringError.
    """
    lowered = lower(cluster, config, now_ns, cache)
    settings = lower_settings(config, now_ns)
    return pool_amounts(lowered, count_amounts(lowered.snapshot, settings, _pipelined_nodes(lowered, pipelined)))


def _pipelined_nodes(lowered: Lowered, pipelined: Mapping[str, str]) -> Ints:
    """(T,) the row of the node that the task is promised; NULL for most."""
    found = np.full(len(lowered.pods), NULL, np.int32)
    if pipelined:
        rows = {node.name: n for n, node in enumerate(lowered.nodes)}
        for t in np.flatnonzero(lowered.snapshot.tasks.status == Status.PENDING).tolist():
            node = pipelined.get(lowered.pods[t].key, "")
            found[t] = rows.get(node, NULL)
    return found


def pool_amounts(lowered: Lowered, pool: PoolShares) -> PoolAmounts:
    """What the pool brings to shares of the cluster, in names."""
    columns = (pool.held.tolist(), pool.fixed.tolist(), pool.asked.tolist())
    queues = {
        queue.name: QueueAmounts(*(_triple(amounts) for amounts in found))
        for queue, *found in zip(lowered.queues.queues, *columns, strict=True)
    }
    return PoolAmounts(_triple(pool.capacity.tolist()), queues)


def _triple(amounts: Sequence[float]) -> Amounts:
    cpu, memory, gpus = (round(each, DECIMALS) for each in amounts)
    return cpu, memory, gpus


def together(pools: Iterable[PoolAmounts]) -> PoolAmounts:
    """The sum over several pools."""
    capacity, queues = NOTHING, dict[str, QueueAmounts]()
    for pool in pools:
        capacity = add(capacity, pool.capacity)
        for name, amounts in pool.queues.items():
            so_far = queues.get(name)
            queues[name] = amounts if so_far is None else _sum_of_queue(so_far, amounts)
    return PoolAmounts(capacity, queues)


def _sum_of_queue(a: QueueAmounts, b: QueueAmounts) -> QueueAmounts:
    return QueueAmounts(add(a.held, b.held), add(a.held_fixed, b.held_fixed), add(a.requested, b.requested))
