"""The stream of potential victims of one probe: chunk after chunk, the least deserving first (semantics 4.3 to 4.5)."""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Floats, Longs, Snapshot, Status, Verdict
from kai_sched.solver.eviction.leaf_order import rewind
from kai_sched.solver.eviction.queue_order import build_queue_heaps, next_leaf, push_job_back, take
from kai_sched.solver.eviction.tables import MOST_KINDS, Search
from kai_sched.solver.eviction.victim_chunk import is_left, remaining_stage, victim_chunk
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import best_node
from kai_sched.solver.state import Context, State

OK = int(Verdict.OK)
IS_PIPELINED = int(Status.PIPELINED)


@inner
def begin(ceiling: int, givers: bool, ctx: Context, search: Search) -> None:
    """Forget what was accumulated, and line the victims of the open queues up anew (jobs below the ``ceiling``).

    With ``givers`` only those of leaves of which somebody may leave for good (GIVES_UP).
    """
    snapshot = ctx.snapshot
    forget(search)
    queues, slot = snapshot.queues, search.victims.heap
    for q in range(queues.parent.shape[0]):
        slot.job_heap_size[q] = 0
        rewind(q, search.victims)
        if search.queues.is_open[q] == 0.0 or (givers and search.queues.gives_up[q] == 0.0):
            slot.cursor[q] = slot.end[q]
    build_queue_heaps(ceiling, ctx, search.victims, search.counts.clock[0])
    for kind in range(search.counts.kinds[0]):
        search.kinds.with_potential[kind] = search.kinds.now[kind]
    for entry in range(search.counts.recorded[0]):
        open_room(search.lists.recorded[entry], ctx, search)
    for kind in range(search.counts.kinds[0]):
        search.kinds.with_recorded[kind] = search.kinds.with_potential[kind]


@inner
def forget(search: Search) -> None:
    """Undo all marks of the last accumulation."""
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
    count.probe[0] += 1
    count.touched_jobs[0] = 0
    count.potential[0] = 0
    count.batches[0] = 0
    count.nodes[0] = 0
    count.touched_nodes[0] = 0


@inner
def slots(request: Floats, idle: Floats, releasing: Floats, leaving: Floats) -> int:
    """How many pods with this ``request`` (R,) the node takes once what is ``leaving`` (R,) is gone."""
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
    """How many pods with this ``request`` (R,) the node takes as it is."""
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
    """Whether less than nothing of some resource is left on the node once all who leave have left."""
    for r in range(idle.shape[0]):  # noqa: SIM110 -- numba compiles no generators
        if idle[r] + releasing[r] < 0.0:
            return True
    return False


@inner
def count_kinds(k: int, ctx: Context, search: Search) -> None:
    """Note the classes of the first ``k`` pending tasks, and for how many of each there is room as it is.

    One task needs no sum over all nodes: with a place for it there is room, without one there is none anywhere.
    """
    snapshot, state = ctx.snapshot, ctx.state
    classes, kinds = snapshot.classes, search.kinds
    n_kinds = 0
    for entry in range(k):
        c = snapshot.tasks.cls[search.pending[entry]]
        kind = 0
        while kind < n_kinds and kinds.cls[kind] != c:
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
        if k == 1:
            room = 1 if best_node(search.pending[0], ctx) != NULL else 0
        else:
            for n in range(verdicts.shape[0]):
                if verdicts[n] == OK:
                    room += slots_now(classes.request[c], state.idle[n], state.releasing[n])
        kinds.now[kind] = room


@inner
def open_room(t: int, ctx: Context, search: Search) -> None:
    """Count what task ``t`` would leave on its node, and for how many pending tasks that makes room."""
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
    n_kinds = search.counts.kinds[0]
    for kind in range(n_kinds):
        wanted = search.kinds.cls[kind]
        if finder.verdicts[classes.signature[wanted], n] == OK:
            search.kinds.with_potential[kind] -= slots(classes.request[wanted], idle, releasing, requests)
    for r in range(idle.shape[0]):
        if snapshot.nodes.allocatable[n, r] > 0.0:
            requests[r] += classes.request[c, r]
    for kind in range(n_kinds):
        wanted = search.kinds.cls[kind]
        if finder.verdicts[classes.signature[wanted], n] == OK:
            search.kinds.with_potential[kind] += slots(classes.request[wanted], idle, releasing, requests)
    if search.tasks.recorded[t] > 0:
        search.rooms.recorded_gpus[n] += classes.quota[c, GPU]
    else:
        search.rooms.potential_gpus[n] += classes.quota[c, GPU]


