"""The proof that shares let too few GPUs leave from each node for a single pod (semantics 4.6, 4.7; reclaim).

A single pod needs one node, and where victims leave for good all that is needed leaves from there. From each side (a
queue beside the path of the reclaimer) no more leaves than its victims on the node hold, and no more than rules 1 and 2
let go (``rules.shares``). The reclaimer's own side may lose, too, which lets rule 2 hold longer: by no more than all
jobs hold that have a pod on the node. If what is free on a node and what may leave from it is less than the pod asks
for, whatever the node, no attempt can succeed.

Cost: the tasks of possible victims, and the nodes once for each level of the queue tree. Only scratch is written.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Amounts, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.rules.losses import sides_of
from kai_sched.solver.eviction.rules.shares import gpus_above, gpus_kept_behind
from kai_sched.solver.eviction.tables import NODES_A_UNIT, PODS_A_UNIT, Preemptor, Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.gates import ROUNDING
from kai_sched.solver.state import Context

OK = int(Verdict.OK)
IS_PIPELINED = int(Status.PIPELINED)
IS_RUNNING = int(Status.RUNNING)


@inner
def can_clear_no_node(preemptor: Preemptor, ctx: Context, search: Search) -> bool:
    """Return whether it is proven that victims that leave for good make room on no node for the first pending task.

    Possible victims are those of leaves in ``queues.gives_up`` (Q,). Writes ``search.supply``, columns (N,) and (Q,),
    and counts the tasks and nodes that it visits as work. ``scratch.overshoot`` bounds how much more a pod frees than
    its queue pays for.
    """
    snapshot, state, supply = ctx.snapshot, ctx.state, search.minimal.supply
    c, parent = snapshot.tasks.cls[search.pending[0]], snapshot.queues.parent
    request, verdicts = snapshot.classes.request[c, GPU], ctx.finder.verdicts[snapshot.classes.signature[c]]
    if request <= 0.0:
        return False
    link_leaves_by_side(preemptor.job, ctx, search)
    for n in range(verdicts.shape[0]):
        supply.may_leave[n], supply.own_loses[n] = 0.0, 0.0
    u = int(snapshot.jobs.queue[preemptor.job])
    while u != NULL:  # Bound: the depth of the queue tree.
        row = parent[u] if parent[u] != NULL else parent.shape[0]
        for child in range(snapshot.queues.child_ptr[row], snapshot.queues.child_ptr[row + 1]):
            s = int(snapshot.queues.child[child])
            if supply.first_leaf[s] != 0:
                add_side(u, s, preemptor.need, ctx, search)
        search.counts.work[0] += verdicts.shape[0] // NODES_A_UNIT
        for n in range(verdicts.shape[0]):
            supply.own_loses[n] += supply.level_loses[n]
            supply.level_loses[n] = 0.0
        u = int(parent[u])
    for n in range(verdicts.shape[0]):
        free = state.idle[n, GPU] + state.releasing[n, GPU] + ctx.scratch.overshoot[0] * supply.may_leave[n]
        if verdicts[n] == OK and free + ROUNDING >= request:
            return False
    return True


@inner
def link_leaves_by_side(p: int, ctx: Context, search: Search) -> None:
    """Chain the leaves in ``queues.gives_up`` (Q,) by the side to which they belong, seen from job ``p``."""
    queues, supply = ctx.snapshot.queues, search.minimal.supply
    for q in range(queues.parent.shape[0]):
        supply.first_leaf[q] = 0
    for q in range(queues.parent.shape[0]):
        if search.queues.gives_up[q] == 1:
            _, s = sides_of(ctx.snapshot.jobs.queue[p], q, queues.parent)
            supply.next_leaf[q] = supply.first_leaf[s]
            supply.first_leaf[s] = q + 1


@inner
def add_side(u: int, s: int, need: Amounts, ctx: Context, search: Search) -> None:
    """Add what may leave from side ``s`` to ``supply.may_leave`` (N,), node by node; ``need`` is (3,).

    Adds the GPUs of the jobs that have a pod on a node to ``supply.level_loses`` (N,): what a queue above both sides
    may lose at most.
    """
    supply = search.minimal.supply
    length, largest = gather_side(s, ctx, search)
    above = gpus_above(u, s, need, ctx, search)
    by_rule_1 = 0.0 if above < 0.0 else above + largest
    for entry in range(length):
        n = supply.nodes[entry]
        mine = search.queues.old_held[u, GPU] - supply.own_loses[n] + need[GPU]
        most = min(by_rule_1, gpus_kept_behind(u, mine, s, ctx, search))
        supply.may_leave[n] += min(supply.side_holds[n], most)
        supply.side_holds[n] = 0.0


@inner
def gather_side(s: int, ctx: Context, search: Search) -> tuple[int, float]:
    """Sum up by node what possible victims of side ``s`` hold; return how many nodes that are, and the largest job.

    Writes ``supply.side_holds`` and ``level_loses`` (N,), in GPUs, and lists the nodes in ``supply.nodes`` (N,).
    """
    snapshot, state, supply, victims = ctx.snapshot, ctx.state, search.minimal.supply, search.victims
    jobs, cls, quota = snapshot.jobs, snapshot.tasks.cls, snapshot.classes.quota
    length, largest, visited = 0, 0.0, 0
    leaf = supply.first_leaf[s]
    while leaf != 0:  # Bound: the leaves of the side, each once.
        q = leaf - 1
        leaf = supply.next_leaf[q]
        for at in range(victims.heap.begin[q], victims.heap.end[q]):
            j = victims.jobs.listed[victims.heap.base[q] + at]
            if victims.jobs.skip[j] == search.counts.clock[0]:
                continue
            size = 0.0
            for t in range(jobs.task_ptr[j], jobs.task_ptr[j + 1]):
                size += quota[cls[t], GPU] if IS_PIPELINED <= state.task.status[t] <= IS_RUNNING else 0.0
            visited += jobs.task_ptr[j + 1] - jobs.task_ptr[j]
            largest = max(largest, size)
            for t in range(jobs.task_ptr[j], jobs.task_ptr[j + 1]):
                n, gpus = state.task.node[t], quota[cls[t], GPU]
                if n == NULL or gpus == 0.0 or not IS_PIPELINED <= state.task.status[t] <= IS_RUNNING:
                    continue
                if supply.side_holds[n] == 0.0:
                    supply.nodes[length] = n
                    length += 1
                supply.side_holds[n] += gpus
                supply.level_loses[n] += size
    search.counts.work[0] += visited // PODS_A_UNIT
    return length, largest
