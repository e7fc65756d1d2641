"""Clusters as people ask about them: full, at rest, with gangs that wait for one reason or another."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace

from kai_sched.answers.explain.explanation import explain
from kai_sched.answers.trial import Trials
from kai_sched.answers.workloads import Workload, Workloads
from kai_sched.model.objects import Node, Object, Pod
from tests.perf.builder import GPUS_PER_NODE, Builder

ASKED = "job-asked"


def timed_explanation(trials: Trials, asked: Workload, workloads: Workloads) -> tuple[float, str]:
    """How many seconds an explanation takes, and a hash of what it says."""
    started = time.perf_counter()
    found = explain(trials, asked, workloads)
    seconds = time.perf_counter() - started
    said = [f"{each.text}: {costs.text}" for each, costs in found.suggestions]
    said += [each.text for each in found.constraints] + [each.bound for each in found.nothing]
    return seconds, hashlib.sha256("\n".join(said).encode()).hexdigest()


def explained_40n(prefix: str) -> list[Object]:
    """25 GPU nodes, two of them unusable, and 15 others; 9 teams in 3 departments; 20 jobs run and 20 wait."""
    build = Builder(prefix)
    build.nodes(25)
    for place in (10, 20):
        node = build.objects[1 + place]
        assert isinstance(node, Node)
        build.objects[1 + place] = replace(
            node, unschedulable=place == 10, bad_conditions=("NotReady",) * (place == 20)
        )
    for n in range(15):
        allocatable = {"cpu": 64_000.0, "memory": 2.5e11, "pods": 110.0}
        build.objects.append(Node(f"{prefix}cpu-{n:02}", f"{prefix}cpu-uid-{n:02}", {"kind": "cpu"}, allocatable))
    queues = build.tree(9, 3, 23 * GPUS_PER_NODE)
    _fill(build, queues[:8], [n for n in range(25) if n not in (10, 20)], pods=4, gpus=4)
    _wait(build, queues, 20, pods=4, gpus=8)
    return build.objects


def explained_2000n(prefix: str) -> list[Object]:
    """2,000 full nodes, 40 teams in 5 departments, 12,000 pods that run and 4,000 that wait."""
    build = Builder(prefix)
    build.nodes(2000)
    queues = build.tree(40, 5, 2000 * GPUS_PER_NODE)
    _fill(build, queues, list(range(2000)), pods=8, gpus=2, smaller=True)
    _wait(build, queues, 300, pods=8, gpus=8)
    _wait(build, queues, 1600, pods=1, gpus=1)
    return build.objects


def _fill(build: Builder, queues: list[str], nodes: list[int], pods: int, gpus: int, smaller: bool = False) -> None:
    """Jobs of the queues in turn until the nodes are full; ``smaller``: two of three have pods with half the GPUs."""
    free = dict.fromkeys(nodes, GPUS_PER_NODE)
    order = iter([n for n in nodes for _ in range(GPUS_PER_NODE)])
    number, at = 0, next(order)
    while sum(free.values()) >= pods * gpus:
        size = gpus // 2 if smaller and number % 3 else gpus
        first = len(build.objects)
        build.job(number, queues[number % len(queues)], size, pods, build.node(0))
        for place in range(first + 1, len(build.objects)):
            while free[at] < size:
                at = next(order)
            pod = build.objects[place]
            assert isinstance(pod, Pod)
            build.objects[place] = replace(pod, node=build.node(at))
            free[at] -= size
        number += 1


def _wait(build: Builder, queues: list[str], jobs: int, pods: int, gpus: int) -> None:
    """Jobs that wait in the queues in turn, numbered on."""
    first = sum(1 for each in build.objects if type(each).__name__ == "PodGroup")
    for number in range(first, first + jobs):
        build.job(number, queues[number % len(queues)], gpus, pods)
