"""When a cluster has come to rest, nobody waits who could have what is his due by the eviction of a single pod.

Due is a queue's fair share, against queues that hold more than theirs; and, in one queue, to those of higher priority.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from kai_sched import Cluster, CycleResult, run_cycle
from kai_sched.model import objects as o
from kai_sched.plan.result import QueueState
from tests.properties.clusters import NOW_NS, G
from tests.properties.crowds import Crowd, crowds
from tests.properties.deciders import cycles
from tests.properties.test_minimal import CONFIG, CYCLES, keeping

GPU = 2
NAMES = ((0, "cpu"), (1, "memory"), (2, "gpu"))
PRIORITIES = {"": 50, "p40": 40, "p60": 60, "p125": 125}
PLAIN_PODS = st.one_of(
    crowds(Crowd(flat=True)),
    crowds(Crowd(deep=True, limits=True)),
    crowds(Crowd(tight=True, movable=True), (1, 3), (2, 5), (6, 14)),
    crowds(Crowd(movable=True), (2, 5), (1, 4), (6, 14)),
    crowds(Crowd(gangs=True, limits=True, deep=True), (2, 5), (1, 4), (3, 9)),
)


@settings(max_examples=2 * settings().max_examples)
@given(PLAIN_PODS)
def test_nobody_waits_for_what_one_pod_holds(objects: list[o.Object]) -> None:
    """Neither a single pod, nor one more of a group that grows: each is a search of its own."""
    before = None
    for cluster, plan in cycles(objects, keeping(), CONFIG, CYCLES):
        if (cluster.pods, plan) == before:
            break
        before = (cluster.pods, plan)
    result = run_cycle(cluster, CONFIG, NOW_NS + CYCLES * 10 * G)
    for pending in single_pending_pods(cluster):
        for victim in single_victims(cluster):
            assert not is_due(pending, victim, cluster, result), f"{pending.key} waits for what {victim.key} holds"


def single_pending_pods(cluster: Cluster) -> Iterator[o.Pod]:
    """A pod of each group that waits for one pod only."""
    for key, group in cluster.pod_groups.items():
        pods = [pod for pod in cluster.pods.values() if pod.group_key == key]
        waiting, running = [pod for pod in pods if not pod.node], [pod for pod in pods if pod.node]
        if waiting and (len(running) >= (group.min_member or 1) or (group.min_member or 1) == 1):
            yield waiting[0]


def single_victims(cluster: Cluster) -> Iterator[o.Pod]:
    """The running pods that may leave alone."""
    sizes = Counter(pod.group_key for pod in cluster.pods.values() if pod.node)
    for pod in cluster.pods.values():
        group = cluster.pod_groups[pod.group_key]
        alone = sizes[group.key] == 1 or sizes[group.key] > (group.min_member or 1)
        if pod.node and alone and is_preemptible(group):
            yield pod


def is_preemptible(group: o.PodGroup) -> bool:
    return PRIORITIES[group.priority_class] < 100 if group.preemptible is None else group.preemptible


def is_due(pending: o.Pod, victim: o.Pod, cluster: Cluster, result: CycleResult) -> bool:
    """Whether the pod that waits should have the place of the other."""
    mine, theirs = cluster.pod_groups[pending.group_key], cluster.pod_groups[victim.group_key]
    queues = {queue.name: queue for queue in result.queues}
    held = sum(gpus(pod) for pod in cluster.pods.values() if pod.node == victim.node)
    free = cluster.nodes[victim.node].allocatable["gpu"] - held
    if mine is theirs or gpus(pending) > free + gpus(victim) or not is_preemptible(mine):
        return False
    if mine.queue == theirs.queue:
        higher = PRIORITIES[mine.priority_class] > PRIORITIES[theirs.priority_class]
        return higher and all(stays_within(queue, gpus(pending) - gpus(victim)) for queue in path(mine.queue, queues))
    # Below the queues that are above both, where one side gains what the other loses, there are two paths.
    ours, others = path(mine.queue, queues), path(theirs.queue, queues)
    if not all(has_share_for(queue, pending) for queue in ours if queue not in others):
        return False
    if not all(stays_within(queue, gpus(pending) - gpus(victim)) for queue in ours if queue in others):
        return False
    other = next(queue for queue in others if queue not in ours)
    return other.allocated[GPU] - gpus(victim) >= max(other.fair_share[GPU], other.quota[GPU])


def path(name: str, queues: dict[str, QueueState]) -> list[QueueState]:
    """The queue and all above it, the root first."""
    return [*path(queues[name].parent, queues), queues[name]] if name in queues else []


def has_share_for(queue: QueueState, pod: o.Pod) -> bool:
    """Whether the queue stays within its limit and fair share with the pod."""
    within = all(queue.allocated[r] + dict(pod.shape.request)[name] <= queue.fair_share[r] for r, name in NAMES)
    return within and stays_within(queue, gpus(pod))


def stays_within(queue: QueueState, more: float) -> bool:
    return queue.allocated[GPU] + more <= queue.limit[GPU]


def gpus(pod: o.Pod) -> float:
    return dict(pod.shape.request).get("gpu", 0.0)
