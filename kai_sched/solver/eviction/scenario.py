"""A scenario: victims that are tried together, as a list and as a chain for each job; for both searches (semantics
4.5).

Nothing is evicted here. Marks of a scenario are current where they equal ``counts.scenario_clock``, so that a new one
has nothing to take back. Cost: what is listed.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Snapshot, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import gate_chunk
from kai_sched.solver.kernels.place import count_affinity, count_guards
from kai_sched.solver.state import Context, State

OK = int(Verdict.OK)
IS_STUCK = int(Status.STUCK_IN_RELEASING)
IS_PIPELINED = int(Status.PIPELINED)


@inner
def add_to_scenario(t: int, group: int, times: int, snapshot: Snapshot, state: State, search: Search) -> None:
    """Append task ``t`` to the scenario and to the chain of its job, in place.

    Writes ``lists.scenario`` (T + 1,), ``tasks.times``, ``recorded_with`` and ``next_in_scenario`` (T,), the ends of
    the chain (J,), and marks the node of the task, on which the preemptor may be placed (``nodes.scenario_mark`` (N,)).

    Parameters
    ----------
    group : int
        Tasks with the same number are recorded together. Negative numbers, -1 - j, stand for all tasks of job j.
    times : int
        How often the scenario names the task: that often its queue is paid back, and it counts for shares (4.5).
    """
    count, job = search.counts, search.jobs
    entry = count.scenario[0]
    count.scenario[0] = entry + 1
    search.lists.scenario[entry] = t
    search.tasks.recorded_with[t] = group
    search.tasks.times[t] = times
    search.tasks.next_in_scenario[t] = 0
    j = snapshot.tasks.job[t]
    if job.scenario_mark[j] != count.scenario_clock[0]:
        job.scenario_mark[j] = count.scenario_clock[0]
        job.first_in_scenario[j] = t + 1
    else:
        search.tasks.next_in_scenario[job.last_in_scenario[j]] = t + 1
    job.last_in_scenario[j] = t
    if state.task.node[t] != NULL:
        search.nodes.scenario_mark[state.task.node[t]] = count.scenario_clock[0]


@inner
def has_gone(t: int, state: State, search: Search) -> bool:
    """Return whether victim ``t`` has another status or node than before: ``tasks.prior`` and ``home`` (T,)."""
    return bool(state.task.status[t] != search.tasks.prior[t] or state.task.node[t] != search.tasks.home[t])


@inner
def list_nodes_of_job(j: int, snapshot: Snapshot, state: State, search: Search) -> int:
    """Write the nodes that host pods of job ``j`` to ``search.hosts`` (L,), and return how many there are.

    Each node is listed once, in the order of rows, which is by name. Pods with a used status count, leaving ones too.
    Insertion sort: the list has at most as many nodes as the job has pods.
    """
    spot = search.hosts
    length = 0
    for t in range(snapshot.jobs.task_ptr[j], snapshot.jobs.task_ptr[j + 1]):
        n = state.task.node[t]
        if n == NULL or not IS_PIPELINED <= state.task.status[t] <= IS_STUCK:
            continue
        at = length
        while at > 0 and spot[at - 1] > n:  # Bound: ``at`` falls.
            at -= 1
        if at > 0 and spot[at - 1] == n:
            continue
        for place in range(length, at, -1):
            spot[place] = spot[place - 1]
        spot[at] = n
        length += 1
    return length


@inner
def within_limits(j: int, length: int, ctx: Context) -> bool:
    """Return whether the capacity gates (3.4) let job ``j`` have the tasks of ``scratch.chunk`` (L,), too.

    Overwrites ``scratch.need`` with what they request, in the units of queues.
    """
    verdict, _, _ = gate_chunk(j, length, ctx)
    return bool(verdict == OK)


@inner
def count_at_home(t: int, sign: int, ctx: Context, search: Search) -> None:
    """Count evicted task ``t`` for inter-pod terms and host ports at its nodes, or (``sign`` -1) no longer.

    That is for affinity as a pod that stays and for anti-affinity and host ports as one that leaves (``evict.evict``).
    Writes ``state.domains`` and ``leaving_domains`` (D,) and ``leaving_ports`` (N, P) through the undo log. The nodes
    are the one that the task was evicted from and, if that place was only promised to it in this cycle, the one where
    it runs.

    Parameters
    ----------
    t : int
        An evicted task, of a class that is ``dynamic``: its node depends on other pods.
    sign : int
        -1: it no longer counts. 1: it counts again. Calls come in pairs.
    """
    snapshot = ctx.snapshot
    c, home, start = snapshot.tasks.cls[t], search.tasks.home[t], snapshot.tasks.node[t]
    if home != NULL:
        count_affinity(c, home, sign, ctx)
        count_guards(c, home, sign, True, ctx)
    # With a share it may have been promised other devices of the same node: then it counts twice there.
    if start != NULL and (start != home or search.tasks.prior[t] == IS_PIPELINED):
        count_affinity(c, start, sign, ctx)
        count_guards(c, start, sign, True, ctx)