@inner
def may_suffice(room: Longs, search: Search) -> bool:
    """Whether there could be ``room``, a column of ``search.kinds``, for all pending tasks, each class by itself."""
    for kind in range(search.counts.kinds[0]):  # noqa: SIM110 -- numba compiles no generators
        if room[kind] < search.kinds.wanted[kind]:
            return False
    return True


@inner
def accumulate(ceiling: int, ctx: Context, search: Search) -> bool:
    """Add the next chunk of victims; False where there is none left."""
    snapshot, state = ctx.snapshot, ctx.state
    jobs, sets = snapshot.jobs, snapshot.sets
    clock = search.counts.clock[0]
    while True:
        q, _ = next_leaf(ctx, search.victims)
        if q == NULL:
            return False
        j = take(q, ceiling, ctx, search.victims, clock)
        first, end = jobs.set_ptr[j], jobs.set_ptr[j + 1]
        if search.jobs.touched[j] == 0:
            search.jobs.touched[j] = 1
            search.lists.touched_jobs[search.counts.touched_jobs[0]] = j
            search.counts.touched_jobs[0] += 1
            for s in range(first, end):
                search.sets.left[s] = state.sets.active[s]
        length, emptied = victim_chunk(first, end, ctx, search, search.chunk)
        known = False
        for entry in range(length):
            known = known or search.tasks.recorded[search.chunk[entry]] > 0
        if known:
            length = known_tasks(j, snapshot, state, search)
        search.lists.chunk_start[search.counts.batches[0]] = search.counts.potential[0]
        search.lists.emptied[search.counts.batches[0]] = emptied
        search.lists.is_chosen[search.counts.batches[0]] = 0
        search.lists.kept[search.counts.batches[0]] = 0
        for entry in range(length):
            part(j, search.chunk[entry], snapshot, state, search)
            if not known:
                add(j, search.chunk[entry], ctx, search)
        left = 0
        for s in range(first, end):
            if sets.child_ptr[s] == sets.child_end[s]:
                left += search.sets.left[s]
        if left > 0:
            search.victims.jobs.stage[j] = remaining_stage(first, end, sets, search.sets)
            push_job_back(q, j, ceiling, ctx, search.victims, clock)
        if not known:
            search.counts.batches[0] += 1
            search.counts.last_job[0] = j
            return True


@inner
def known_tasks(j: int, snapshot: Snapshot, state: State, search: Search) -> int:
    """Write the recorded victims of a job to ``search.chunk``; returns how many."""
    length = 0
    for t in range(snapshot.jobs.task_ptr[j], snapshot.jobs.task_ptr[j + 1]):
        if search.tasks.recorded[t] > 0 and is_left(t, state, search):
            search.chunk[length] = t
            length += 1
    return length


@inner
def part(j: int, t: int, snapshot: Snapshot, state: State, search: Search) -> None:
    """Take a task from what is left of its job."""
    search.tasks.taken[t] = 1
    search.sets.left[snapshot.tasks.set[t]] -= 1
    if state.task.status[t] != IS_PIPELINED and state.task.node[t] != NULL:
        for r in range(3):
            search.victims.held[j, r] -= snapshot.classes.quota[snapshot.tasks.cls[t], r]


@inner
def add(j: int, t: int, ctx: Context, search: Search) -> None:
    """Append a potential victim, and to the chains of its job and its node."""
    count, task = search.counts, search.tasks
    entry = count.potential[0]
    count.potential[0] = entry + 1
    search.lists.potential[entry] = t
    task.batch[t] = count.batches[0]
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
    open_room(t, ctx, search)
    if search.nodes.first_potential[n] == 0:
        search.nodes.first_potential[n] = t + 1
        search.nodes.order[count.nodes[0]] = n
        search.nodes.place[n] = count.nodes[0]
        count.nodes[0] += 1
    else:
        task.next_on_node[search.nodes.last_potential[n]] = t + 1
    search.nodes.last_potential[n] = t
