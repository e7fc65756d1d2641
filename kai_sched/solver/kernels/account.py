"""Opening a cycle's books: room on nodes, what queues hold and ask for, how far gangs are (semantics 0.3, 2.1, 2.2)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import (
    GPU,
    Bond,
    Bonds,
    Floats,
    Ints,
    Jobs,
    Longs,
    Nodes,
    Queues,
    Status,
    Tasks,
    Terms,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.state import (
    ACTIVE,
    ASKED,
    CARRIED,
    HELD,
    HELD_FIXED,
    LIMIT,
    MATCHED,
    NODE,
    PENDING,
    QUEUE_PRIORITY,
    QUOTA,
    SHARE,
    STATUS,
)

Statuses = npt.NDArray[np.int8]  # Tasks.status

IS_PENDING = int(Status.PENDING)
IS_PIPELINED = int(Status.PIPELINED)
IS_ALLOCATED = int(Status.ALLOCATED)
IS_RUNNING = int(Status.RUNNING)
IS_RELEASING = int(Status.RELEASING)
CARRY = int(Bond.CARRY)
MATCH = int(Bond.MATCH)
PORT = int(Bond.PORT)
COUNTS_ALL = 1  # Nodes.counted


@inner
def open_nodes(
    nodes: Nodes, node_of: Ints, status: Statuses, cls: Ints, requests: Floats, idle: Floats, releasing: Floats
) -> None:
    """Fill ``idle`` and ``releasing`` (N, R) from what is allocatable and the pods that are there.

    A resource that a node does not have is not tracked on it: its entries stay 0.
    """
    n_resources = idle.shape[1]
    for n in range(idle.shape[0]):
        for r in range(n_resources):
            idle[n, r] = nodes.allocatable[n, r]
        idle[n, GPU] -= nodes.shared_gpus[n]
    for t in range(node_of.shape[0]):
        n = node_of[t]
        if n == NULL or status[t] < IS_PIPELINED:
            continue
        for r in range(n_resources):
            asked = requests[cls[t], r]
            if asked > 0.0 and nodes.allocatable[n, r] > 0.0:
                idle[n, r] -= asked
                if status[t] == IS_RELEASING:
                    releasing[n, r] += asked


@inner
def open_jobs(tasks: Tasks, task_state: Longs, set_state: Longs) -> None:
    """Fill where tasks are (T, 2) and the counters of their sets (S, 4)."""
    for t in range(tasks.job.shape[0]):
        status = tasks.status[t]
        task_state[t, STATUS] = status
        task_state[t, NODE] = tasks.node[t]
        if tasks.job[t] == NULL:
            continue
        if status == IS_PENDING:
            set_state[tasks.set[t], PENDING] += 1
        elif IS_PIPELINED <= status <= IS_RUNNING:
            set_state[tasks.set[t], ACTIVE] += 1


@inner
def open_queues(queues: Queues, tasks: Tasks, prices: Floats, jobs: Jobs, book: Floats) -> None:
    """Fill the queues' settings, what they hold and what they ask for, ancestors included; ``prices`` are (C, 3)."""
    for q in range(queues.parent.shape[0]):
        for r in range(3):
            book[q, QUOTA + r] = queues.quota[q, r]
            book[q, LIMIT + r] = queues.limit[q, r]
        book[q, QUEUE_PRIORITY] = queues.priority[q]
    for t in range(tasks.job.shape[0]):
        j = tasks.job[t]
        status = tasks.status[t]
        if j == NULL or jobs.queue[j] == NULL:
            continue
        holds = IS_ALLOCATED <= status <= IS_RUNNING and tasks.node[t] != NULL
        if not holds and status != IS_PENDING:
            continue
        q = jobs.queue[j]
        while q != NULL:
            for r in range(3):
                price = prices[tasks.cls[t], r]
                book[q, ASKED + r] += price
                if holds:
                    book[q, HELD + r] += price
                    if jobs.preemptible[j] == 0:
                        book[q, HELD_FIXED + r] += price
            q = queues.parent[q]


@inner
def open_bonds(
    node_of: Ints, status: Statuses, cls: Ints, terms: Terms, bonds: Bonds, domains: Longs, ports: Longs
) -> None:
    """Fill the counters of inter-pod terms and host ports from the pods on nodes, leaving ones included (12.2)."""
    for t in range(node_of.shape[0]):
        n = node_of[t]
        if n == NULL or status[t] < IS_PIPELINED:
            continue
        for entry in range(bonds.ptr[cls[t]], bonds.ptr[cls[t] + 1]):
            role, row, weight = bonds.entry[entry, 0], bonds.entry[entry, 1], bonds.entry[entry, 2]
            if role == PORT:
                ports[n, row] += 1
            elif role == MATCH and terms.domain[row, n] != NULL:
                domains[terms.domain[row, n], MATCHED] += 1
            elif role == CARRY and terms.domain[row, n] != NULL:
                domains[terms.domain[row, n], CARRIED] += weight


@inner
def open_cluster(nodes: Nodes, tasks: Tasks, prices: Floats, own: Floats, total: Floats) -> None:
    """Add to ``total``, a row of the book, what there is to divide (2.1): ready nodes, less other schedulers' pods.

    A node gives no less than nothing: pods that ask for more than it has, as those may that no scheduler placed, must
    not take from what the others have. ``own`` (N, 3) is space to work in.
    """
    for n in range(nodes.counted.shape[0]):
        for r in range(3):
            own[n, r] = nodes.allocatable[n, r]
    for t in range(tasks.node.shape[0]):
        n = tasks.node[t]
        if tasks.foreign[t] == 1 and n != NULL and nodes.counted[n] != 0 and tasks.status[t] >= IS_PIPELINED:
            for r in range(3):
                own[n, r] -= prices[tasks.cls[t], r]
    for n in range(nodes.counted.shape[0]):
        if nodes.counted[n] != 0:
            for r in range(3 if nodes.counted[n] == COUNTS_ALL else GPU):
                total[SHARE + r] += max(own[n, r], 0.0)
