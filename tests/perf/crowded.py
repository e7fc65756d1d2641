"""Shapes where half of the teams hold all GPUs, and the others wait with pods of many kinds."""

from __future__ import annotations

import random
from dataclasses import replace

from kai_sched.model.constraints import PodTerm, Requirement
from kai_sched.model.objects import Object, Pod, PodGroup, PriorityClass
from tests.perf.builder import GPUS_PER_NODE, HOSTNAME, Builder


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


def one_elastic(prefix: str, n_nodes: int) -> list[Object]:
    """One elastic gang without quota has all GPUs, half of them above its minimum; gangs of 8 whole nodes want 1/4."""
    build = Builder(prefix)
    build.nodes(n_nodes)
    total = n_nodes * GPUS_PER_NODE
    holder = build.queue("holder", "", 0.0, 0, weight=0.0)
    waiting = build.queue("waiting", "", float(total), 1)
    build.job(0, holder, 1, total, build.node(0), preemptible=True)
    group, pods = build.objects[-total - 1], build.objects[-total:]
    assert isinstance(group, PodGroup)
    build.objects[-total - 1] = replace(group, min_member=total // 2)
    for p, pod in enumerate(pods):
        assert isinstance(pod, Pod)
        build.objects[p - total] = replace(pod, node=build.node(p % n_nodes))
    for j in range(1, n_nodes // 32 + 1):
        build.job(j, waiting, GPUS_PER_NODE, 8)
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


def near_others(prefix: str, n_nodes: int) -> list[Object]:
    """A cluster full of pods of a queue without quota; as many wait, each to be on a node with one of the others.

    So one of the others stays on each node.
    """
    build = Builder(prefix)
    build.nodes(n_nodes, named=True)
    total = n_nodes * GPUS_PER_NODE
    running = build.queue("running", "", 0.0, 0, weight=0.0)
    pending = build.queue("pending", "", float(total), 1)
    for j in range(total):
        build.job(j, running, node=build.node(j % n_nodes), labels={"app": "web"})
    term = PodTerm(HOSTNAME, (Requirement("app", "In", ("web",)),), ("ml",))
    shape = replace(build.shape(1), affinity=(term,))
    for j in range(total):
        build.job(total + j, pending, shape=shape)
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
