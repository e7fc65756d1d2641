"""The candidate sets of the minimal search: which there are, and which is searched first and last (semantics 4.5,
step 1).
"""

from __future__ import annotations

import enum

from kai_sched.snapshot.tables import GPU, Action, Amounts, Settings
from kai_sched.solver.jit import inner

RECLAIM = int(Action.RECLAIM)


class CandidateSet(enum.IntEnum):
    """The candidate sets of a reclaim, in the order of the search (4.5, step 1).

    Moves are evictions, too, so they come last.
    """

    ALONE = 0  # victims that may leave alone
    TOGETHER = 1  # victims that may leave with others
    ALL_VICTIMS = 2  # all victims, which may also move


ALONE = int(CandidateSet.ALONE)
TOGETHER = int(CandidateSet.TOGETHER)
ALL_VICTIMS = int(CandidateSet.ALL_VICTIMS)


@inner
def first_candidate_set(action: int, length: int, lacking: float) -> int:
    """Return the candidate set that is searched first: ALONE, TOGETHER or ALL_VICTIMS.

    If no GPUs are lacking, the room is only in the wrong place. Then moves may help, and the search begins with
    ALL_VICTIMS. ALONE is for a single pod (``length`` 1). ``lacking`` is in GPUs.
    """
    if action != RECLAIM or lacking <= 0.0:
        return ALL_VICTIMS
    return ALONE if length == 1 else TOGETHER


@inner
def last_candidate_set(action: int, need: Amounts, lacking: float, settings: Settings) -> int:
    """Return the candidate set that is searched last, TOGETHER or ALL_VICTIMS.

    A victim that moves needs room that is free now. So ALL_VICTIMS comes only if some of the requested GPUs are
    free, or none are requested, and only if moves are allowed (``allow-consolidating-reclaim``). ``need`` (3,) is
    CPU, memory, GPUs.
    """
    if action != RECLAIM:
        return ALL_VICTIMS
    may_move = settings.consolidating_reclaim == 1 and (need[GPU] == 0.0 or lacking < need[GPU])
    return ALL_VICTIMS if may_move or lacking <= 0.0 else TOGETHER
