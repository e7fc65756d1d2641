"""At the end of a cycle: which evictions are taken back because there is room again where the victims ran
(semantics 3.7, step 1).

Each search finds as few victims as will do for one job. A later search may evict a larger victim beside them, so
that earlier victims are no longer needed. When all actions are done, their evictions are taken back, those
decided last first.

Cost: E evictions are visited in each pass, and a pass is repeated while it keeps a victim: at most E + 1 passes.
A victim without room at home costs one comparison of R resources. A job that may stay costs one pass over the
evictions and one over its tasks. Invariant: no placement of this cycle changes but those of victims that stay
instead of moving. Only room that nothing uses is given, so no node gets more than it has; sets of a gang stay
whole, as ``return_job`` asks for chunks (3.2).
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Status
from kai_sched.solver.decisions import Evictions
from kai_sched.solver.eviction.evict import evict, has_room_at_home, keep_home_devices, move_cursor
from kai_sched.solver.eviction.minimal.simulation import node_to_return_to, return_job
from kai_sched.solver.eviction.minimal.task_moves import restore_victim
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.place import count_leaving, count_term_roles
from kai_sched.solver.kernels.undo import add_integer, set_integer, undo_all
from kai_sched.solver.state import Context, State

STALE_GANG = int(Action.STALE_GANG)
BACKGROUND = int(Action.BACKGROUND)
IS_PIPELINED = int(Status.PIPELINED)
IS_RELEASING = int(Status.RELEASING)
IS_EVICTED = int(Status.EVICTED)


@inner
def keep_victims(ctx: Context, search: Search) -> None:
    """Take evictions back until no victim has room where it ran (semantics 3.7).

    Edits the evictions (T,) and placements of ``ctx.decisions``, and the state, in place; the undo log is emptied,
    so this is final. A moved pod that stays loses its new place. Other pods stay as they would be placed: a whole
    chunk of their job, or none of it.
    """
    state, log, evictions = ctx.state, ctx.log, ctx.decisions.evictions
    anybody = evictions.length[0] > 0
    # The order is the reverse of the decisions: the victims of later searches go back first, as the earlier
    # searches did not count with them. A victim that stays elsewhere may free the room of its move, so passes are
    # repeated until one keeps no victim. Each pass but the last takes back at least one eviction, so this ends.
    while anybody:  # Bound: each pass but the last takes back an eviction.
        anybody = False
        log.size[:] = 0
        for row in range(evictions.length[0] - 1, -1, -1):
            t = int(evictions.task[row])
            if not may_be_kept(t, row, ctx, search):
                continue
            if state.task.status[t] == IS_PIPELINED:
                found = keep_moved_pod(t, ctx, search)
            else:
                found = keep_pods_of_job(row, ctx, search)
            anybody = anybody or found
            log.size[:] = 0
    drop_kept(state, evictions)


@inner
def may_be_kept(t: int, row: int, ctx: Context, search: Search) -> bool:
    """Return whether the victim ``t`` of eviction ``row`` is leaving or moving, and its old node has room for it.

    Pods of stale gangs are not kept (7), those of the background are not yet (11.5). Reads ``decisions.evictions`` and
    ``state.task.status``, (T,) each.
    """
    status = ctx.state.task.status[t]
    if ctx.decisions.evictions.action[row] in (STALE_GANG, BACKGROUND):
        return False
    if status != IS_RELEASING and status != IS_PIPELINED:
        return False
    return has_room_at_home(t, ctx, search)


@inner
def keep_moved_pod(t: int, ctx: Context, search: Search) -> bool:
    """Let pod ``t``, which was to move, stay on its node, if inter-pod terms and ports allow; return whether it stays.

    Writes the state through the undo log: on False it is undone. On True the pod's placement is removed from the
    placements (2 T rows) of ``ctx.decisions`` in place, and it has its node in ``task.node`` (T,) again.
    """
    snapshot, state, placements = ctx.snapshot, ctx.state, ctx.decisions.placements
    j, c, away = snapshot.tasks.job[t], snapshot.tasks.cls[t], state.task.node[t]
    prior, home = search.tasks.prior[t], search.tasks.home[t]
    # The pod is evicted from its promised place and restored at home, as in a search. ``evict`` notes that place
    # as its home, so the real home and status are put back.
    keep_home_devices(t, True, ctx, search)
    evict(j, t, 1, ctx, search)
    keep_home_devices(t, False, ctx, search)
    search.tasks.prior[t], search.tasks.home[t] = prior, home
    if ctx.finder.dynamic[c] == 1:
        count_leaving(c, away, -1, ctx)
        count_term_roles(c, away, -1, ctx)
    if node_to_return_to(t, False, ctx, search) == NULL:
        undo_all(ctx)
        return False
    restore_victim(t, ctx, search)
    set_integer(state.at.node + t, home, ctx)
    placements.task[placements.row[t]] = NULL
    placements.row[t] = NULL
    return True


@inner
def keep_pods_of_job(row: int, ctx: Context, search: Search) -> bool:
    """Let as many leaving pods of the job of eviction ``row`` stay as find room; return whether one does.

    Writes the state through the undo log. Pods that move are left alone. Cost: two passes over
    ``decisions.evictions`` (T,).
    """
    snapshot, state, evictions = ctx.snapshot, ctx.state, ctx.decisions.evictions
    j = snapshot.tasks.job[evictions.task[row]]
    # All leaving pods of the job become candidates at once: only together they may make up the chunk of a gang
    # that can stay (3.2).
    away = 0
    for other in range(evictions.length[0]):
        t = evictions.task[other]
        if snapshot.tasks.job[t] == j and evictions.action[other] != STALE_GANG:
            if state.task.status[t] == IS_RELEASING:
                count_as_evicted(t, 1, ctx)
                away += 1
    return_job(j, False, ctx, search)
    for other in range(evictions.length[0]):
        t = evictions.task[other]
        if snapshot.tasks.job[t] == j and state.task.status[t] == IS_EVICTED:
            count_as_evicted(t, -1, ctx)
            away -= 1
    return away > 0


@inner
def count_as_evicted(t: int, sign: int, ctx: Context) -> None:
    """Set the status of leaving pod ``t`` to EVICTED, so that it can be placed again.

    With ``sign`` -1 the status is RELEASING again. Writes ``task.status`` (T,) and the pending count and cursor
    of its set (S,) through the undo log.
    """
    at = ctx.state.at
    set_integer(at.status + t, IS_EVICTED if sign > 0 else IS_RELEASING, ctx)
    add_integer(at.pending + ctx.snapshot.tasks.set[t], sign, ctx)
    move_cursor(t, ctx)


@inner
def drop_kept(state: State, evictions: Evictions) -> None:
    """Remove the evictions that were taken back from all columns of ``evictions``, (T,) and (T, 3), in place.

    The others keep their order. A victim was taken back if it is neither RELEASING nor PIPELINED any more.
    """
    kept = 0
    for row in range(evictions.length[0]):
        t = evictions.task[row]
        if state.task.status[t] != IS_RELEASING and state.task.status[t] != IS_PIPELINED:
            evictions.is_evicted[t] = 0
            continue
        evictions.task[kept] = t
        evictions.action[kept] = evictions.action[row]
        evictions.preemptor[kept] = evictions.preemptor[row]
        evictions.node[kept] = evictions.node[row]
        evictions.moved[kept] = evictions.moved[row]
        for r in range(3):
            evictions.victim_held[kept, r] = evictions.victim_held[row, r]
            evictions.preemptor_held[kept, r] = evictions.preemptor_held[row, r]
        kept += 1
    evictions.length[0] = kept
