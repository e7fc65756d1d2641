"""Why pods are pending, in numbers: for each class that found no node, what stands in the way on how many nodes.

Measured once per class against the end of the cycle, not once per failed attempt as in the original, so that counts
never exceed the nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import PODS, Floats, Longs, Snapshot, Verdict
from kai_sched.solver.jit import inner, kernel
from kai_sched.solver.kernels.score import judge_placed, nobody_matches
from kai_sched.solver.state import Context

OK = int(Verdict.OK)
NO_ROOM = int(Verdict.NO_ROOM)
NO_POD_SLOT = int(Verdict.NO_POD_SLOT)
NO_FIT = int(Verdict.NO_FIT)
N_VERDICTS = 40


class Facts(NamedTuple):
    """By class, filled where ``asked`` is 1."""

    asked: Longs  # (C,)
    nodes: Longs  # (C, 40) how many nodes have the verdict
    short: Longs  # (C, R) how many otherwise fit nodes lack the resource
    largest_free: Floats  # (C, R) most that one of these has free or freeing
    room: Longs  # (C,) how many such pods would still fit, looked at one node at a time


def make_facts(snapshot: Snapshot) -> Facts:
    """Nothing asked yet."""
    n_classes, n_resources = snapshot.classes.request.shape
    return Facts(
        np.zeros(n_classes, np.int64),
        np.zeros((n_classes, N_VERDICTS), np.int64),
        np.zeros((n_classes, n_resources), np.int64),
        np.zeros((n_classes, n_resources)),
        np.zeros(n_classes, np.int64),
    )


@kernel
def explain(ctx: Context, facts: Facts) -> None:
    """Fill the facts of every class with which some job's attempt ended."""
    decisions = ctx.decisions
    tasks = ctx.snapshot.tasks
    for j in range(decisions.verdict.shape[0]):
        if decisions.verdict[j] == NO_FIT and decisions.blocking_row[j] != NULL:
            c = tasks.cls[decisions.blocking_row[j]]
            if facts.asked[c] == 0:
                facts.asked[c] = 1
                measure(c, ctx, facts)


@inner
def measure(c: int, ctx: Context, facts: Facts) -> None:
    """Look at all nodes for class ``c`` as they are now."""
    snapshot, state, finder = ctx.snapshot, ctx.state, ctx.finder
    request = snapshot.classes.request[c]
    verdicts = finder.verdicts[snapshot.classes.signature[c]]
    first_of_kind = nobody_matches(c, ctx)
    for n in range(state.idle.shape[0]):
        verdict = verdicts[n]
        if verdict == OK:
            verdict = judge_room(c, request, state.idle[n], state.releasing[n], facts)
        if verdict == OK and finder.dynamic[c] == 1:
            verdict = judge_placed(c, n, first_of_kind, ctx)
        if verdict == OK:
            facts.room[c] += pods_that_fit(request, state.idle[n], state.releasing[n])
        facts.nodes[c, verdict] += 1


@inner
def judge_room(c: int, request: Floats, idle: Floats, releasing: Floats, facts: Facts) -> int:
    """NO_POD_SLOT, NO_ROOM or OK; what is short is counted by resource."""
    verdict = OK
    for r in range(request.shape[0]):
        free = idle[r] + releasing[r]
        if request[r] > free:
            facts.short[c, r] += 1
            facts.largest_free[c, r] = max(facts.largest_free[c, r], free)
            if verdict == OK:
                verdict = NO_POD_SLOT if r == PODS else NO_ROOM
    return verdict


@inner
def pods_that_fit(request: Floats, idle: Floats, releasing: Floats) -> int:
    """How many pods with this request the node takes."""
    fits = np.inf
    for r in range(request.shape[0]):
        if request[r] > 0.0:
            fits = min(fits, np.floor((idle[r] + releasing[r]) / request[r]))
    return int(fits) if fits < np.inf else 0
