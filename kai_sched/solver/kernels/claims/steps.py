"""How many steps searches for devices of claims may take, so that nobody's claims take the time of others (semantics
8.6); ``kernels.claims`` has the search.

A search has ``FREE_STEPS`` for each device of the node, more than one needs that gives nothing up. Only what it takes
beyond that is bounded: for the search, the class, the queue and the cycle. So claims that are easy to decide are
decided whatever others ask for, and of those that are hard a queue cannot take the steps of all.

Cost: nothing but the counting. Invariant: only ``finder.steps`` is written, which is never undone.
"""

from __future__ import annotations

from kai_sched.solver.jit import inner
from kai_sched.solver.state import Context

FREE_STEPS = 32  # steps of each search for each device of the node, and for eight more
SEARCH_STEPS = 200_000  # steps of one search beyond these
CLASS_STEPS = 2_000_000  # steps beyond these of all searches for a class in a cycle
QUEUE_STEPS = 8_000_000  # for all classes of a queue
CYCLE_STEPS = 32_000_000  # for all classes
CUT, LEFT_OUT = 1, 2  # in ``finder.steps.cut``: by the class's own steps; because others had taken all steps


@inner
def free_steps(n: int, ctx: Context) -> int:
    """Return how many steps each search on node ``n`` may take."""
    return int(FREE_STEPS * (8 + ctx.snapshot.dra_devices.ptr[n + 1] - ctx.snapshot.dra_devices.ptr[n]))


@inner
def more_steps(c: int, asks: bool, ctx: Context) -> int:
    """Return how many a search for class ``c`` may take beyond these: none with ``asks`` if all are taken."""
    return SEARCH_STEPS if not asks or has_steps(c, ctx) else 0


@inner
def has_steps(c: int, ctx: Context) -> bool:
    """Return whether searches for class ``c`` may take more steps than each has, by ``finder.steps.spent`` (C,)."""
    steps = ctx.finder.steps
    return bool(
        ctx.snapshot.dra_requests.brief[c] == 0
        and steps.spent[c] < CLASS_STEPS
        and steps.spent_by_queue[steps.queue[c]] < QUEUE_STEPS
        and steps.spent_in_all[0] < CYCLE_STEPS
    )


@inner
def spend(c: int, taken: int, more: int, ctx: Context) -> None:
    """Count the steps that a search for class ``c`` has ``taken`` beyond its free ones, and note if it was cut.

    Writes ``finder.steps``, (C,) and others. ``more`` are the steps that it had beyond the free ones.
    """
    steps = ctx.finder.steps
    if taken > 0:
        steps.spent[c] += taken
        steps.spent_by_queue[steps.queue[c]] += taken
        steps.spent_in_all[0] += taken
    if ctx.scratch.picks.length[1] == 1 and steps.cut[c] != CUT:
        own = more > 0 or ctx.snapshot.dra_requests.brief[c] == 1 or steps.spent[c] >= CLASS_STEPS
        steps.cut[c] = CUT if own else LEFT_OUT
