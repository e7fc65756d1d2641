"""Shapes of large clusters: thousands of nodes, and more pods than they can take."""

from __future__ import annotations

from kai_sched.model.objects import Object
from tests.perf.builder import GPUS_PER_NODE, Builder


def big_5000n(prefix: str) -> list[Object]:
    """4 departments, 36 projects, 360 teams; 28,000 GPUs run; 12,000 single pods and 1,500 gangs of 8 wait."""
    build = Builder(prefix)
    n_nodes, n_leaves, n_running = 5000, 360, 28_000
    build.nodes(n_nodes)
    queues = _three_levels(build, 4, 36, n_leaves, n_nodes * GPUS_PER_NODE)
    for j in range(n_running):
        build.job(j, queues[j % n_leaves], node=build.node(j % n_nodes))
    for j in range(n_running, n_running + 12_000):
        build.job(j, queues[j % n_leaves])
    for j in range(n_running + 12_000, n_running + 13_500):
        build.job(j, queues[j % n_leaves], pods=8)
    return build.objects


def one_more(prefix: str, number: int) -> list[Object]:
    """One more single pod of a queue of ``big_5000n``, which is full."""
    build = Builder(prefix)
    build.objects.clear()
    build.job(100_000 + number, f"{prefix}queue-{number:03}")
    return build.objects


def huge_10000n(prefix: str) -> list[Object]:
    """10 departments, 90 projects, 900 teams. 60,000 GPUs and 20,000 pods without any run; 10,000 pods with one GPU
    wait, and 10,000 that no node can hold."""
    build = Builder(prefix)
    n_nodes, n_leaves = 10_000, 900
    build.nodes(n_nodes)
    queues = _three_levels(build, 10, 90, n_leaves, n_nodes * GPUS_PER_NODE)
    for j in range(80_000):
        build.job(j, queues[j % n_leaves], int(j < 60_000), node=build.node(j % n_nodes))
    for j in range(80_000, 100_000):
        build.job(j, queues[j % n_leaves], 1 if j < 90_000 else 2 * GPUS_PER_NODE)
    return build.objects


def _three_levels(build: Builder, departments: int, projects: int, leaves: int, total: float) -> list[str]:
    """Leaves under projects under departments, leaf i under project i mod projects, all shares of a level equal."""
    for d in range(departments):
        build.queue(f"dep-{d:03}", "", total / departments, d)
    for p in range(projects):
        build.queue(f"project-{p:03}", f"dep-{p % departments:03}", total / projects, departments + p)
    older = departments + projects
    return [
        build.queue(f"queue-{q:03}", f"project-{q % projects:03}", total / leaves, older + q) for q in range(leaves)
    ]
