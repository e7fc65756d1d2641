"""Fair share: opens the books of the cycle and says what each queue is entitled to (semantics 2)."""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import CPU, Floats, Longs, Status, Verdict
from kai_sched.solver.jit import kernel
from kai_sched.solver.kernels.account import open_bonds, open_cluster, open_jobs, open_nodes, open_queues
from kai_sched.solver.kernels.feasibility import judge_nodes
from kai_sched.solver.kernels.share import divide as divide_siblings
from kai_sched.solver.kernels.share import divide_tree
from kai_sched.solver.state import Context, Division

IS_PENDING = int(Status.PENDING)
IS_RUNNING = int(Status.RUNNING)
OK = int(Verdict.OK)
TOO_LARGE = int(Verdict.TOO_LARGE)


@kernel
def fair_share(ctx: Context) -> None:
    """Fill the books: room, counters, what queues hold, ask for and are entitled to."""
    snapshot, state, scratch = ctx.snapshot, ctx.state, ctx.scratch
    tasks = snapshot.tasks
    open_nodes(tasks.status, state.idle, state.releasing, ctx)
    open_jobs(ctx)
    open_queues(ctx)
    open_bonds(tasks.status, ctx)
    open_cluster(state.book.share[snapshot.queues.parent.shape[0]], ctx)
    divide_tree(snapshot.queues, ctx.settings.k_value, state.book, scratch.work)


@kernel
def feasibility(ctx: Context) -> None:
    """Judge all nodes for the classes of pending pods, and all classes against the largest node (12.1)."""
    snapshot, finder, scratch = ctx.snapshot, ctx.finder, ctx.scratch
    classes, tasks, bonds = snapshot.classes, snapshot.tasks, snapshot.bonds
    allocatable = snapshot.nodes.allocatable
    for t in range(tasks.job.shape[0]):
        # those that are placed may have to move
        if tasks.job[t] != NULL and IS_PENDING <= tasks.status[t] <= IS_RUNNING:
            scratch.wanted[classes.signature[tasks.cls[t]]] = 1
    judge_nodes(snapshot.nodes, snapshot.signatures, scratch.wanted, finder.verdicts)
    n_resources = classes.request.shape[1]
    largest = scratch.largest
    every_node_has_cpu = True
    for n in range(allocatable.shape[0]):
        every_node_has_cpu = every_node_has_cpu and allocatable[n, CPU] > 0.0
        for r in range(n_resources):
            largest[r] = max(largest[r], allocatable[n, r])
    for c in range(classes.request.shape[0]):
        for r in range(n_resources):
            if finder.refused[c] == OK and classes.request[c, r] > largest[r]:
                finder.refused[c] = TOO_LARGE
        # A node without CPU ties with the one that has most of it free, which only a look at all nodes can tell.
        odd = classes.cpu_only[c] == 1 and classes.request[c, CPU] == 0.0 and not every_node_has_cpu
        finder.dynamic[c] = 1 if odd or bonds.ptr[c + 1] > bonds.ptr[c] else 0


def divide(
    total: float,
    k_value: float,
    quota: Floats,
    limit: Floats,
    weight: Floats,
    request: Floats,
    usage: Floats,
    priority: Longs,
    rank: Longs,
) -> Floats:
    """Divide one resource among siblings in any order; returns (Q,). ``rank``: 0 for the oldest; inf: unlimited."""
    order = np.argsort(rank)
    work = Division(*np.zeros((len(Division._fields), order.size)))
    for column, given in zip(work, (quota, limit, weight, request, usage, priority), strict=False):
        column[:] = np.asarray(given, np.float64)[order]
    divide_siblings(float(total), float(k_value), order.size, work)
    fair = np.empty(order.size)
    fair[order] = work.given
    return fair
