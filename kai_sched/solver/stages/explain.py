"""For each class of pods that found no node: how many nodes refuse it for which verdict, and how many more such pods
would fit (semantics 3.9); ``cycle.explain`` chooses the reason.

Measured once for each class against the end of the cycle, not at each failed attempt, so that the counts add up to the
number of nodes. ``cycle.explain`` turns the numbers into sentences.

Cost: N nodes times R resources for each class with which some job's attempt failed, and the term roles of the class.
Invariant: only ``Facts`` is written; state and decisions stay as they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, PODS, Floats, Longs, Snapshot
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.jit import inner, kernel
from kai_sched.solver.kernels.claims.search import has_claims, survey_claims
from kai_sched.solver.kernels.devices import NEVER, largest_part, room_for_shares, survey_devices, whole_later
from kai_sched.solver.kernels.numa import asks_for_zones, survey_zones
from kai_sched.solver.kernels.score import is_first_of_kind, judge_placed
from kai_sched.solver.state import Context

OK = int(Verdict.OK)
NO_ROOM = int(Verdict.NO_ROOM)
NO_POD_SLOT = int(Verdict.NO_POD_SLOT)
NO_CLAIMED_DEVICES = int(Verdict.NO_CLAIMED_DEVICES)
CLAIMS_TOO_HARD = int(Verdict.CLAIMS_TOO_HARD)
NOT_ALIGNED = int(Verdict.NOT_ALIGNED)
NO_FIT = int(Verdict.NO_FIT)
N_VERDICTS = 56


class Facts(NamedTuple):
    """What was measured, by class; a row is filled where ``asked`` is 1.

    ``room`` counts pods node by node and adds up. It does not regard that one such pod may forbid the next (ports,
    anti-affinity). Resources are in their units (0.2).
    """

    asked: Longs  # (C,)
    nodes: Longs  # (C, 56) how many nodes have the verdict
    short: Longs  # (C, R) how many otherwise fit nodes lack the resource
    largest_free: Floats  # (C, R) most that one of these has free or freeing
    room: Longs  # (C,) how many such pods would still fit, each by itself


def make_facts(snapshot: Snapshot) -> Facts:
    """Return tables of zeros: nothing measured yet."""
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
    """Measure every class whose task was the first of some job's chunk to find no node.

    Reads ``verdict`` and ``blocking_row`` of ``decisions``, (J,) each; writes ``facts``, (C,) and longer, directly.
    """
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
    """Count the nodes by their verdict on class ``c``, in the state as it is now; add to ``facts.nodes`` (C, 56).

    The first failing check is the verdict of a node, in the order of 12.2: static verdict, room, then inter-pod terms
    and host ports. ``facts.room`` adds up how many pods fit on nodes without an obstacle.
    """
    snapshot, state, finder = ctx.snapshot, ctx.state, ctx.finder
    request, shares = snapshot.classes.request[c], snapshot.classes.shares[c]
    verdicts = finder.verdicts[snapshot.classes.signature[c]]
    first_of_kind = is_first_of_kind(c, ctx)
    for n in range(state.idle.shape[0]):
        verdict = verdicts[n]
        if verdict == OK:
            before = facts.largest_free[c, GPU]
            verdict = judge_room(c, request, state.idle[n], state.releasing[n], facts)
            if shares > 0 and facts.largest_free[c, GPU] > before:
                # Pods with parts are told what is free of one device; the sum of a node says nothing about it.
                facts.largest_free[c, GPU] = max(before, largest_part(n, ctx))
            if verdict == OK and survey_devices(c, n, ctx)[0] == NEVER:
                verdict = NO_ROOM
                facts.short[c, GPU] += 1
                free = largest_part(n, ctx) if shares > 0 else whole_later(n, ctx)
                facts.largest_free[c, GPU] = max(facts.largest_free[c, GPU], free)
            if verdict == OK and has_claims(c, ctx) and survey_claims(c, n, ctx) == NEVER:
                verdict = CLAIMS_TOO_HARD if ctx.scratch.picks.length[1] == 1 else NO_CLAIMED_DEVICES
            if verdict == OK and asks_for_zones(c, ctx) and survey_zones(c, n, ctx) == NEVER:
                verdict = NOT_ALIGNED
        if verdict == OK and finder.dynamic[c] == 1:
            verdict = judge_placed(c, n, first_of_kind, ctx)
        if verdict == OK:
            fits = pods_that_fit(request, state.idle[n], state.releasing[n])
            fits = min(fits, room_for_shares(c, n, ctx)) if shares > 0 else fits
            facts.room[c] += min(fits, 1) if has_claims(c, ctx) or asks_for_zones(c, ctx) else fits
        facts.nodes[c, verdict] += 1


@inner
def judge_room(c: int, request: Floats, idle: Floats, releasing: Floats, facts: Facts) -> int:
    """Return NO_POD_SLOT, NO_ROOM or OK for one node; what is short is counted by resource.

    All resources are checked, not only the first that is short. Adds to ``facts.short`` and raises
    ``facts.largest_free``, (C, R) each. ``request``, ``idle`` and ``releasing`` are rows (R,).
    """
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
    """Return how many pods with this ``request`` (R,) the node takes; ``idle`` and ``releasing`` are its rows.

    0 for a request of nothing, which cannot be counted.
    """
    fits = np.inf
    for r in range(request.shape[0]):
        if request[r] > 0.0:
            fits = min(fits, np.floor((idle[r] + releasing[r]) / request[r]))
    return int(fits) if fits < np.inf else 0
