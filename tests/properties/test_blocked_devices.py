"""Parts of GPUs keep no queue from its quota: at rest nobody waits within its quota for devices that one pod blocks, of
a queue that counts for more devices than its own quota (semantics 4.7, the quota branch)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction

import pytest

from kai_sched import Cluster, CycleResult
from kai_sched.model import objects as o
from kai_sched.model.constraints import PodTerm, Requirement
from kai_sched.plan.effects import Evict
from tests.properties.clusters import NOW_NS
from tests.properties.device_life import FREE, PLAIN, Life

HOST = "kubernetes.io/hostname"
BLOCK = 50


@dataclass
class Tenants(Life):
    """Queues whose quotas are no more than the GPUs. First come pods with parts, of a queue with a small quota.

    All pods are preemptible and groups of their own. Many of one queue keep apart, so that they cannot be put together.
    """

    came: int = field(default=0)

    def _make_queues(self) -> list[str]:
        names = [f"q{number}" for number in range(self.rng.randint(2, 4))]
        for name in names:
            self.store.put(o.Queue(name, name, NOW_NS, cpu=FREE, memory=FREE, gpu=FREE))
        return names

    def _make_nodes(self) -> None:
        rng, total = self.rng, 0
        for number in range(rng.randint(1, 4)):
            gpus = rng.choice((1, 2, 2, 4))
            total += gpus
            name = f"n{number:02}"
            self.store.put(o.Node(name, name, {HOST: name}, {"cpu": 64_000.0, "pods": 110.0, "gpu": float(gpus)}))
        for name, queue in self.store.cluster().queues.items():
            quota = rng.randint(0, total if name != "q0" else min(2, total)) / rng.choice((1, 1, 2, 4))
            total -= int(-(-quota // 1))
            self.store.put(replace(queue, gpu=o.Share(quota, -1.0, rng.choice((0.0, 1.0)))))

    def _make_job(self) -> None:
        rng = self.rng
        self._jobs += 1
        self.came += 1
        name, created = f"job{self._jobs:03}", self.now_ns + self._jobs
        queue = "q0" if self.came < 10 else rng.choice(self.queues)
        shape = o.Shape((*PLAIN[:1], ("gpu", float(rng.choice((1, 1, 1, 2)))), *PLAIN[1:]))
        if queue == "q0" or rng.random() < 0.1:
            share = o.GpuShare(rng.choice((1, 2, 2, 4)), rng.choice((0.01, 0.01, 0.01, 0.3, 0.6)))
            apart = (PodTerm(HOST, (Requirement("team", "In", (queue,)),), ("ml",)),)
            shape = o.Shape(PLAIN, share=share, anti_affinity=apart if rng.random() < 0.7 else ())
        self.store.put(o.PodGroup("ml", name, f"{name}-uid", created, queue, "train", min_member=1))
        pod = o.Pod("ml", f"{name}-0", shape, f"{name}-0-uid", created, group=name, queue=queue)
        labels = {"team": queue} if shape.anti_affinity else {}
        self.store.put(replace(pod, scheduler="kai-scheduler", priority_class="train", labels=labels))


def check_entitled(cluster: Cluster, result: CycleResult) -> None:
    """No pod that waits for whole GPUs within the quota of its queue could have them by the eviction of one pod."""
    users, whole, counts = Counter[tuple[str, str]](), Counter[str](), defaultdict[str, Fraction](Fraction)
    running = [pod for pod in cluster.pods.values() if pod.node and pod.group]
    for pod in running:
        users.update({(pod.node, group): part_of(pod) for group in pod.gpu_groups})
        whole[pod.node] += gpus(pod)
    used = Counter(node for node, _ in users)
    free = {name: int(node.allocatable["gpu"]) - whole[name] - used[name] for name, node in cluster.nodes.items()}
    for pod in running:
        parts = sum((Fraction(part_of(pod), users[pod.node, group]) for group in pod.gpu_groups), Fraction())
        counts[pod.queue] += gpus(pod) + parts
    queues = {queue.name: queue for queue in result.queues}
    for pod in cluster.pods.values():
        mine = queues.get(pod.queue)
        if pod.node or mine is None or not gpus(pod) or counts[pod.queue] + gpus(pod) > mine.quota[2]:
            continue
        for victim in running:
            alone = sum(users[victim.node, group] == part_of(victim) for group in victim.gpu_groups)
            makes_room = gpus(pod) <= free[victim.node] + gpus(victim) + alone
            above = counts[victim.queue] > Fraction(queues[victim.queue].quota[2]) + Fraction(1, 1000)
            assert victim.queue == pod.queue or not (makes_room and above), (
                f"{pod.key} of {pod.queue} waits for what {victim.key} of {victim.queue} blocks"
            )


def part_of(pod: o.Pod) -> int:
    """The memory that it holds of each of its devices, in millionths."""
    return max(1, int(pod.shape.share.portion * 1_000_000 + 1e-6)) if pod.shape.share else 0


def gpus(pod: o.Pod) -> int:
    return int(dict(pod.shape.request).get("gpu", 0))


def live(seeds: Iterable[int]) -> None:
    """Whole lives, each from its seed; the message of a failure begins with the seed."""
    for seed in seeds:
        life = Tenants(seed)
        try:
            for moment in life.cycles():
                if moment.at_rest:
                    check_entitled(moment.cluster, moment.result)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_a_few_lives() -> None:
    live(range(20))


def test_parts_are_taken_back() -> None:
    """The check can fail: in these lives parts are evicted for whole GPUs."""
    taken = 0
    for seed in range(40):
        for moment in Tenants(seed).cycles():
            pods = moment.cluster.pods
            taken += sum(
                isinstance(each, Evict) and each.action == "reclaim" and bool(pods[each.pod].shape.share)
                for each in moment.result.effects
            )
    assert taken > 10


@pytest.mark.slow
@pytest.mark.parametrize("first", range(20, 320, BLOCK))
def test_300_lives(first: int) -> None:
    live(range(first, first + BLOCK))


@pytest.mark.long
@pytest.mark.parametrize("first", range(320, 3320, 3 * BLOCK))
def test_3000_lives(first: int) -> None:
    live(range(first, first + 3 * BLOCK))
