"""Both searches: the proof that not even all possible victims together make room, by nodes and by shares
(semantics 4.6); ``minimal.bounds`` has the other bounds.

``refute`` assumes the best: all possible victims are gone at once, each class of pending tasks has the room for
itself, and shares let as much go as they could. If the tasks do not fit even then, no search finds victims, so it
ends.

Cost: O(tasks of possible victims + classes x N x R + Q x depth). That is paid once in a search or candidate set,
after some chunks. Invariant: only scratch is written (``search.freed``, ``queues.largest``, ``search.domain``),
no state. A proof is never wrong; "OK" only says that it could not tell.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Help, Snapshot, Status, TermKind, TermRole
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.domain_room import some_set_has_no_domain
from kai_sched.solver.eviction.preemptor import requested_amounts, requested_gpus
from kai_sched.solver.eviction.rules.losses import sides_of
from kai_sched.solver.eviction.rules.shares import gpus_above
from kai_sched.solver.eviction.tables import NODES_A_UNIT, Search
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.claims.search import may_have_devices
from kai_sched.solver.kernels.devices import freed_by_pod
from kai_sched.solver.kernels.volumes import may_have_volumes
from kai_sched.solver.state import Context, State

OK = int(Verdict.OK)
RECLAIM = int(Action.RECLAIM)
NO_VICTIMS = int(Help.NO_VICTIMS)
NO_ROOM = int(Help.NO_ROOM)
SHARES = int(Help.SHARES)
IS_PIPELINED = int(Status.PIPELINED)
IS_RUNNING = int(Status.RUNNING)
ANTI = int(TermKind.ANTI)
CARRY = int(TermRole.CARRY)
MATCH = int(TermRole.MATCH)
PORT = int(TermRole.PORT)


@inner
def refute(action: int, p: int, ceiling: int, ctx: Context, search: Search) -> int:
    """Return why no set of victims makes room for all pending tasks, a ``Help``; OK if that cannot be proven.

    NO_VICTIMS: there are no possible victims. NO_ROOM: some class of pending tasks lacks room with all of them gone,
    or no topology domain could hold them.
    SHARES: shares keep too many GPUs (reclaim). ``search.kinds`` (4,) must count all pending tasks
    (``count_kinds``).

    Parameters
    ----------
    p : int, row of a job
        The preemptor.
    ceiling : int
        Only jobs below this priority are possible victims.
    """
    if not sum_possible_victims(ceiling, ctx.snapshot, ctx.state, search):
        return NO_VICTIMS
    search.counts.work[0] += ctx.state.idle.shape[0] * search.counts.kinds[0] // NODES_A_UNIT
    for kind in range(search.counts.kinds[0]):
        if room_for_kind(kind, ctx, search) < search.kinds.wanted[kind]:
            return NO_ROOM
    if some_set_has_no_domain(search.counts.pending[0], search.freed, ctx, search):
        return NO_ROOM
    if action == RECLAIM and not shares_suffice(p, ctx, search):
        return SHARES
    return OK


@inner
def sum_possible_victims(ceiling: int, snapshot: Snapshot, state: State, search: Search) -> bool:
    """Sum up by node what all possible victims hold, in ``search.freed`` (N, R); return whether there are any.

    What they mean for anti-affinity and host ports is in ``freed_matched`` and ``freed_carried`` (D,) and
    ``freed_ports`` (N, P), as far as it concerns the classes in ``search.kinds``; what they mean for volumes is in
    ``freed_users`` (F,). Also sets ``queues.largest`` (Q,): the GPUs of the largest possible victim of each leaf. A pod
    that was moved before in this cycle may return without room (``original.simulation.place_in_search``), so its job
    counts as infinitely large.

    Parameters
    ----------
    ceiling : int
        Only jobs of a lower priority are counted.
    """
    jobs, tasks, allocatable = snapshot.jobs, snapshot.tasks, snapshot.nodes.allocatable
    n_resources = allocatable.shape[1]
    search.freed[:, :] = 0.0
    search.freed_users[:] = 0
    for kind in range(search.counts.kinds[0]):
        clear_guards(int(search.kinds.cls[kind]), snapshot, search)
    anybody = False
    for q in range(snapshot.queues.parent.shape[0]):
        search.queues.largest[q] = 0.0
        if search.queues.is_open[q] == 0:
            continue
        for at in range(search.victims.heap.begin[q], search.victims.heap.end[q]):
            j = search.victims.jobs.listed[search.victims.heap.base[q] + at]
            if search.victims.jobs.skip[j] == search.counts.clock[0] or jobs.priority[j] >= ceiling:
                continue
            anybody = True
            held = 0.0
            for t in range(jobs.task_ptr[j], jobs.task_ptr[j + 1]):
                n = state.task.node[t]
                if n != NULL and IS_PIPELINED <= state.task.status[t] <= IS_RUNNING:
                    held += np.inf if search.tasks.left_node[t] != 0 else snapshot.classes.quota[tasks.cls[t], GPU]
                    for r in range(n_resources):
                        if allocatable[n, r] > 0.0:
                            search.freed[n, r] += freed_by_pod(tasks.cls[t], r, snapshot)
                    free_guards(tasks.cls[t], n, snapshot, search)
            search.queues.largest[q] = max(search.queues.largest[q], held)
    return anybody


@inner
def clear_guards(c: int, snapshot: Snapshot, search: Search) -> None:
    """Set what ``is_barred`` reads for class ``c`` to 0, in ``freed_matched``, ``freed_carried`` (D,), ``freed_ports``.

    The other domains and ports may be many, and what is counted for them is not read.
    """
    terms, term_roles, host_ports = snapshot.terms, snapshot.term_roles, snapshot.host_ports
    for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
        role, row = term_roles.entry[entry, 0], term_roles.entry[entry, 1]
        if role == PORT:
            for at in range(host_ports.ptr[row], host_ports.ptr[row + 1]):
                search.freed_ports[:, host_ports.conflict[at]] = 0
        elif terms.kind[row] == ANTI:
            for n in range(terms.domain.shape[1]):
                if terms.domain[row, n] != NULL:
                    search.freed_matched[terms.domain[row, n]] = 0
                    search.freed_carried[terms.domain[row, n]] = 0


@inner
def free_guards(c: int, n: int, snapshot: Snapshot, search: Search) -> None:
    """Add a pod of class ``c`` on node ``n`` to ``freed_matched``, ``freed_carried`` (D,) and ``freed_ports`` (N, P).

    These count as ``place.count_guards`` does, and so do ``freed_users`` (F,).
    """
    terms, term_roles, volumes = snapshot.terms, snapshot.term_roles, snapshot.volumes
    for at in range(volumes.ptr[c], volumes.ptr[c + 1]):
        search.freed_users[volumes.claim[at]] += 1
    for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
        role, row, weight = term_roles.entry[entry, 0], term_roles.entry[entry, 1], term_roles.entry[entry, 2]
        if role == PORT:
            search.freed_ports[n, row] += 1
        elif terms.kind[row] == ANTI and terms.domain[row, n] != NULL:
            if role == MATCH:
                search.freed_matched[terms.domain[row, n]] += weight
            elif role == CARRY:
                search.freed_carried[terms.domain[row, n]] += weight


@inner
def room_for_kind(kind: int, ctx: Context, search: Search) -> int:
    """Return for how many tasks of the class at place ``kind`` there could be room.

    Bound: on each feasible node the room is at most what is idle, releasing or held by possible victims
    (``search.freed``, (N, R)), divided by the request. Pods that keep each other out of a topology domain count
    once for each domain. Static constraints refuse nodes, and so do ports and anti-affinity of pods that are no
    possible victims, and claims for which a node has no devices or no volume.

    Returns
    -------
    room : float
        At most that many tasks of the class fit; never less than any scenario can place.
    """
    snapshot, state = ctx.snapshot, ctx.state
    classes = snapshot.classes
    c = search.kinds.cls[kind]
    request, verdicts = classes.request[c], ctx.finder.verdicts[classes.signature[c]]
    term = own_anti_term(c, snapshot)
    room = 0
    search.domain[:] = 0
    for n in range(verdicts.shape[0]):
        if verdicts[n] != OK or is_barred(c, n, ctx, search):
            continue
        fits = np.inf
        for r in range(request.shape[0]):
            free = state.idle[n, r] + state.releasing[n, r] + search.freed[n, r]
            if request[r] > 0.0:
                fits = min(fits, np.floor(free / request[r]))
            elif free < 0.0:
                fits = 0.0
        fits = min(fits, float(search.kinds.wanted[kind]))
        if fits < 1.0 or not may_have_devices(c, n, ctx) or not may_have_volumes(c, n, search.freed_users, ctx):
            continue
        if term == NULL or snapshot.terms.domain[term, n] == NULL:
            room += int(fits)
        elif search.domain[snapshot.terms.domain[term, n]] == 0:
            search.domain[snapshot.terms.domain[term, n]] = 1
            room += 1
    return room


@inner
def own_anti_term(c: int, snapshot: Snapshot) -> int:
    """Return a term by which pods of class ``c`` keep each other out of a domain; NULL: there is none.

    That is a required anti-affinity term which the class carries and whose selector matches the class itself.
    """
    term_roles, terms = snapshot.term_roles, snapshot.terms
    for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
        a = term_roles.entry[entry, 1]
        if term_roles.entry[entry, 0] != CARRY or terms.kind[a] != ANTI:
            continue
        for other in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
            if term_roles.entry[other, 0] == MATCH and term_roles.entry[other, 1] == a:
                return int(a)
    return NULL


@inner
def is_barred(c: int, n: int, ctx: Context, search: Search) -> bool:
    """Return whether ports or anti-affinity keep class ``c`` off node ``n`` with all possible victims gone (12.2).

    Reads ``state.ports`` (N, P) and the counters ``domains.matched`` and ``carried`` (D,), less what ``free_guards``
    has counted.
    """
    snapshot, state = ctx.snapshot, ctx.state
    term_roles, terms = snapshot.term_roles, snapshot.terms
    for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
        role, row = term_roles.entry[entry, 0], term_roles.entry[entry, 1]
        if role == PORT:
            for at in range(snapshot.host_ports.ptr[row], snapshot.host_ports.ptr[row + 1]):
                other = snapshot.host_ports.conflict[at]
                if state.ports[n, other] > search.freed_ports[n, other]:
                    return True
        elif terms.kind[row] == ANTI and terms.domain[row, n] != NULL:
            domain = terms.domain[row, n]
            if role == CARRY and state.domains.matched[domain] > search.freed_matched[domain]:
                return True
            if role == MATCH and state.domains.carried[domain] > search.freed_carried[domain]:
                return True
    return False


@inner
def shares_suffice(p: int, ctx: Context, search: Search) -> bool:
    """Return whether shares could let the GPUs leave that the pending tasks lack (reclaim, 4.7, rule 1).

    Writes ``queues.largest_below`` (Q,).

    Bound: ``lacking`` GPUs have to leave. From below queue ``v``, where the path of a victim parts from the
    reclaimer's, a chunk leaves only while ``v`` is above its threshold. All chunks but the last fit into the
    excess, and the last is at most the largest job there, so less than excess + largest job leaves. If the sum
    over all such queues does not exceed what is lacking, too little leaves. If ``v`` is above its threshold in
    another resource, rule 1 holds on, and the bound does not apply: True; so it is where parts block devices
    (``shares.gpus_above``).
    """
    snapshot, state, parent = ctx.snapshot, ctx.state, ctx.snapshot.queues.parent
    own, need = snapshot.jobs.queue[p], requested_amounts(search.counts.pending[0], snapshot, search)
    lacking = requested_gpus(search.counts.pending[0], snapshot, search)
    for n in range(state.idle.shape[0]):
        lacking -= max(0.0, state.idle[n, GPU] + state.releasing[n, GPU])
    if lacking <= 0.0:
        return True
    for q in range(parent.shape[0]):
        search.queues.largest_below[q] = 0.0
    for q in range(parent.shape[0]):
        if search.queues.largest[q] == np.inf:
            return True
        if search.queues.is_open[q] == 1 and search.queues.largest[q] > 0.0:
            _, victim = sides_of(own, q, parent)
            search.queues.largest_below[victim] = max(search.queues.largest_below[victim], search.queues.largest[q])
    # Each victim leaf parts from the reclaimer's path at exactly one queue, so these excesses may be added up.
    for v in range(parent.shape[0]):
        if search.queues.largest_below[v] == 0.0:
            continue
        reclaimer, _ = sides_of(own, v, parent)
        above = gpus_above(reclaimer, v, need, ctx, search)
        if above > 0.0:
            lacking -= ctx.scratch.overshoot[0] * (above + search.queues.largest_below[v])
    return bool(lacking < 0.0)
