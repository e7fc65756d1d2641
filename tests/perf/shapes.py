"""The named shapes of the benchmark: clusters as model objects, made the same way every time and shuffled by a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from kai_sched.model.constraints import PodTerm, Requirement
from kai_sched.model.objects import Object, PriorityClass
from kai_sched.model.store import Store
from tests.perf.builder import GPUS_PER_NODE, HOSTNAME, Builder
from tests.perf.crowded import many_queues, mixed_reclaim, near_others, one_elastic, own_constraints
from tests.perf.devices import claims, fractions
from tests.perf.explained import explained_40n, explained_2000n
from tests.perf.in_topology import gang_in_a_rack, gangs_in_zones
from tests.perf.large import big_5000n, huge_10000n, one_more


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
    rests: bool = False  # after its cycles nothing changes any more
    most_evicted_share: float | None = None  # GPUs evicted in all cycles, for one that was not free and got used


@dataclass(frozen=True)
class Case:
    """A shape: how its objects are made, which actions run, and the outcome. ``prefix`` renames every object.

    ``steady``: the cycle after ``churned`` pods of a settled cluster changed.

    ``newcomer``: the objects of one more pod, by the prefix and a number. What such a pod costs, once all else is
    settled, is the shape's figure.

    ``cycles``: this many in a row, until nothing changes; the figure is the slowest of the first ``counted``. With
    ``changed``, so many pods change before each but the first two, and the cycle after them does not count. With
    ``explained``, the figure is the whole explanation of the group of this number among those that wait.
    """

    make: Callable[[str], list[Object]]
    actions: tuple[str, ...]
    outcome: Outcome
    steady: bool = False
    churned: int = 500
    most_moved: int = 16  # max-consolidation-preemptees
    newcomer: Callable[[str, int], list[Object]] | None = None
    cycles: int = 0
    counted: int = 0
    changed: int = 0
    explained: int | None = None


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
    "topology-1000n": Case(
        partial(gangs_in_zones, zones=4, racks=10, nodes=25, gangs=200), EVERY_ACTION, Outcome(bound=124 * 16)
    ),
    "reclaim-impossible-topology-100n": Case(
        partial(gang_in_a_rack, n_nodes=100, racks=12, pods=10, quota=80.0),
        ("reclaim",),
        Outcome(evicted=0, reasons_for_all=True),
    ),
    "reclaim-topology-500n": Case(
        partial(gang_in_a_rack, n_nodes=500, racks=20, pods=16, quota=128.0), ("reclaim",), Outcome(evicted=128)
    ),
    "preempt-50n": Case(partial(preempted, n_nodes=50, seekers=100), ("preempt",), Outcome(evicted=100)),
    "consolidate-80n": Case(
        partial(fragmented, n_nodes=80, seekers=10), EVERY_ACTION, Outcome(evicted=70), most_moved=-1
    ),
    **{
        f"mixed-reclaim-{n}n": Case(partial(mixed_reclaim, n_nodes=n), EVERY_ACTION, Outcome(reasons_for_all=True))
        for n in (300, 1000, 3000)
    },
    **{
        f"mixed-reclaim-{n}n-to-rest": Case(
            partial(mixed_reclaim, n_nodes=n),
            EVERY_ACTION,
            Outcome(rests=True, most_evicted_share=1.5),
            cycles=30,
            counted=3,
        )
        for n in (300, 1000, 3000)
    },
    "queues-500-2000n": Case(
        partial(many_queues, n_nodes=2000, leaves=500), EVERY_ACTION, Outcome(reasons_for_all=True)
    ),
    "elastic-1000n": Case(
        partial(one_elastic, n_nodes=1000),
        EVERY_ACTION,
        Outcome(evicted=248 * GPUS_PER_NODE, held_gpus=248 * GPUS_PER_NODE),
    ),
    **{
        f"reclaim-near-{n}n": Case(
            partial(near_others, n_nodes=n), ("reclaim",), Outcome(evicted=(GPUS_PER_NODE - 1) * n)
        )
        for n in (200, 1000)
    },
    "own-affinity-1000n": Case(
        partial(own_constraints, n_nodes=1000, pods=5000, apart=False), EVERY_ACTION, Outcome(reasons_for_all=True)
    ),
    "own-antiaffinity-2000n": Case(
        partial(own_constraints, n_nodes=2000, pods=5000, apart=True), EVERY_ACTION, Outcome(reasons_for_all=True)
    ),
    "fractions-200n": Case(partial(fractions, n_nodes=200, n_jobs=3000), EVERY_ACTION, Outcome(bound=3000)),
    "fractions-2000n": Case(partial(fractions, n_nodes=2000, n_jobs=28_000), EVERY_ACTION, Outcome(bound=28_000)),
    "fractions-2000n-steady": Case(
        partial(fractions, n_nodes=2000, n_jobs=28_000), EVERY_ACTION, Outcome(bound=250), steady=True
    ),
    "claims-200n": Case(partial(claims, n_nodes=200, n_pods=1000), EVERY_ACTION, Outcome(reasons_for_all=True)),
    "claims-200n-steady": Case(
        partial(claims, n_nodes=200, n_pods=1000), EVERY_ACTION, Outcome(reasons_for_all=True), steady=True
    ),
    "big-5000n": Case(big_5000n, EVERY_ACTION, Outcome(reasons_for_all=True)),
    "big-5000n-steady": Case(big_5000n, EVERY_ACTION, Outcome(reasons_for_all=True), steady=True),
    "arrive-5000n": Case(big_5000n, EVERY_ACTION, Outcome(), newcomer=one_more),
    "huge-10000n": Case(huge_10000n, EVERY_ACTION, Outcome(bound=10_000, unschedulable=10_000)),
    "huge-10000n-steady": Case(
        huge_10000n, EVERY_ACTION, Outcome(bound=500, unschedulable=10_000), steady=True, churned=1000
    ),
    "explain-40n": Case(explained_40n, EVERY_ACTION, Outcome(reasons_for_all=True), explained=0),
    "explain-2000n": Case(explained_2000n, EVERY_ACTION, Outcome(), explained=0),
    "churn-5000n": Case(big_5000n, EVERY_ACTION, Outcome(), cycles=52, counted=52, changed=500),
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
