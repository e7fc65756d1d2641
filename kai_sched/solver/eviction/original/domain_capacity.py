"""Original search only: whether topology domains have enough GPUs for the sets that require a level, all victims so far
gone (semantics 4.6).

This is no bound: as in v0.17.0, pods of the preemptor that run count as if they needed their GPUs once more, and the
largest set takes the domain with the most GPUs in which it fits, so that a scenario may be refused that would do. What
v0.17.0 decides depends on it. Constraints of pod sets do not count, as nothing but a set with sets below it does, and
the root.

Cost: O(tasks of the job x depth) for a probe. For a chunk O(N + H) for each topology, and for each set with a required
level O(sets of the job + H); it counts as work.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Sets, Snapshot, Status
from kai_sched.solver.eviction.original.scenarios import gpus_without_victims, in_hundredths
from kai_sched.solver.eviction.tables import NODES_A_UNIT, Search
from kai_sched.solver.jit import inner
from kai_sched.solver.state import Context, State

IS_PIPELINED = int(Status.PIPELINED)
IS_RUNNING = int(Status.RUNNING)


@inner
def sum_needs(p: int, k: int, snapshot: Snapshot, state: State, search: Search) -> None:
    """Sum the GPUs of the pods below each set of job ``p`` that requires a level, in place.

    Writes ``original.need`` (S,), 0 for other sets, and ``original.n_needs``, how many sets have a need. The pods are
    the active ones and the first ``k`` of ``search.pending`` (L,).
    """
    jobs = snapshot.jobs
    first, end = jobs.set_ptr[p], jobs.set_ptr[p + 1]
    search.original.n_needs[0] = 0
    for s in range(first, end):
        search.original.need[s] = 0.0
        search.original.n_needs[0] += requires_level(s, first, snapshot.sets)
    if search.original.n_needs[0] == 0:
        return
    for entry in range(k):
        add_need(search.pending[entry], first, snapshot, search)
    for t in range(jobs.task_ptr[p], jobs.task_ptr[p + 1]):
        if IS_PIPELINED <= state.task.status[t] <= IS_RUNNING:
            add_need(t, first, snapshot, search)


@inner
def add_need(t: int, root: int, snapshot: Snapshot, search: Search) -> None:
    """Add the GPUs of task ``t`` to ``original.need`` (S,) of each set above it that requires a level, in place."""
    sets, s = snapshot.sets, snapshot.tasks.set[t]
    gpus = in_hundredths(snapshot.classes.request[snapshot.tasks.cls[t], GPU])
    while s != NULL:  # Bound: the depth of the tree.
        if requires_level(s, root, sets):
            search.original.need[s] += gpus
        s = sets.parent[s]


@inner
def requires_level(s: int, root: int, sets: Sets) -> bool:
    """Return whether set ``s``, (S,), has to share a domain of some level and is the root or has sets below it."""
    is_whole = s == root or sets.child_end[s] > sets.child_ptr[s]
    return bool(is_whole and sets.topology[s] != NULL and sets.required[s] > 0)


@inner
def domains_have_gpus(p: int, ctx: Context, search: Search) -> bool:
    """Return whether each set of job ``p`` with a need finds a domain, the largest need first.

    It takes the domain of its level with the most GPUs in all, of those that have enough left. Reads ``original.need``
    (S,); overwrites ``domain_gpus`` and ``domain_taken`` (H,), and ``is_served`` (S,).
    """
    if search.original.n_needs[0] == 0:
        return True
    sum_domains(ctx, search)
    jobs, sets, table = ctx.snapshot.jobs, ctx.snapshot.sets, search.original
    first, end = jobs.set_ptr[p], jobs.set_ptr[p + 1]
    for s in range(first, end):
        table.is_served[s] = 0
    while True:  # Bound: each turn serves one set.
        search.counts.work[0] += (end - first) // NODES_A_UNIT
        largest = NULL
        for s in range(first, end):
            if (
                table.is_served[s] == 0
                and table.need[s] > 0.0
                and (largest == NULL or table.need[s] > table.need[largest])
            ):
                largest = s
        if largest == NULL:
            return True
        h = roomiest_domain(sets.topology[largest], sets.required[largest], table.need[largest], ctx, search)
        if h == NULL:
            return False
        table.domain_taken[h] += table.need[largest]
        table.is_served[largest] = 1


@inner
def sum_domains(ctx: Context, search: Search) -> None:
    """Sum the GPUs of each domain that are free, or will be once all victims so far are gone, in place.

    Writes ``original.domain_gpus`` (H,), and 0 to ``domain_taken`` (H,).
    """
    topologies, table = ctx.snapshot.topologies, search.original
    n_nodes = ctx.state.idle.shape[0]
    for w in range(topologies.ptr.shape[0] - 1):
        first, end = topologies.ptr[w], topologies.ptr[w + 1]
        search.counts.work[0] += (n_nodes + end - first) // NODES_A_UNIT
        for h in range(first, end):
            table.domain_gpus[h], table.domain_taken[h] = 0.0, 0.0
        for n in range(n_nodes):
            h = topologies.leaf[w, n]
            if h != NULL:
                table.domain_gpus[h] += gpus_without_victims(n, ctx.state, search)
        for h in range(end - 1, first, -1):  # those below before those above
            table.domain_gpus[topologies.parent[h]] += table.domain_gpus[h]


@inner
def roomiest_domain(w: int, level: int, need: float, ctx: Context, search: Search) -> int:
    """Return the domain of that level of topology ``w`` with the most GPUs, of those with ``need`` GPUs left; or NULL.

    Reads ``original.domain_gpus`` and ``domain_taken`` (H,).
    """
    topologies, table = ctx.snapshot.topologies, search.original
    search.counts.work[0] += (topologies.ptr[w + 1] - topologies.ptr[w]) // NODES_A_UNIT
    found = NULL
    for h in range(topologies.ptr[w], topologies.ptr[w + 1]):
        if topologies.level[h] != level or table.domain_gpus[h] - table.domain_taken[h] < need:
            continue
        if found == NULL or table.domain_gpus[h] > table.domain_gpus[found]:
            found = h
    return found
