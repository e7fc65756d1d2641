"""The start of a cycle: in which order books are opened, shares divided and nodes judged; which pods are too large for
any node (semantics 2, 12.1).

Everything here depends on the snapshot alone and is computed once, before the first action. Fair shares do not change
during the cycle (2.2).

Cost: a few passes over T tasks and N nodes, 3 (Q + 1) divisions, and N nodes for each of K static signatures.
Invariant: afterwards the working state is complete, and the undo log is empty.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import CPU, GPU, Floats, Ints, Longs, Queues, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.jit import inner, kernel
from kai_sched.solver.kernels.account import (
    add_price,
    open_claims,
    open_cluster,
    open_devices,
    open_jobs,
    open_nodes,
    open_queues,
    open_term_roles,
)
from kai_sched.solver.kernels.devices import price_of
from kai_sched.solver.kernels.feasibility import judge_nodes
from kai_sched.solver.kernels.numa import asks_for_zones, open_zones
from kai_sched.solver.kernels.share import divide_siblings, divide_tree
from kai_sched.solver.state import Book, Context, Division

IS_PENDING = int(Status.PENDING)
IS_PIPELINED = int(Status.PIPELINED)
IS_ALLOCATED = int(Status.ALLOCATED)
IS_RUNNING = int(Status.RUNNING)
OK = int(Verdict.OK)
TOO_LARGE = int(Verdict.TOO_LARGE)


@kernel
def fair_share(ctx: Context) -> None:
    """Fill the working state of ``make_state``, in place and directly: rooms, counters and the books of queues.

    Afterwards ``state.idle`` and ``state.releasing`` (N, R) hold the room of nodes, ``state.task`` (T,), ``state.sets``
    (S,), ``state.domains`` (D,) and ``state.ports`` (N, P) the tasks and their term roles, and ``state.book``
    (Q + 1, 3) what queues hold and request (2.2) and their fair and allocatable shares (2.3 to 2.5).
    """
    snapshot, state, scratch = ctx.snapshot, ctx.state, ctx.scratch
    tasks = snapshot.tasks
    open_nodes(tasks.status, state.idle, state.releasing, ctx)
    open_devices(tasks.status, ctx)
    open_claims(tasks.status, ctx)
    open_zones(ctx)
    open_jobs(ctx)
    open_queues(ctx)
    open_term_roles(tasks.status, ctx)
    open_cluster(state.book.share[snapshot.queues.parent.shape[0]], ctx)
    book = state.book
    divide_tree(snapshot.queues, ctx.settings.k_value, book, book.asked, book.fair, book.share, scratch.work)
    if ctx.settings.steady == 1:
        ask_for_all(snapshot.queues, book)
        divide_tree(snapshot.queues, ctx.settings.k_value, book, book.steady, book.steady, book.keep, scratch.work)


@inner
def ask_for_all(queues: Queues, book: Book) -> None:
    """Write what queues request for their steady share (4.9) to ``book.steady`` (Q + 1, 3).

    Leaves with a weight and a finite quota of the resource request the whole cluster, and so do the queues above them;
    the others what they request in fact. Row Q of ``book.keep`` gets the capacity.
    """
    n_queues = queues.parent.shape[0]
    for r in range(3):
        total = book.share[n_queues, r]
        book.keep[n_queues, r] = total
        for q in range(n_queues):
            book.steady[q, r] = book.asked[q, r]
        for q in range(n_queues):
            is_leaf = queues.child_ptr[q] == queues.child_ptr[q + 1]
            above = q if is_leaf and queues.weight[q, r] > 0.0 and book.quota[q, r] < np.inf else NULL
            while above != NULL:  # Bound: the depth of the queue tree.
                book.steady[above, r] = total
                above = queues.parent[above]


@kernel
def sum_pool(pipelined: Ints, held: Floats, fixed: Floats, asked: Floats, ctx: Context) -> None:
    """Count what the jobs of the snapshot hold and request as the working state is now, without ``*_elsewhere`` (2.8).

    Background jobs count as absent (11.5). What is requested is that of the start.

    Parameters
    ----------
    pipelined : (T,), the row of the node that an earlier cycle promised the task: if it is pending, it holds that; NULL
    held, fixed, asked : (Q, 3), zeros that are filled in place: millicores, bytes, GPUs; ``fixed`` is what jobs hold
        that are not preemptible
    """
    tasks, jobs, now = ctx.snapshot.tasks, ctx.snapshot.jobs, ctx.state.task
    for t in range(pipelined.shape[0]):
        j = tasks.job[t]
        if j == NULL or jobs.queue[j] == NULL or jobs.background[j] == 1:
            continue
        n = now.node[t] if IS_PIPELINED <= now.status[t] <= IS_RUNNING else NULL
        if now.status[t] == IS_PENDING:
            n = pipelined[t]
        first = tasks.node[t] if IS_ALLOCATED <= tasks.status[t] <= IS_RUNNING else NULL
        if n != NULL:
            add_price(t, n, held, ctx)
            if jobs.preemptible[j] == 0:
                add_price(t, n, fixed, ctx)
        if first != NULL or tasks.status[t] == IS_PENDING:
            add_price(t, first, asked, ctx)


@kernel
def feasibility(ctx: Context) -> None:
    """Judge all nodes for the classes of pods that may be placed, and all classes against the largest node (12.1).

    Writes ``finder.verdicts`` (K, N), ``finder.refused`` (C,) and ``finder.dynamic`` (C,), directly. A class is
    TOO_LARGE if a request exceeds the largest allocatable amount of any node; the maxima may come from different nodes.
    """
    snapshot, finder, scratch = ctx.snapshot, ctx.finder, ctx.scratch
    classes, tasks, term_roles = snapshot.classes, snapshot.tasks, snapshot.term_roles
    allocatable = snapshot.nodes.allocatable
    for t in range(tasks.job.shape[0]):
        # Running tasks as well: a search may have to place them elsewhere.
        if tasks.job[t] != NULL and IS_PENDING <= tasks.status[t] <= IS_RUNNING:
            scratch.wanted[classes.signature[tasks.cls[t]]] = 1
    judge_nodes(snapshot.nodes, snapshot.signatures, scratch.wanted, finder.verdicts)
    n_resources = classes.request.shape[1]
    largest = scratch.largest
    every_node_has_cpu, every_node_has_gpus, smallest = True, True, NULL
    for n in range(allocatable.shape[0]):
        every_node_has_cpu = every_node_has_cpu and allocatable[n, CPU] > 0.0
        every_node_has_gpus = every_node_has_gpus and allocatable[n, GPU] > 0.0
        if allocatable[n, GPU] > 0.0:
            if smallest == NULL or snapshot.nodes.device_memory[n] < snapshot.nodes.device_memory[smallest]:
                smallest = n
        for r in range(n_resources):
            largest[r] = max(largest[r], allocatable[n, r])
    for c in range(classes.request.shape[0]):
        for r in range(n_resources):
            if finder.refused[c] == OK and classes.request[c, r] > largest[r]:
                finder.refused[c] = TOO_LARGE
        # Bin-pack gives a node without CPU 0 points, as many as the node with the most free CPU. Which node that is
        # depends on all nodes, so such classes are scored in full.
        odd = classes.cpu_only[c] == 1 and classes.request[c, CPU] == 0.0 and not every_node_has_cpu
        # The same for pods with MIG devices and nodes that have no others.
        whole = classes.request[c, GPU] > 0.0 or classes.shares[c] > 0
        odd = odd or (classes.cpu_only[c] == 0 and not whole and not every_node_has_gpus)
        # GPU memory costs a queue more on smaller devices, so that the limits of the queue decide about nodes.
        odd = odd or (classes.memory[c] > 0 and smallest != NULL and price_of(c, GPU, smallest, ctx) > classes.gate[c])
        # What others took in this cycle decides about volumes.
        odd = odd or snapshot.volumes.ptr[c + 1] > snapshot.volumes.ptr[c]
        # How many zones a pod would span depends on what others hold of them.
        odd = odd or asks_for_zones(c, ctx)
        finder.dynamic[c] = 1 if odd or term_roles.ptr[c + 1] > term_roles.ptr[c] else 0
        if classes.shares[c] > 0 and classes.quota[c, GPU] > 0.0:
            scratch.overshoot[0] = max(scratch.overshoot[0], classes.request[c, GPU] / classes.quota[c, GPU])


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
    """Divide one resource among siblings that are given in any order; return their fair shares (Q,).

    This is for callers in Python; kernels use ``kernels.share``, to which it gives the siblings by age.

    Parameters
    ----------
    total : units of the resource to divide
    k_value : how strongly past usage counts (``kernels.share.divide_siblings``)
    quota, limit : (Q,), units; inf is unlimited
    weight, request, usage, priority : (Q,), as in ``state.Division``
    rank : (Q,), the order by age, 0 for the oldest
    """
    order = np.argsort(rank)
    work = Division(*np.zeros((len(Division._fields), order.size)))
    for column, given in zip(work, (quota, limit, weight, request, usage, priority), strict=False):
        column[:] = np.asarray(given, np.float64)[order]
    divide_siblings(float(total), float(k_value), order.size, work)
    fair = np.empty(order.size)
    fair[order] = work.given
    return fair
