"""The named shapes of the benchmark: clusters as model objects, made the same way every time and shuffled by a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from kai_sched.model.objects import (
    Node,
    Object,
    Phase,
    Pod,
    PodGroup,
    PodTerm,
    PriorityClass,
    Queue,
    Requirement,
    Shape,
    Share,
)
from kai_sched.model.store import Store

GPUS_PER_NODE = 8
HOSTNAME = "kubernetes.io/hostname"
UNLIMITED = Share(-1.0, -1.0, 1.0)
NOW_NS = 1_767_268_800_000_000_000
AGE_NS = 60_000_000_000


@dataclass(frozen=True)
class Outcome:
    """What a shape must come to; None where it does not matter."""

    bound: int | None = None
    bound_gpus: int | None = None
    unschedulable: int | None = None
    evicted: int | None = None  # pods that have to go, moved ones included
    most_evicted: int | None = None
    held_gpus: int | None = None  # at the least: bound, or pipelined on room being left
    reasons_for_all: bool = False


@dataclass(frozen=True)
class Case:
    """A shape: how its objects are made, which actions run, and the outcome. ``prefix`` renames every object.

    ``newcomer``: the objects of one more pod, by the prefix and a number. What such a pod costs, once all else is
    settled, is the shape's figure.
    """

    make: Callable[[str], list[Object]]
    actions: tuple[str, ...]
    outcome: Outcome
    steady: bool = False
    most_moved: int = 16  # max-consolidation-preemptees
    newcomer: Callable[[str, int], list[Object]] | None = None


class Builder:
    """Objects of one cluster. Equal pods share one shape, as they do when they are read from an API server."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.objects: list[Object] = [PriorityClass("train", 50)]
        self._shapes: dict[int, Shape] = {}

    def nodes(self, count: int, racks: int = 0, named: bool = False) -> None:
        plain = {"nvidia.com/gpu.count": str(GPUS_PER_NODE), "nvidia.com/gpu.memory": "81920"}
        allocatable = {"cpu": 128_000.0, "memory": 1e12, "gpu": float(GPUS_PER_NODE), "pods": 110.0}
        for n in range(count):
            labels = plain | {"rack": f"{self.prefix}rack-{n % racks}"} if racks else plain
            labels = labels | {HOSTNAME: self.node(n)} if named else labels
            self.objects.append(Node(self.node(n), f"{self.prefix}node-uid-{n:05}", labels, allocatable))

    def node(self, n: int) -> str:
        return f"{self.prefix}node-{n:05}"

    def queue(self, name: str, parent: str, gpus: float, age: int, weight: float = 1.0) -> str:
        gpu = Share(gpus, -1.0, weight)
        full = f"{self.prefix}{name}"
        above = f"{self.prefix}{parent}" if parent else ""
        created = NOW_NS - AGE_NS * 1000 + age * AGE_NS
        self.objects.append(Queue(full, f"{full}-uid", created, above, cpu=UNLIMITED, memory=UNLIMITED, gpu=gpu))
        return full

    def tree(self, leaves: int, departments: int, total: float) -> list[str]:
        """Leaves under departments, leaf i under department i mod departments, all shares equal."""
        for d in range(departments):
            self.queue(f"dep-{d:03}", "", total / departments, d)
        return [
            self.queue(f"queue-{q:03}", f"dep-{q % departments:03}", total / leaves, departments + q)
            for q in range(leaves)
        ]

    def shape(self, gpus: int) -> Shape:
        if gpus not in self._shapes:
            self._shapes[gpus] = Shape(request=(("cpu", 1000.0), ("gpu", float(gpus)), ("memory", 1e9), ("pods", 1.0)))
        return self._shapes[gpus]

    def job(
        self,
        j: int,
        queue: str,
        gpus: int = 1,
        pods: int = 1,
        node: str = "",
        priority: str = "train",
        preemptible: bool | None = None,
        shape: Shape | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        name = f"{self.prefix}job-{j:06}"
        created = NOW_NS - AGE_NS + j * 1000
        self.objects.append(
            PodGroup(
                "ml",
                name,
                f"{name}-uid",
                created,
                queue,
                priority,
                preemptible,
                min_member=pods,
                last_start_ns=created if node else 0,
            )
        )
        phase = Phase.RUNNING if node else Phase.PENDING
        for p in range(pods):
            pod = Pod(
                "ml",
                f"{name}-{p}",
                shape or self.shape(gpus),
                f"{name}-{p}-uid",
                created,
                labels or {"app": "train"},
                name,
                "",
                queue,
            )
            self.objects.append(replace(pod, scheduler="kai-scheduler", priority_class="train", node=node, phase=phase))


def uniform(
    prefix: str,
    n_nodes: int,
    leaves: int,
    departments: int,
    n_jobs: int,
    pods: int = 1,
    gpus_of: Callable[[int], int] = lambda _: 1,
    runs: Callable[[int], bool] = lambda _: False,
) -> list[Object]:
    """Job i in queue i mod Q asks for ``gpus_of(i)`` GPUs a pod; where ``runs(i)``, it is on node i mod n already."""
    build = Builder(prefix)
    build.nodes(n_nodes)
    queues = build.tree(leaves, departments, n_nodes * GPUS_PER_NODE)
    for j in range(n_jobs):
        build.job(j, queues[j % leaves], gpus_of(j), pods, build.node(j % n_nodes) if runs(j) else "")
    return build.objects


def big_5000n(prefix: str) -> list[Object]:
    """4 departments, 36 projects, 360 teams; 28,000 GPUs run; 12,000 single pods and 1,500 gangs of 8 wait."""
    build = Builder(prefix)
    n_nodes, n_leaves, n_running = 5000, 360, 28_000
    build.nodes(n_nodes)
    total = n_nodes * GPUS_PER_NODE
    for d in range(4):
        build.queue(f"dep-{d:03}", "", total / 4, d)
    for p in range(36):
        build.queue(f"project-{p:03}", f"dep-{p % 4:03}", total / 36, 4 + p)
    queues = [build.queue(f"queue-{q:03}", f"project-{q % 36:03}", total / n_leaves, 40 + q) for q in range(n_leaves)]
    for j in range(n_running):
        build.job(j, queues[j % n_leaves], node=build.node(j % n_nodes))
    for j in range(n_running, n_running + 12_000):
        build.job(j, queues[j % n_leaves])
    for j in range(n_running + 12_000, n_running + 13_500):
        build.job(j, queues[j % n_leaves], pods=8)
    return build.objects


def borrowed(
    prefix: str,
    n_nodes: int,
    seekers: int,
    pods: int,
    gpus: int,
    quota: float | None = None,
    lent: float = 0.0,
    apart: bool = False,
    pinned: bool = False,
) -> list[Object]:
    """8 running 1-GPU jobs a node in a queue with quota ``lent``; others wait in a queue whose quota is all GPUs.

    ``quota``: another quota of theirs; ``apart``: their pods exclude each other on nine racks; ``pinned``: one of the
    running jobs of each node cannot be preempted.
    """
    build = Builder(prefix)
    build.nodes(n_nodes, racks=9 if apart else 0)
    total = n_nodes * GPUS_PER_NODE
    running = build.queue("running", "", lent, 0, weight=0.0)
    pending = build.queue("pending", "", total if quota is None else quota, 1)
    for j in range(total):
        build.job(j, running, node=build.node(j % n_nodes), preemptible=False if pinned and j < n_nodes else None)
    shape = build.shape(gpus)
    if apart:
        term = PodTerm("rack", (Requirement("app", "In", ("train",)),), ("ml",))
        shape = replace(shape, anti_affinity=(term,))
    for j in range(seekers):
        build.job(total + j, pending, gpus, pods, shape=shape)
    return build.objects


def mixed_reclaim(prefix: str, n_nodes: int) -> list[Object]:
    """Half of the queues hold all GPUs with single pods; gangs of the others, and the youngest single pods, wait.

    8 departments, 40 teams of equal quotas. 20 hold: pods of 1, 1, 2 or 4 GPUs, train twice as often as low, on nodes
    filled in random order. 18 wait with 2 pods a node in gangs of 8, 16 or 32 with 1, 2, 4 or 8 GPUs a pod, the last
    two with half a pod a node of 1 GPU; train twice as often as build-preemptible.
    """
    build, rng = Builder(prefix), random.Random(n_nodes)
    build.objects += [PriorityClass("low", 10), PriorityClass("build-preemptible", 75)]
    build.nodes(n_nodes)
    queues = build.tree(40, 8, n_nodes * GPUS_PER_NODE)
    holders, gangs, singles = queues[:20], queues[20:38], queues[38:]
    j = 0
    for n in rng.sample(range(n_nodes), n_nodes):
        left = GPUS_PER_NODE
        while left:
            gpus = min(rng.choice((1, 1, 2, 4)), left)
            build.job(j, rng.choice(holders), gpus, 1, build.node(n), rng.choice(("train", "train", "low")), True)
            left -= gpus
            j += 1
    waiting = 0
    while waiting < 2 * n_nodes:
        pods = min(rng.choice((8, 16, 32)), 2 * n_nodes - waiting)
        priority = rng.choice(("train", "train", "build-preemptible"))
        build.job(j, rng.choice(gangs), rng.choice((1, 2, 4, 8)), pods, "", priority)
        waiting += pods
        j += 1
    for _ in range(n_nodes // 2):
        build.job(j, rng.choice(singles), 1, 1, "", rng.choice(("train", "train", "build-preemptible")))
        j += 1
    return build.objects


def many_queues(prefix: str, n_nodes: int, leaves: int) -> list[Object]:
    """Half of the teams hold all GPUs with single pods; 2 pods a node of the others wait, of 1 to 8 GPUs each."""
    build, rng = Builder(prefix), random.Random(leaves)
    build.nodes(n_nodes)
    queues = build.tree(leaves, leaves // 25, n_nodes * GPUS_PER_NODE)
    j = full_of_single_pods(build, rng, n_nodes, queues[: leaves // 2])
    for _ in range(2 * n_nodes):
        build.job(j, rng.choice(queues[leaves // 2 :]), rng.randrange(1, 9))
        j += 1
    return build.objects


def own_constraints(prefix: str, n_nodes: int, pods: int, apart: bool) -> list[Object]:
    """A cluster full of single pods of half of the teams; ``pods`` of the others wait, each alike to no other.

    ``apart``: they are gangs of 8, of which each keeps its own pods off each other's nodes; else single pods, each with
    a node that it must not be on.
    """
    build, rng = Builder(prefix), random.Random(pods)
    build.nodes(n_nodes, named=True)
    queues = build.tree(40, 8, n_nodes * GPUS_PER_NODE)
    j = full_of_single_pods(build, rng, n_nodes, queues[:20])
    size = 8 if apart else 1
    for k in range(pods // size):
        name, plain = f"own-{k:04}", build.shape(rng.choice((1, 2, 4)))
        if apart:
            term = PodTerm(HOSTNAME, (Requirement("app", "In", (name,)),), ("ml",))
            own = replace(plain, anti_affinity=(term,))
        else:
            other = Requirement(HOSTNAME, "NotIn", (build.node(k % n_nodes), name))
            own = replace(plain, node_affinity=((other,),))
        build.job(j, rng.choice(queues[20:]), pods=size, shape=own, labels={"app": name})
        j += 1
    return build.objects


def full_of_single_pods(build: Builder, rng: random.Random, n_nodes: int, holders: list[str]) -> int:
    """Fill all nodes with running pods of 1, 1, 2 or 4 GPUs that may be preempted; returns how many."""
    j = 0
    for n in rng.sample(range(n_nodes), n_nodes):
        left = GPUS_PER_NODE
        while left:
            gpus = min(rng.choice((1, 1, 2, 4)), left)
            build.job(j, rng.choice(holders), gpus, 1, build.node(n), "train", True)
            left -= gpus
            j += 1
    return j


def preempted(prefix: str, n_nodes: int, seekers: int) -> list[Object]:
    """One queue, all GPUs in use at priority 50, jobs of priority 125 wait."""
    build = Builder(prefix)
    build.objects.append(PriorityClass("inference", 125))
    build.nodes(n_nodes)
    total = n_nodes * GPUS_PER_NODE
    queue = build.queue("queue", "", total, 0)
    for j in range(total):
        build.job(j, queue, node=build.node(j % n_nodes))
    for j in range(seekers):
        build.job(total + j, queue, priority="inference")
    return build.objects


def fragmented(prefix: str, n_nodes: int, seekers: int) -> list[Object]:
    """One queue, one GPU of each node idle, jobs that need a whole node wait."""
    build = Builder(prefix)
    build.nodes(n_nodes)
    queue = build.queue("queue", "", n_nodes * GPUS_PER_NODE, 0)
    n_running = n_nodes * (GPUS_PER_NODE - 1)
    for j in range(n_running):
        build.job(j, queue, node=build.node(j % n_nodes))
    for j in range(seekers):
        build.job(n_running + j, queue, GPUS_PER_NODE)
    return build.objects


def apart_by_job(prefix: str, pods: int, terms: int) -> list[Object]:
    """Running pods with labels of their own; of each job-name there are pods/terms, which keep off each other's node.

    That is what charts do which give each of their jobs an anti-affinity to its own name.
    """
    build = Builder(prefix)
    build.nodes(N_NODES_APART, named=True)
    queue = build.queue("queue", "", N_NODES_APART * GPUS_PER_NODE, 0)
    for j in range(pods):
        _add_apart(build, j, queue, f"job-{j % terms}", build.node(j % N_NODES_APART))
    return build.objects


def one_apart(prefix: str, number: int) -> list[Object]:
    """One more of these, which waits, with a job-name that none of the others has."""
    build = Builder(prefix)
    _add_apart(build, 100_000 + number, f"{prefix}queue", f"new-job-{number}", "")
    return build.objects[1:]  # without the priority class, which is there


def _add_apart(build: Builder, j: int, queue: str, job: str, node: str) -> None:
    term = PodTerm(HOSTNAME, (Requirement("job-name", "In", (build.prefix + job,)),), ("ml",))
    shape = replace(build.shape(0), anti_affinity=(term,))
    labels = {"job-name": build.prefix + job, "pod": f"{build.prefix}{j}"}
    build.job(j, queue, 0, node=node, shape=shape, labels=labels)


N_NODES_APART = 201
EVERY_ACTION = ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")
CASES: dict[str, Case] = {
    "allocate-100n": Case(
        partial(uniform, n_nodes=100, leaves=4, departments=2, n_jobs=500), ("allocate",), Outcome(bound=500)
    ),
    "queues-50n": Case(
        partial(uniform, n_nodes=50, leaves=20, departments=5, n_jobs=200), ("allocate",), Outcome(bound=200)
    ),
    "gangs-50n": Case(
        partial(uniform, n_nodes=50, leaves=4, departments=2, n_jobs=100, pods=4), ("allocate",), Outcome(bound=400)
    ),
    "cycle-100n": Case(
        partial(uniform, n_nodes=100, leaves=4, departments=2, n_jobs=500, runs=lambda j: j % 2 == 0),
        EVERY_ACTION,
        Outcome(bound=250),
    ),
    "fill-100n": Case(
        partial(
            uniform, n_nodes=100, leaves=20, departments=5, n_jobs=1600, gpus_of=lambda j: (1, 2, 4, 8)[(j // 20) % 4]
        ),
        ("allocate",),
        Outcome(bound_gpus=800),
    ),
    "contended-100n": Case(
        partial(
            uniform, n_nodes=100, leaves=20, departments=5, n_jobs=1600, gpus_of=lambda j: (1, 2, 4, 8)[(j // 20) % 4]
        ),
        EVERY_ACTION,
        Outcome(held_gpus=800, most_evicted=37),
    ),
    **{
        f"reclaim-gang-{n}n": Case(
            partial(borrowed, n_nodes=n, seekers=1, pods=n // 2, gpus=8), ("reclaim",), Outcome(evicted=4 * n)
        )
        for n in (100, 200, 500, 1000)
    },
    **{
        f"reclaim-singles-{n}n": Case(
            partial(borrowed, n_nodes=n, seekers=8 * n, pods=1, gpus=1), ("reclaim",), Outcome(evicted=8 * n)
        )
        for n in (100, 200, 500)
    },
    **{
        f"reclaim-impossible-{n}n": Case(
            partial(borrowed, n_nodes=n, seekers=1, pods=10, gpus=8, quota=80.0, lent=8.0 * n - 79.0),
            ("reclaim",),
            Outcome(evicted=0, reasons_for_all=True),
        )
        for n in (100, 500, 1000)
    },
    "reclaim-impossible-antiaffinity-100n": Case(
        partial(borrowed, n_nodes=100, seekers=1, pods=10, gpus=8, apart=True),
        ("reclaim",),
        Outcome(evicted=0, reasons_for_all=True),
    ),
    "reclaim-pinned-500n": Case(
        partial(borrowed, n_nodes=500, seekers=1, pods=10, gpus=8, pinned=True),
        ("reclaim",),
        Outcome(evicted=0, reasons_for_all=True),
    ),
    "preempt-50n": Case(partial(preempted, n_nodes=50, seekers=100), ("preempt",), Outcome(evicted=100)),
    "consolidate-80n": Case(
        partial(fragmented, n_nodes=80, seekers=10), EVERY_ACTION, Outcome(evicted=70), most_moved=-1
    ),
    **{
        f"mixed-reclaim-{n}n": Case(partial(mixed_reclaim, n_nodes=n), EVERY_ACTION, Outcome(reasons_for_all=True))
        for n in (300, 1000, 3000)
    },
    "queues-500-2000n": Case(
        partial(many_queues, n_nodes=2000, leaves=500), EVERY_ACTION, Outcome(reasons_for_all=True)
    ),
    "own-affinity-1000n": Case(
        partial(own_constraints, n_nodes=1000, pods=5000, apart=False), EVERY_ACTION, Outcome(reasons_for_all=True)
    ),
    "own-antiaffinity-2000n": Case(
        partial(own_constraints, n_nodes=2000, pods=5000, apart=True), EVERY_ACTION, Outcome(reasons_for_all=True)
    ),
    "big-5000n": Case(big_5000n, EVERY_ACTION, Outcome(reasons_for_all=True)),
    "big-5000n-steady": Case(big_5000n, EVERY_ACTION, Outcome(reasons_for_all=True), steady=True),
    **{
        f"terms-{pods}": Case(
            partial(apart_by_job, pods=pods, terms=pods // 2), EVERY_ACTION, Outcome(bound=1), newcomer=one_apart
        )
        for pods in (1000, 4000)
    },
}


def fresh_store(case: Case, prefix: str, seed: int) -> Store:
    """A store with the shape's objects, put in shuffled."""
    objects = case.make(prefix)
    random.Random(seed).shuffle(objects)
    store = Store()
    for item in objects:
        store.put(item)
    return store
