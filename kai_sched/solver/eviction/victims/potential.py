"""Which victim comes next in a search, and when those so far may make room (semantics 4.3 to 4.5); ``victims.chunk``
says which of its pods leave.

``begin_accumulation`` starts an accumulation. Each call of ``accumulate`` adds one victim chunk (4.4): its tasks to
``lists.potential`` and to the chains of their job and of their node. Beside that it keeps an upper bound of the room
that all potential victims would leave, in ``search.kinds`` and ``search.rooms``, so that nothing is simulated before
there could be room.

Cost: O(tasks and sets of the job + depth of the queue tree) for a chunk and, as at most 4 classes of pending tasks are
counted, O(R) for the room of each of its tasks. ``begin_accumulation`` costs O(Q log Q), ``count_kinds`` O(N x R) for
several pending tasks. ``forget_accumulation`` costs what was accumulated, not the size of the cluster.

Invariant: the working state stays as it is. ``tasks.taken`` (T,) is 1 for the potential victims and for the recorded
victims that were passed, ``sets.left`` (S,) and ``victims.held`` (J, 3) say what is left of each touched job without
them, and ``kinds.with_potential`` never counts less room than there would be. ``forget_accumulation`` takes all of it
back.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Floats, Longs, Snapshot, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.tables import MOST_KINDS, Search
from kai_sched.solver.eviction.victims.chunk import is_left, remaining_stage, victim_chunk
from kai_sched.solver.eviction.victims.leaf_order import rewind
from kai_sched.solver.eviction.victims.queue_order import build_queue_heaps, next_leaf, push_job_back, take_next_job
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import best_node
from kai_sched.solver.kernels.devices import freed_by_pod
from kai_sched.solver.kernels.numa import asks_for_zones
from kai_sched.solver.kernels.score import has_guards
from kai_sched.solver.state import Context, State

OK = int(Verdict.OK)
IS_PIPELINED = int(Status.PIPELINED)


@inner
def begin_accumulation(ceiling: int, givers: bool, ctx: Context, search: Search) -> None:
    """Forget what was accumulated, and begin with the first victim of the open queues again.

    Writes the marks of the search in place: the heaps of victims, and ``kinds.with_recorded`` and ``with_potential``
    (4,). Before the first chunk both count the room that exists now and that the recorded victims leave.

    Parameters
    ----------
    ceiling : int
        Victims have a priority below this one (preempt); 2**62 for all other actions.
    givers : bool
        True: only leaves with ``queues.gives_up`` (Q,) set, of which shares let a job leave for good.
    """
    snapshot = ctx.snapshot
    forget_accumulation(search)
    queues, slot = snapshot.queues, search.victims.heap
    for q in range(queues.parent.shape[0]):
        slot.job_heap_size[q] = 0
        rewind(q, search.victims)
        # A leaf whose cursor is at its end has no job, and so joins no heap.
        if search.queues.is_open[q] == 0 or (givers and search.queues.gives_up[q] == 0.0):
            slot.cursor[q] = slot.end[q]
    build_queue_heaps(ceiling, ctx, search.victims, search.counts.clock[0])
    for kind in range(search.counts.kinds[0]):
        search.kinds.with_potential[kind] = search.kinds.now[kind]
    for entry in range(search.counts.recorded[0]):
        count_room_it_leaves(search.lists.recorded[entry], ctx, search)
    for kind in range(search.counts.kinds[0]):
        search.kinds.with_recorded[kind] = search.kinds.with_potential[kind]


@inner
def forget_accumulation(search: Search) -> None:
    """Take back all marks of the last accumulation, in place and not through the undo log.

    Resets ``tasks.taken`` (T,), the chains and ``search.rooms`` (N, R) of touched jobs and nodes, and what the jobs
    have left, from ``search.held`` (J, 3). The recorded victims stay recorded. ``counts.accumulation`` moves on, so
    chunks of different accumulations have different numbers.
    """
    count = search.counts
    for entry in range(count.touched_jobs[0]):
        j = search.lists.touched_jobs[entry]
        search.jobs.touched[j] = 0
        search.jobs.first_potential[j] = 0
        search.victims.jobs.stage[j] = search.jobs.stage[j]
        for r in range(3):
            search.victims.held[j, r] = search.held[j, r]
    for entry in range(count.potential[0]):
        search.tasks.taken[search.lists.potential[entry]] = 0
    for entry in range(count.recorded[0]):
        search.tasks.taken[search.lists.recorded[entry]] = 0
    for place in range(count.touched_nodes[0]):
        n = search.nodes.touched[place]
        search.nodes.mark[n] = 0
        search.nodes.first_potential[n] = 0
        search.rooms.potential_gpus[n], search.rooms.recorded_gpus[n], search.rooms.capacity[n] = 0.0, 0.0, 0.0
        for r in range(search.rooms.requests.shape[1]):
            search.rooms.requests[n, r] = 0.0
    count.accumulation[0] += 1
    count.touched_jobs[0] = 0
    count.potential[0] = 0
    count.n_chunks[0] = 0
    count.nodes[0] = 0
    count.touched_nodes[0] = 0


@inner
def slots(request: Floats, idle: Floats, releasing: Floats, leaving: Floats) -> int:
    """Return how many pods with this ``request`` (R,) fit on a node once what is ``leaving`` (R,) is gone, too.

    All are in the units of resources. A resource that the pod does not request must not be overcommitted either (0.3).

    Parameters
    ----------
    request : Floats, (R,)
        What one pod requests; at least one pod slot.
    idle, releasing : Floats, (R,)
        The rows of the node in the working state.
    leaving : Floats, (R,)
        What the victims on the node hold there.
    """
    fits = np.inf
    for r in range(request.shape[0]):
        free = idle[r] + releasing[r] + leaving[r]
        if request[r] > 0.0:
            fits = min(fits, np.floor(free / request[r]))
        elif free < 0.0:
            return 0
    return int(max(0.0, fits)) if fits < np.inf else 0


@inner
def slots_now(request: Floats, idle: Floats, releasing: Floats) -> int:
    """Return how many pods with this ``request`` (R,) fit on a node, now or once the pods that are leaving have left.

    The same as ``slots`` with nothing more leaving: ``idle`` and ``releasing`` (R,) are the rows of the node.
    """
    fits = np.inf
    for r in range(request.shape[0]):
        free = idle[r] + releasing[r]
        if request[r] > 0.0:
            fits = min(fits, np.floor(free / request[r]))
        elif free < 0.0:
            return 0
    return int(max(0.0, fits)) if fits < np.inf else 0


@inner
def is_overcommitted(idle: Floats, releasing: Floats) -> bool:
    """Return whether a node has less than 0 of some resource once all pods that are leaving have left.

    ``idle`` and ``releasing`` (R,) are the rows of the node. Each pod that does fit later then waits for none to come.
    """
    for r in range(idle.shape[0]):  # noqa: SIM110 -- numba compiles no generators
        if idle[r] + releasing[r] < 0.0:
            return True
    return False


@inner
def count_kinds(k: int, ctx: Context, search: Search) -> None:
    """Note the classes of the first ``k`` pending tasks, and for how many tasks of each class there is room now.

    Writes ``kinds.cls``, ``wanted`` and ``now`` (4,) in place, and ``counts.kinds``. Reads ``search.pending`` (L,). A
    fifth class and any after it are left out: without them the bound is weaker, and still sound.
    """
    snapshot, state = ctx.snapshot, ctx.state
    classes, kinds = snapshot.classes, search.kinds
    n_kinds = 0
    for entry in range(k):
        c = snapshot.tasks.cls[search.pending[entry]]
        kind = 0
        while kind < n_kinds and kinds.cls[kind] != c:  # Bound: ``n_kinds``.
            kind += 1
        if kind == MOST_KINDS:
            continue
        if kind == n_kinds:
            n_kinds += 1
            kinds.cls[kind] = c
            kinds.wanted[kind] = 0
        kinds.wanted[kind] += 1
    search.counts.kinds[0] = n_kinds
    for kind in range(n_kinds):
        c = kinds.cls[kind]
        verdicts = ctx.finder.verdicts[classes.signature[c]]
        room = 0
        # One task needs no sum over all nodes, and an exact answer: the best node takes terms and ports into account,
        # which ``slots_now`` does not. Where it is none, there is no room for the task without evictions. Not so where
        # devices are shared: ``count_room_it_leaves`` counts what victims add to the room by rows, in which there may
        # be room already that is no single device. Nor where ports or anti-affinity refuse a node with room: its
        # victims add nothing to the room. Nor where NUMA zones do.
        by_rows = snapshot.devices.reserved.shape[0] == 0 and not asks_for_zones(c, ctx)
        if k == 1 and by_rows and not has_guards(c, snapshot):
            room = 1 if best_node(search.pending[0], ctx) != NULL else 0
        else:
            for n in range(verdicts.shape[0]):
                if verdicts[n] == OK:
                    room += slots_now(classes.request[c], state.idle[n], state.releasing[n])
        kinds.now[kind] = room


@inner
def count_room_it_leaves(t: int, ctx: Context, search: Search) -> None:
    """Count what task ``t`` would leave on its node, and for how many pending tasks of each class that makes room.

    Adds to ``rooms.requests`` (N, R) what the task requests there, to ``rooms.recorded_gpus`` or ``potential_gpus``
    (N,) its GPUs, and to ``kinds.with_potential`` (4,) the difference in pods that fit on the node, all in place.
    A task without a node leaves nothing. The task is not evicted: this only counts what an eviction would leave.

    Each node with a victim is listed in ``nodes.touched`` (N,), from which ``forget_accumulation`` clears it.
    """
    snapshot, state, finder = ctx.snapshot, ctx.state, ctx.finder
    n = state.task.node[t]
    if n == NULL:
        return
    if search.nodes.mark[n] == 0:
        search.nodes.mark[n] = 1
        search.nodes.touched[search.counts.touched_nodes[0]] = n
        search.counts.touched_nodes[0] += 1
    classes = snapshot.classes
    c = snapshot.tasks.cls[t]
    idle, releasing, requests = state.idle[n], state.releasing[n], search.rooms.requests[n]
    # The sum over all nodes is kept up to date: the slots of this node are taken off before it changes, and added
    # after.
    n_kinds = search.counts.kinds[0]
    for kind in range(n_kinds):
        wanted = search.kinds.cls[kind]
        if finder.verdicts[classes.signature[wanted], n] == OK:
            search.kinds.with_potential[kind] -= slots(classes.request[wanted], idle, releasing, requests)
    for r in range(idle.shape[0]):
        # A resource of which the node has nothing is not tracked there (semantics 0.3), so its idle amount stays 0.
        if snapshot.nodes.allocatable[n, r] > 0.0:
            requests[r] += freed_by_pod(c, r, snapshot)
    for kind in range(n_kinds):
        wanted = search.kinds.cls[kind]
        if finder.verdicts[classes.signature[wanted], n] == OK:
            search.kinds.with_potential[kind] += slots(classes.request[wanted], idle, releasing, requests)
    if search.tasks.recorded[t] > 0:
        search.rooms.recorded_gpus[n] += classes.request[c, GPU]
    else:
        search.rooms.potential_gpus[n] += classes.request[c, GPU]


@inner
def may_suffice(room: Longs, search: Search) -> bool:
    """Return whether there could be room for all pending tasks, each class by itself.

    Claim: if this is False, no choice among these victims makes room for all pending tasks. Proof: a scenario evicts
    some of the victims, so that no node has more free (N, R) than with all of them gone. On each node a class then fits
    at most as often as ``slots`` says, which ignores other classes, inter-pod terms and ports. If the sum over nodes is
    less than the class needs, some task is left.

    Parameters
    ----------
    room : Longs, (4,)
        A column of ``search.kinds``: which victims count as gone.
    """
    for kind in range(search.counts.kinds[0]):  # noqa: SIM110 -- numba compiles no generators
        if room[kind] < search.kinds.wanted[kind]:
            return False
    return True


@inner
def accumulate(ceiling: int, ctx: Context, search: Search) -> bool:
    """Add the next victim chunk to the potential victims.

    The chunk comes from the first job of the first leaf in the order of victims (4.3). What is left of the job goes
    back into the order with its new stage. Writes the lists, chains and marks of ``search`` in place, among them
    ``lists.chunk_start`` and ``emptied`` (T + 1,) for the new chunk.

    Returns
    -------
    bool
        False: no victim is left. True: the chunk is number ``counts.n_chunks - 1``, of job ``last_job``.
    """
    snapshot, state = ctx.snapshot, ctx.state
    jobs, sets = snapshot.jobs, snapshot.sets
    clock = search.counts.clock[0]
    while True:  # Bound: each turn takes at least one task of a victim.
        q, _ = next_leaf(ctx, search.victims)
        if q == NULL:
            return False
        j = take_next_job(q, ceiling, ctx, search.victims, clock)
        first, end = jobs.set_ptr[j], jobs.set_ptr[j + 1]
        if search.jobs.touched[j] == 0:
            search.jobs.touched[j] = 1
            search.lists.touched_jobs[search.counts.touched_jobs[0]] = j
            search.counts.touched_jobs[0] += 1
            for s in range(first, end):
                search.sets.left[s] = state.sets.active[s]
                search.sets.tail[s] = sets.task_ptr[s + 1]
        length, emptied = victim_chunk(first, end, ctx, search, search.chunk)
        known = False
        for entry in range(length):
            known = known or search.tasks.recorded[search.chunk[entry]] > 0
        # A recorded victim is in each scenario already and is not added again (4.5). All recorded tasks of the job
        # leave with the chunk that meets the first of them, and then the next chunk is taken.
        if known:
            length = known_tasks(j, snapshot, state, search)
        search.lists.chunk_start[search.counts.n_chunks[0]] = search.counts.potential[0]
        search.lists.emptied[search.counts.n_chunks[0]] = emptied
        for entry in range(length):
            take_off(j, search.chunk[entry], snapshot, state, search)
            if not known:
                add_potential_victim(j, search.chunk[entry], ctx, search)
        left = 0
        for s in range(first, end):
            if sets.child_ptr[s] == sets.child_end[s]:
                left += search.sets.left[s]
        if left > 0:
            search.victims.jobs.stage[j] = remaining_stage(first, end, sets, search.sets)
            push_job_back(q, j, ceiling, ctx, search.victims, clock)
        if not known:
            search.counts.n_chunks[0] += 1
            return True


@inner
def last_job(snapshot: Snapshot, search: Search) -> int:
    """Return the row of the job whose chunk was accumulated last: ``lists.potential`` (T + 1,) ends with its tasks."""
    return int(snapshot.tasks.job[search.lists.potential[search.counts.potential[0] - 1]])


@inner
def known_tasks(j: int, snapshot: Snapshot, state: State, search: Search) -> int:
    """Write the recorded victims of job ``j`` that are left to ``search.chunk`` (L,), and return how many there are."""
    length = 0
    for t in range(snapshot.jobs.task_ptr[j], snapshot.jobs.task_ptr[j + 1]):
        if search.tasks.recorded[t] > 0 and is_left(t, state, search):
            search.chunk[length] = t
            length += 1
    return length


@inner
def take_off(j: int, t: int, snapshot: Snapshot, state: State, search: Search) -> None:
    """Take task ``t`` off what is left of its job ``j``: ``sets.left`` (S,) and ``victims.held`` (J, 3), in place.

    A pipelined task does not count as held (``candidates.measure_victim``), so nothing is taken off for it.
    """
    search.tasks.taken[t] = 1
    search.sets.left[snapshot.tasks.set[t]] -= 1
    if state.task.status[t] != IS_PIPELINED and state.task.node[t] != NULL:
        for r in range(3):
            search.victims.held[j, r] -= snapshot.classes.quota[snapshot.tasks.cls[t], r]


@inner
def add_potential_victim(j: int, t: int, ctx: Context, search: Search) -> None:
    """Append task ``t`` of job ``j`` to the potential victims, and to the chains of its job and of its node, in place.

    Chains hold the next task plus 1, so that 0 ends them: ``tasks.next_of_job`` and ``next_on_node`` (T,). Both are in
    the order of accumulation. A node that gets its first victim is appended to ``nodes.order`` (N,).
    """
    count, task = search.counts, search.tasks
    entry = count.potential[0]
    count.potential[0] = entry + 1
    search.lists.potential[entry] = t
    task.chunk_of[t] = count.n_chunks[0]
    task.next_of_job[t] = 0
    task.next_on_node[t] = 0
    if search.jobs.first_potential[j] == 0:
        search.jobs.first_potential[j] = t + 1
    else:
        task.next_of_job[search.jobs.last_potential[j]] = t + 1
    search.jobs.last_potential[j] = t
    n = ctx.state.task.node[t]
    if n == NULL:
        return
    count_room_it_leaves(t, ctx, search)
    if search.nodes.first_potential[n] == 0:
        search.nodes.first_potential[n] = t + 1
        search.nodes.order[count.nodes[0]] = n
        search.nodes.place[n] = count.nodes[0]
        count.nodes[0] += 1
    else:
        task.next_on_node[search.nodes.last_potential[n]] = t + 1
    search.nodes.last_potential[n] = t
