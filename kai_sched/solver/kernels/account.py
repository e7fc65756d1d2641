"""The working state at the start of a cycle: which pods count for the room of nodes, for queues, for sets and for the
capacity (semantics 0.3, 2.1, 2.2).

Each kernel fills columns of the working state that are zero, from the frozen snapshot, once at the start of a cycle.
They write directly, not through the undo log, as there is nothing before them to go back to.

Cost: one pass over T tasks each, with R resources (``open_nodes``), L levels of the queue tree (``open_queues``) or
the term roles of the task's class (``open_term_roles``); ``open_nodes`` and ``open_cluster`` also pass N nodes.

Invariant afterwards: for each node and tracked resource, idle is allocatable minus what pods with a used status
request; for each queue, ``held`` and ``asked`` are the sums of its jobs and of the queues below it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Floats, Status, TermKind, TermRole
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.claims.holders import hold_claimed, use_slots
from kai_sched.solver.kernels.devices import hold_now, keep_later, price_of
from kai_sched.solver.state import Context

Statuses = npt.NDArray[np.int8]  # Tasks.status

IS_PENDING = int(Status.PENDING)
IS_PIPELINED = int(Status.PIPELINED)
IS_ALLOCATED = int(Status.ALLOCATED)
IS_RUNNING = int(Status.RUNNING)
IS_RELEASING = int(Status.RELEASING)
CARRY = int(TermRole.CARRY)
MATCH = int(TermRole.MATCH)
PORT = int(TermRole.PORT)
ANTI = int(TermKind.ANTI)
COUNTS_ALL = 1  # Nodes.counted


@inner
def open_nodes(status: Statuses, idle: Floats, releasing: Floats, ctx: Context) -> None:
    """Fill ``idle`` and ``releasing`` (N, R) from what is allocatable and the pods that are on the nodes (0.3).

    Amounts are in the units of the resource (0.2). A resource that a node does not have is not tracked on it: its
    entries stay 0. Pods with a share of GPUs take the part that they hold; ``open_devices`` books it by device.

    Parameters
    ----------
    status : (T,), ``tasks.status``, the ``Status`` of each task when the cycle begins
    idle, releasing : (N, R), zeros that are filled in place, directly
    """
    nodes, node_of = ctx.snapshot.nodes, ctx.snapshot.tasks.node
    n_resources = idle.shape[1]
    for n in range(idle.shape[0]):
        for r in range(n_resources):
            idle[n, r] = nodes.allocatable[n, r]
    for t in range(node_of.shape[0]):
        n = node_of[t]
        if n == NULL or status[t] < IS_PIPELINED:
            continue
        for r in range(n_resources):
            asked = ctx.snapshot.classes.request[ctx.snapshot.tasks.cls[t], r]
            if asked > 0.0 and nodes.allocatable[n, r] > 0.0:
                idle[n, r] -= asked
                # Only the room of pods that are leaving comes back. That of pods stuck in releasing is in neither
                # amount, so that no job waits for it.
                if status[t] == IS_RELEASING:
                    releasing[n, r] += asked


@inner
def open_devices(status: Statuses, ctx: Context) -> None:
    """Book the shares of the pods that are on the nodes (8.2), after ``open_nodes``.

    Fills ``state.shares`` (X,) and ``state.devices`` (G,), and so ``spare`` (N, 2) and the pod slots of devices in use.
    ``status`` (T,) is that of the snapshot. A pod that is stuck in releasing keeps its share: no pod waits for it.
    """
    tasks = ctx.snapshot.tasks
    for entry in range(tasks.device.shape[0]):
        ctx.state.shares[entry] = tasks.device[entry]
    for t in range(tasks.node.shape[0]):
        if tasks.share_ptr[t] == tasks.share_ptr[t + 1] or tasks.node[t] == NULL or status[t] < IS_PIPELINED:
            continue
        hold_now(t, tasks.node[t], 1, ctx)
        if status[t] != IS_RELEASING:
            keep_later(t, tasks.node[t], 1, ctx)
        # The state before is of no interest.
        ctx.log.size[:] = 0


@inner
def open_claims(status: Statuses, ctx: Context) -> None:
    """Book the devices of slices that claims have (8.6): those of pods on the nodes, and those that others keep.

    Fills ``state.claims``, (I,) and longer. ``status`` (T,) is that of the snapshot.
    """
    claims, state, tasks = ctx.snapshot.dra_claims, ctx.state.claims, ctx.snapshot.tasks
    for y in range(claims.device.shape[0]):
        state.device[y], state.option[y] = claims.device[y], claims.option[y]
    for i in range(claims.held.shape[0]):
        if claims.held[i] == 1:
            state.users_now[i], state.users_later[i] = 1, 1
            use_slots(i, 1, True, ctx)
            use_slots(i, 1, False, ctx)
            ctx.log.size[:] = 0
    if claims.claim.shape[0] == 0:
        return
    for t in range(tasks.node.shape[0]):
        if claims.task_ptr[t] == claims.task_ptr[t + 1] or tasks.node[t] == NULL or status[t] < IS_PIPELINED:
            continue
        hold_claimed(t, 1, ctx)
        ctx.log.size[:] = 0
        if status[t] != IS_RELEASING:
            for k in range(claims.task_ptr[t], claims.task_ptr[t + 1]):
                i = claims.claim[k]
                state.users_later[i] += 1
                if state.users_later[i] == 1:
                    use_slots(i, 1, False, ctx)
                ctx.log.size[:] = 0


@inner
def open_jobs(ctx: Context) -> None:
    """Fill ``state.task`` (T,) with the status and node of each task, and count the tasks of each set.

    Writes ``pending`` and ``active`` of ``state.sets``, (S,) each. Tasks of no job are copied but not counted.
    ``active`` includes pipelined tasks, as they hold a place.
    """
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
    """Fill what queues may have, hold and request, for the queue of each job and all queues above it (2.2).

    Reads ``classes.quota`` (C, 3), the amounts that count for a queue: millicores, bytes and GPUs. Writes ``quota``,
    ``limit``, ``held``, ``held_fixed`` and ``asked`` of the book, (Q + 1, 3) each, and ``priority``; row Q, the
    cluster, stays 0. A task that holds a place counts as held and as requested, a pending one as requested only; what
    background jobs request does not count (11.5). Tasks on nodes outside the snapshot hold nothing here, but for what
    ``*_elsewhere`` say of other node pools (2.8).
    """
    queues, tasks, jobs, book = ctx.snapshot.queues, ctx.snapshot.tasks, ctx.snapshot.jobs, ctx.state.book
    for q in range(queues.parent.shape[0]):
        for r in range(3):
            book.quota[q, r] = queues.quota[q, r]
            book.limit[q, r] = queues.limit[q, r]
            book.held[q, r] = queues.held_elsewhere[q, r]
            book.held_fixed[q, r] = queues.fixed_elsewhere[q, r]
            book.asked[q, r] = queues.asked_elsewhere[q, r]
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
        while q != NULL:  # Bound: the depth of the queue tree.
            for r in range(3):
                price = price_of(tasks.cls[t], r, tasks.node[t] if holds else NULL, ctx)
                if jobs.background[j] == 0:
                    book.asked[q, r] += price
                if holds:
                    book.held[q, r] += price
                    if jobs.preemptible[j] == 0:
                        book.held_fixed[q, r] += price
            q = queues.parent[q]


@inner
def add_price(t: int, n: int, amounts: Floats, ctx: Context) -> None:
    """Add what task ``t`` costs on node ``n`` (NULL: none yet) to ``amounts`` (Q, 3) or (Q + 1, 3), directly: to the
    row of its queue and to those of all queues above it."""
    q = ctx.snapshot.jobs.queue[ctx.snapshot.tasks.job[t]]
    while q != NULL:  # Bound: the depth of the queue tree.
        for r in range(3):
            amounts[q, r] += price_of(ctx.snapshot.tasks.cls[t], r, n, ctx)
        q = ctx.snapshot.queues.parent[q]


@inner
def open_term_roles(status: Statuses, ctx: Context) -> None:
    """Count the pods on nodes for inter-pod terms and host ports (12.2).

    Adds to ``state.domains.matched`` and ``carried`` (D,) and to ``state.ports`` (N, P), directly; what leaving pods
    mean for anti-affinity and ports is counted in ``leaving_domains`` and ``leaving_ports``. ``status`` (T,) is that
    of the snapshot. A node without the topology label of a term belongs to no domain and is not counted.
    """
    node_of, cls, terms = ctx.snapshot.tasks.node, ctx.snapshot.tasks.cls, ctx.snapshot.terms
    term_roles = ctx.snapshot.term_roles
    for t in range(node_of.shape[0]):
        n = node_of[t]
        if n == NULL or status[t] < IS_PIPELINED:
            continue
        for entry in range(term_roles.ptr[cls[t]], term_roles.ptr[cls[t] + 1]):
            role, row, weight = term_roles.entry[entry, 0], term_roles.entry[entry, 1], term_roles.entry[entry, 2]
            guards = role == PORT or terms.kind[row] == ANTI
            leaves = guards and status[t] == IS_RELEASING
            domains = ctx.state.leaving_domains if leaves else ctx.state.domains
            if role == PORT:
                ports = ctx.state.leaving_ports if leaves else ctx.state.ports
                ports[n, row] += 1
            elif role == MATCH and terms.domain[row, n] != NULL:
                domains.matched[terms.domain[row, n]] += 1
            elif role == CARRY and terms.domain[row, n] != NULL:
                domains.carried[terms.domain[row, n]] += weight


@inner
def open_cluster(total: Floats, ctx: Context) -> None:
    """Add the capacity (2.1) to ``total``: what ready nodes have, minus what pods of other schedulers request.

    The capacity of other node pools that share (2.8) is added to that.

    A node contributes at least 0: pods that request more than it has, as pods that no scheduler placed may, must not
    take from the capacity of other nodes. ``nodes.counted`` (N,) says which nodes contribute all, or all but GPUs.

    Parameters
    ----------
    total : one row of ``book.share`` (Q + 1, 3), in millicores, bytes and GPUs; written in place, directly.
        ``scratch.own`` (N, 3) is overwritten
    """
    nodes, tasks, own = ctx.snapshot.nodes, ctx.snapshot.tasks, ctx.scratch.own
    for r in range(3):
        total[r] += ctx.snapshot.queues.capacity_elsewhere[0, r]
    for n in range(nodes.counted.shape[0]):
        for r in range(3):
            own[n, r] = nodes.allocatable[n, r]
        own[n, GPU] += nodes.mig_gpus[n]
    for t in range(tasks.node.shape[0]):
        n = tasks.node[t]
        if tasks.foreign[t] == 1 and n != NULL and nodes.counted[n] != 0 and tasks.status[t] >= IS_PIPELINED:
            for r in range(3):
                own[n, r] -= ctx.snapshot.classes.quota[tasks.cls[t], r]
    for n in range(nodes.counted.shape[0]):
        if nodes.counted[n] != 0:
            for r in range(3 if nodes.counted[n] == COUNTS_ALL else GPU):
                total[r] += max(own[n, r], 0.0)
