"""Where a pod goes whose group shares a claim that nobody has yet: where all pods that use it have room (semantics 8.6,
12.2).

The first pod with a place decides for all: for the devices of the claim, or its volume, and so for the node, or the few
nodes, on which the others find them. So nodes with room for more of these pods come first, as far as there are so many
of them; among nodes with as much room the scores decide.

Cost: for such a pod the tasks of its job times their claims, and up to TRIES_MAX times the scores of all nodes.
Invariant: nothing is written but ``scratch.roomy`` (N,).
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Flags, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.claims.search import has_claims, is_allocated
from kai_sched.solver.kernels.score import score_nodes
from kai_sched.solver.state import Context

OK = int(Verdict.OK)
NO_ROOM = int(Verdict.NO_ROOM)
IS_PENDING = int(Status.PENDING)
IS_EVICTED = int(Status.EVICTED)
TRIES_MAX = 8


@inner
def best_node_for_all(t: int, ctx: Context, verdicts: Flags) -> int:
    """Return the best node for task ``t`` of those with room for the most pods of its job that share a claim with it.

    NULL if it shares no claim that is still to be allocated, or no node takes it. ``verdicts`` (N,) are the static
    verdicts on the nodes. With ``victims: original`` always NULL.
    """
    c, j = ctx.snapshot.tasks.cls[t], ctx.snapshot.tasks.job[t]
    if ctx.settings.minimal == 0 or j == NULL or not shares_open_claim(t, t, ctx):
        return NULL
    together = 0
    for other in range(ctx.snapshot.jobs.task_ptr[j], ctx.snapshot.jobs.task_ptr[j + 1]):
        if is_unplaced(other, ctx) and shares_open_claim(t, other, ctx):
            together += 1
    if together < 2:
        return NULL
    roomy, below = ctx.scratch.roomy, together + 1
    for _ in range(TRIES_MAX):
        most = 0
        for n in range(verdicts.shape[0]):
            fits = min(together, pods_with_room(c, n, ctx)) if verdicts[n] == OK else 0
            most = max(most, fits if fits < below else 0)
        if most < 2:
            return NULL
        for n in range(verdicts.shape[0]):
            roomy[n] = verdicts[n]
            if verdicts[n] == OK and min(together, pods_with_room(c, n, ctx)) != most:
                roomy[n] = NO_ROOM
        n = score_nodes(t, ctx, roomy)
        if n != NULL:
            return n
        below = most
    return NULL


@inner
def is_unplaced(t: int, ctx: Context) -> bool:
    """Return whether task ``t`` waits for a place, or a search has evicted it; reads ``state.task.status`` (T,)."""
    if ctx.state.task.status[t] == IS_EVICTED:
        return True
    return bool(ctx.state.task.status[t] == IS_PENDING)


@inner
def shares_open_claim(t: int, other: int, ctx: Context) -> bool:
    """Return whether tasks ``t`` and ``other`` use the same claim, of devices or for a volume, that nobody has yet.

    Only claims count that can have several users. Reads ``users_later`` of ``state.claims`` (I,) and ``users`` of
    ``state.volumes`` (F,).
    """
    snapshot = ctx.snapshot
    c, d, claims = snapshot.tasks.cls[t], snapshot.tasks.cls[other], snapshot.dra_claims
    if has_claims(c, ctx) and has_claims(d, ctx):
        for k in range(claims.task_ptr[t], claims.task_ptr[t + 1]):
            i = claims.claim[k]
            if claims.shared[i] == 0 or is_allocated(i, ctx):
                continue
            for h in range(claims.task_ptr[other], claims.task_ptr[other + 1]):
                if claims.claim[h] == i:
                    return True
    volumes = snapshot.volumes
    for k in range(volumes.ptr[c], volumes.ptr[c + 1]):
        w = volumes.claim[k]
        if ctx.state.volumes.users[w] > 0:
            continue
        for h in range(volumes.ptr[d], volumes.ptr[d + 1]):
            if volumes.claim[h] == w:
                return True
    return False


@inner
def pods_with_room(c: int, n: int, ctx: Context) -> int:
    """Return how many pods of class ``c`` node ``n`` has room for later, GPUs of claims left out.

    Reads ``state.idle`` and ``releasing`` (N, R). Pods that share devices do not need them more than once.
    """
    request, state, fits = ctx.snapshot.classes.request[c], ctx.state, np.inf
    for r in range(request.shape[0]):
        if request[r] > 0.0 and not (r == GPU and has_claims(c, ctx)):
            fits = min(fits, np.floor((state.idle[n, r] + state.releasing[n, r]) / request[r]))
    return int(max(0.0, min(fits, 2.0**31)))
