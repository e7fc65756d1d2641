"""Opening a cycle's books: room on nodes, what queues hold and ask for, how far gangs are (semantics 0.3, 2.1, 2.2)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import (
    GPU,
    Bond,
    Floats,
    Status,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.state import Context

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
def open_nodes(status: Statuses, idle: Floats, releasing: Floats, ctx: Context) -> None:
    """Fill ``idle`` and ``releasing`` (N, R) from what is allocatable and the pods that are there.

    A resource that a node does not have is not tracked on it: its entries stay 0.
    """
    nodes, node_of = ctx.snapshot.nodes, ctx.snapshot.tasks.node
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
            asked = ctx.snapshot.classes.request[ctx.snapshot.tasks.cls[t], r]
            if asked > 0.0 and nodes.allocatable[n, r] > 0.0:
                idle[n, r] -= asked
                if status[t] == IS_RELEASING:
                    releasing[n, r] += asked


@inner
def open_jobs(ctx: Context) -> None:
    """Fill where tasks are (T, 2) and the counters of their sets (S, 4)."""
    tasks, task_state, set_state = ctx.snapshot.tasks, ctx.state.task, ctx.state.sets
    for t in range(tasks.job.shape[0]):
        status = tasks.status[t]
        task_state.status[t] = status
        task_state.node[t] = tasks.node[t]
        if tasks.job[t] == NULL:
            continue
        if status == IS_PENDING:
            set_state.pending[tasks.set[t]] += 1
        elif IS_PIPELINED <= status <= IS_RUNNING:
            set_state.active[tasks.set[t]] += 1


@inner
def open_queues(ctx: Context) -> None:
    """Fill the queues' settings, what they hold and what they ask for, ancestors included; ``prices`` are (C, 3)."""
    queues, tasks, jobs, book = ctx.snapshot.queues, ctx.snapshot.tasks, ctx.snapshot.jobs, ctx.state.book
    for q in range(queues.parent.shape[0]):
        for r in range(3):
            book.quota[q, r] = queues.quota[q, r]
            book.limit[q, r] = queues.limit[q, r]
        book.priority[q] = queues.priority[q]
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
                price = ctx.snapshot.classes.quota[tasks.cls[t], r]
                book.asked[q, r] += price
                if holds:
                    book.held[q, r] += price
                    if jobs.preemptible[j] == 0:
                        book.held_fixed[q, r] += price
            q = queues.parent[q]


@inner
def open_bonds(status: Statuses, ctx: Context) -> None:
    """Fill the counters of inter-pod terms and host ports from the pods on nodes, leaving ones included (12.2)."""
    node_of, cls, terms = ctx.snapshot.tasks.node, ctx.snapshot.tasks.cls, ctx.snapshot.terms
    bonds, domains = ctx.snapshot.bonds, ctx.state.domains
    for t in range(node_of.shape[0]):
        n = node_of[t]
        if n == NULL or status[t] < IS_PIPELINED:
            continue
        for entry in range(bonds.ptr[cls[t]], bonds.ptr[cls[t] + 1]):
            role, row, weight = bonds.entry[entry, 0], bonds.entry[entry, 1], bonds.entry[entry, 2]
            if role == PORT:
                ctx.state.ports[n, row] += 1
            elif role == MATCH and terms.domain[row, n] != NULL:
                domains.matched[terms.domain[row, n]] += 1
            elif role == CARRY and terms.domain[row, n] != NULL:
                domains.carried[terms.domain[row, n]] += weight


@inner
def open_cluster(total: Floats, ctx: Context) -> None:
    """Add to ``total``, a row of the book, what there is to divide (2.1): ready nodes, less other schedulers' pods.

    A node gives no less than nothing: pods that ask for more than it has, as those may that no scheduler placed, must
    not take from what the others have. ``own`` (N, 3) is space to work in.
    """
    nodes, tasks, own = ctx.snapshot.nodes, ctx.snapshot.tasks, ctx.scratch.own
    for n in range(nodes.counted.shape[0]):
        for r in range(3):
            own[n, r] = nodes.allocatable[n, r]
    for t in range(tasks.node.shape[0]):
        n = tasks.node[t]
        if tasks.foreign[t] == 1 and n != NULL and nodes.counted[n] != 0 and tasks.status[t] >= IS_PIPELINED:
            for r in range(3):
                own[n, r] -= ctx.snapshot.classes.quota[tasks.cls[t], r]
    for n in range(nodes.counted.shape[0]):
        if nodes.counted[n] != 0:
            for r in range(3 if nodes.counted[n] == COUNTS_ALL else GPU):
                total[r] += max(own[n, r], 0.0)
