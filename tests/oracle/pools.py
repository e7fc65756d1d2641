"""Several node pools, decided one after the other (semantics 11.3), with fair shares of their own or over all of them
(2.8): what each pool has is counted pod by pod, afresh before each pool is decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kai_sched import Cluster, Config
from kai_sched.model.objects import Node, Pod, PodGroup, Queue
from tests.oracle.actions import Decided, decide
from tests.oracle.between import objects_of
from tests.oracle.devices import HUNDREDTHS
from tests.oracle.records import ALLOCATED, RESOURCES, Elsewhere, Task, World
from tests.oracle.world import world_of

NOBODY: Mapping[str, str] = {}


@dataclass(frozen=True)
class DecidedPools:
    """What each pool has decided, by pool, and where all pods end; pods of no pool stand as they were."""

    of: dict[str, Decided]
    pods: dict[str, tuple[str, str]]


def decide_pools(
    cluster: Cluster, configs: Sequence[Config], now_ns: int, promised: Mapping[str, str] = NOBODY
) -> DecidedPools:
    """Decide each pool in turn. ``promised``: the node by pod of those that an earlier cycle promised room."""
    decided: dict[str, Decided] = {}
    for config in configs:
        elsewhere: list[Elsewhere] = []
        for other in configs:
            if other is not config and config.fair_share == "cluster":
                known = decided.get(other.node_pool)
                world = known.world if known else world_of(only(cluster, other), other, now_ns)
                elsewhere.append(brings(world, {} if known else promised))
        decided[config.node_pool] = decide(only(cluster, config), config, now_ns, elsewhere)
    pods = {key: ("Pending", pod.node) for key, pod in cluster.pods.items()}
    for found in decided.values():
        pods |= {task.pod.key: found.pods[task.pod.key] for task in found.world.tasks}
    return DecidedPools(decided, pods)


def only(cluster: Cluster, config: Config) -> Cluster:
    """What the scheduler of the pool sees, as far as the pods of a group run in its pool."""

    def here(item: Node | PodGroup | Queue | Pod) -> bool:
        return item.labels.get("kai.scheduler/node-pool", "") == config.node_pool

    found = []
    for item in objects_of(cluster):
        if isinstance(item, Queue) and config.fair_share == "cluster":
            found.append(item)
        elif isinstance(item, Pod) and item.group:
            group = cluster.pod_groups.get(f"{item.namespace}/{item.group}")
            found += [item] if group and here(group) else []
        elif not isinstance(item, Node | PodGroup | Queue | Pod) or here(item):
            found.append(item)
    return Cluster.of(found)


def brings(world: World, promised: Mapping[str, str]) -> Elsewhere:
    """What a pool has for the others to count: its capacity, and what its pods hold and ask for, by queue."""
    found = Elsewhere([*world.own])
    for job in [job for job in world.jobs if job.queue in world.accounts and not job.background]:
        for task in job.tasks:
            waits = task.start == "Pending" and task.pod.key in promised
            holds = task.status in ALLOCATED or task.status == "Pipelined" or waits
            asks = task.start in ALLOCATED or task.start == "Pending"
            node = promised[task.pod.key] if waits else task.node
            for level in world.accounts[job.queue].lineage():
                for table, counts in (
                    (found.held, holds),
                    (found.fixed, holds and not job.preemptible),
                    (found.request, asks),
                ):
                    amounts = table.setdefault(level.queue.name, [0.0] * 3)
                    place = node if table is not found.request else task.pod.node
                    for r, resource in enumerate(RESOURCES):
                        amounts[r] = round(amounts[r] + _price(task, resource, place) * counts, HUNDREDTHS)
    return found


def _price(task: Task, resource: str, node: str) -> float:
    return task.price_on.get(node, task.price) if resource == "gpu" else task.costs(resource)


def shards(config: Config, pools: Sequence[str], fair_share: str) -> list[Config]:
    """The settings of a shard for each of these pools."""
    return [replace(config, node_pool=pool, fair_share=fair_share) for pool in sorted(pools)]
