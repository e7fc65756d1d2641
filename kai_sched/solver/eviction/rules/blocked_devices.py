"""Devices that parts keep from others: what queues count for where one that stays within its quota reclaims (semantics
4.7, the quota branch of rule 1).

A queue pays for its parts of GPUs, but nobody gets a whole GPU on the devices that have them: 20 pods with a hundredth
of each GPU of a node keep 160 GPUs from others for a price of 1.6. So each device in use counts for the pods that have
parts of it, in proportion to their parts. Then all that queues count for is no less than the GPUs that are not free,
and if the quotas are no more than the capacity, who lacks his quota finds a queue above its own. Who reclaims counts
the same way, and a part that waits as a whole device: otherwise two queues could take from each other in turn.

Cost: the parts of all tasks, once a search; nothing where no task has any. Invariant: only scratch of the search is
written: ``tasks.blocked`` (T,), ``queues.blocked`` and ``blocked_left`` (Q,), the latter as ``queues.remains``, and
``counts.devices``.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Status
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.devices import price_of, size_of
from kai_sched.solver.kernels.gates import ROUNDING
from kai_sched.solver.state import Context

IS_PIPELINED = int(Status.PIPELINED)
IS_RELEASING = int(Status.RELEASING)
IS_STUCK = int(Status.STUCK_IN_RELEASING)


@inner
def note_blocked(k: int, ctx: Context, search: Search) -> None:
    """Note how many GPUs pods and queues keep from others beyond what they pay.

    Writes ``tasks.blocked`` (T,) and ``queues.blocked`` (Q,), in GPUs; a queue counts what is below it. With ``victims:
    original`` all are 0. Writes ``counts.devices``, what the first ``k`` pending tasks may keep from others.
    """
    snapshot = ctx.snapshot
    search.counts.devices[0] = 0
    for entry in range(k):
        c = snapshot.tasks.cls[search.pending[entry]]
        shares = snapshot.classes.shares[c]
        search.counts.devices[0] += shares if shares > 0 else int(np.ceil(snapshot.classes.quota[c, GPU]))
    if ctx.state.shares.shape[0] == 0 or ctx.settings.minimal == 0:
        return
    queues, tasks, parent = search.queues, snapshot.tasks, snapshot.queues.parent
    for q in range(parent.shape[0]):
        queues.blocked[q] = 0.0
    for t in range(tasks.node.shape[0]):
        if tasks.share_ptr[t] == tasks.share_ptr[t + 1]:
            continue
        search.tasks.blocked[t] = blocked_by(t, ctx)
        q = int(snapshot.jobs.queue[tasks.job[t]]) if tasks.job[t] != NULL else NULL
        while q != NULL:  # Bound: the depth of the queue tree.
            queues.blocked[q] += search.tasks.blocked[t]
            q = int(parent[q])


@inner
def is_entitled(q: int, ctx: Context, search: Search) -> bool:
    """Return whether queue ``q`` stays within its quota of GPUs with the pending tasks, devices that it blocks counted.

    Reads ``queues.old_held`` (Q, 3), ``queues.blocked`` (Q,) and ``book.quota`` (Q + 1, 3).
    """
    counts_for = search.queues.old_held[q, GPU] + search.queues.blocked[q] + search.counts.devices[0]
    return bool(counts_for <= ctx.state.book.quota[q, GPU] + ROUNDING)


@inner
def blocked_by(t: int, ctx: Context) -> float:
    """Return the GPUs that task ``t`` keeps from others beyond what its queue pays for it: 0 or more.

    Of each of its devices it counts for its part of what is held later, ``devices.later`` (G,). Pods that are leaving
    count for nothing.
    """
    snapshot, state = ctx.snapshot, ctx.state
    status, n, c = state.task.status[t], state.task.node[t], snapshot.tasks.cls[t]
    if n == NULL or status < IS_PIPELINED or status > IS_STUCK or status == IS_RELEASING:
        return 0.0
    counted = 0.0
    for entry in range(snapshot.tasks.share_ptr[t], snapshot.tasks.share_ptr[t + 1]):
        d = state.shares[entry]
        if d != NULL and state.devices.later[d] > 0:
            counted += size_of(c, n, ctx) / state.devices.later[d]
    return float(max(0.0, counted - price_of(c, GPU, n, ctx)))
