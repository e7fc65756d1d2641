"""The stages of a cycle in their order, on one working state."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kai_sched.snapshot.tables import Action, Settings, Snapshot, Turn
from kai_sched.solver.hunt import make_lineup, make_prey
from kai_sched.solver.stages.allocate import allocate
from kai_sched.solver.stages.evicting import make_room
from kai_sched.solver.stages.explain import Facts, explain, make_facts
from kai_sched.solver.stages.fair_share import fair_share, feasibility
from kai_sched.solver.stages.settle import settle
from kai_sched.solver.stages.stale import evict_stale
from kai_sched.solver.state import (
    Decisions,
    State,
    make_decisions,
    make_finder,
    make_log,
    make_scratch,
    make_state,
    make_tree,
)

EVICTING = {"consolidation": Action.CONSOLIDATION, "reclaim": Action.RECLAIM, "preempt": Action.PREEMPT}
STALE = "stalegangeviction"


class Solution(NamedTuple):
    """What the solver decided and the state it ended in, still in rows; and what the timer said before the first action
    and after each.
    """

    decisions: Decisions
    state: State
    facts: Facts
    times: tuple[float, ...]


def solve(
    snapshot: Snapshot, settings: Settings, actions: tuple[str, ...], timer: Callable[[], float] = float
) -> Solution:
    """Run fair share, then the actions in the order given. The snapshot is not written to.

    ``timer`` gives seconds; without one the times are all 0.
    """
    state, finder, decisions = make_state(snapshot), make_finder(snapshot), make_decisions(snapshot)
    scratch = make_scratch(snapshot)
    fair_share(settings, snapshot, state, scratch)
    feasibility(snapshot, finder, scratch)
    evicting = any(action in EVICTING or action == STALE for action in actions)
    log = make_log(snapshot, evicting)
    space = (make_lineup(snapshot), make_lineup(snapshot), make_prey(snapshot)) if evicting else None
    times = [timer()]
    for action in actions:
        if space and action in EVICTING and not (action == "consolidation" and settings.most_moved == 0):
            code, tree = int(EVICTING[action]), make_tree(snapshot)
            make_room(code, settings, snapshot, state, log, finder, tree, scratch, *space, decisions)
        elif space and action == STALE:
            evict_stale(settings, snapshot, state, log, finder, scratch, space[2], decisions)
        elif action == "allocate":
            turns = (Turn.FIRST, Turn.ORDINARY) if (snapshot.jobs.turn == Turn.FIRST).any() else (Turn.ORDINARY,)
            for turn in turns:
                tree = make_tree(snapshot)
                allocate(int(turn), settings, snapshot, state, log, finder, tree, scratch, decisions)
        times.append(timer())
    if space and any(action in EVICTING for action in actions):
        room, leaving = np.zeros_like(state.idle), np.zeros_like(state.idle)
        settle(settings, snapshot, state, log, finder, scratch, space[2], room, leaving, decisions)
    facts = make_facts(snapshot)
    explain(snapshot, state, finder, decisions, facts)
    return Solution(decisions, state, facts, tuple(times))
