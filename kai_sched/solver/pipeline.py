"""In which order the stages of a cycle run, and which tables are allocated for them (semantics 1).

``solve`` and ``count_amounts`` are the only entries to the solver for the rest of the program. They do no I/O, and the
same snapshot and settings give the same answers (13). All tables are allocated here, once for each call, as kernels
allocate nothing (ADR 1). Kernels of Python callers are compiled at the first call, or loaded from the cache
(``solver.jit``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Ints, Settings, Snapshot, Turn
from kai_sched.solver import jit
from kai_sched.solver.allocation import make_finder, make_scratch, make_state, make_tree
from kai_sched.solver.decisions import make_decisions
from kai_sched.solver.eviction.allocation import make_search
from kai_sched.solver.log_size import make_log
from kai_sched.solver.solution import PoolShares, Solution
from kai_sched.solver.stages.allocate import allocate
from kai_sched.solver.stages.background import return_background, set_aside
from kai_sched.solver.stages.evicting import make_room
from kai_sched.solver.stages.explain import explain, make_facts
from kai_sched.solver.stages.fair_share import fair_share, feasibility, sum_pool
from kai_sched.solver.stages.settle import settle, settle_evictions
from kai_sched.solver.stages.stale import evict_stale
from kai_sched.solver.state import Context

EVICTING = {"consolidation": Action.CONSOLIDATION, "reclaim": Action.RECLAIM, "preempt": Action.PREEMPT}
STALE = "stalegangeviction"


def solve(
    snapshot: Snapshot, settings: Settings, actions: tuple[str, ...], timer: Callable[[], float] = float
) -> Solution:
    """Run the stages: fair share and feasibility, the actions in the order given, the end of the cycle, the reasons.

    Each action gets empty heaps, and the working state that the actions before it left. Pods of the background count as
    absent until all actions are done (11.5). The tables of the search exist only if something needs them, and are kept
    between actions: what one search moved is spared by the next (4.5).

    Parameters
    ----------
    snapshot : tables of one cycle, not written to
    settings : the configuration in numbers
    actions : names of actions; an unknown name does nothing. Consolidation is off where ``settings.most_moved`` is 0
    timer : returns seconds; without one the times are all 0

    Returns
    -------
    Solution : the answers, in rows of the snapshot
    """
    background = bool(snapshot.jobs.background.any())
    evicting = background or any(action in EVICTING or action == STALE for action in actions)
    context = _make_context(snapshot, settings, evicting)
    ctx = jit.reference(context)
    fair_share(ctx)
    feasibility(ctx)
    search = jit.reference(make_search(snapshot, settings.minimal == 1)) if evicting else None
    if search and background:
        set_aside(ctx, search)
    times = [timer()]
    for action in actions:
        if search and action in EVICTING and not (action == "consolidation" and settings.most_moved == 0):
            make_room(int(EVICTING[action]), ctx, make_tree(snapshot), search)
        elif search and action == STALE:
            evict_stale(ctx, search)
        elif action == "allocate":
            # Jobs with promised room have a tree of their own, which is emptied before all other jobs are tried (3.1).
            turns = (Turn.FIRST, Turn.ORDINARY) if (snapshot.jobs.turn == Turn.FIRST).any() else (Turn.ORDINARY,)
            for turn in turns:
                allocate(int(turn), ctx, make_tree(snapshot))
        times.append(timer())
    if search and (background or any(action in EVICTING for action in actions)):
        settle_evictions(ctx, search)
        if background:
            return_background(ctx, search)
            if "allocate" in actions:
                allocate(int(Turn.BACKGROUND), ctx, make_tree(snapshot))
        settle(ctx, np.zeros_like(context.state.idle), np.zeros_like(context.state.idle))
    facts = make_facts(snapshot)
    explain(ctx, facts)
    pool = _amounts(context, np.full(snapshot.tasks.job.size, NULL, np.int32)) if settings.shared else None
    return Solution(context, facts, tuple(times), pool)


def count_amounts(snapshot: Snapshot, settings: Settings, pipelined: Ints) -> PoolShares:
    """Return what the queues of the pool hold and request as a cycle would begin; nothing is decided.

    ``pipelined`` (T,) is the row of the node that an earlier cycle promised the task, or NULL: these tasks hold room.
    """
    context = _make_context(snapshot, settings, False)
    fair_share(jit.reference(context))
    return _amounts(context, pipelined)


def _amounts(context: Context, pipelined: Ints) -> PoolShares:
    """Return what the pool brings to shares of the cluster, as the working state is now."""
    queues = context.snapshot.queues
    held, fixed, asked = np.zeros((3, queues.parent.size, 3))
    sum_pool(pipelined, held, fixed, asked, jit.reference(context))
    capacity = context.state.book.share[queues.parent.size] - queues.capacity_elsewhere[0]
    return PoolShares(capacity, held, fixed, asked)


def _make_context(snapshot: Snapshot, settings: Settings, evicting: bool) -> Context:
    return Context(
        settings=settings,
        snapshot=snapshot,
        state=make_state(snapshot),
        log=make_log(snapshot, evicting),
        finder=make_finder(snapshot),
        scratch=make_scratch(snapshot),
        decisions=make_decisions(snapshot),
    )
