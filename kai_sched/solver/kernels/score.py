"""The points of a node, added up, for pods with inter-pod terms, host ports or a nominated node, and whether placed
pods refuse it (semantics 9, 12.2 step 6).

These are pods with inter-pod terms or host ports, pods that are aligned to NUMA zones, and CPU-only pods without a CPU
request where some node has no CPU (``finder.dynamic``); also pods with a nominated node, where the settings let other
points outweigh it. All others are placed by ``kernels.find``, which chooses the same node without computing scores.

Cost: for one task N nodes times R resources, the term roles of its class, and the ports that conflict with each role
that is a port; the check for a first pod of its kind adds N for each required term.
Invariant: nothing is written. Counters of terms and ports are those of the pods placed so far in this cycle, so the
result is only valid until the next placement.
"""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.choices import Placement
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import CPU, GPU, Flags, Snapshot, TermKind, TermRole
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.devices import NEVER, NOW, price_of, whole_later
from kai_sched.solver.kernels.fit import fits_later, rows_decide, rows_fit_now, survey_room
from kai_sched.solver.kernels.gates import pass_gates
from kai_sched.solver.kernels.numa import asks_for_zones, zone_points
from kai_sched.solver.kernels.topology import has_frames, preferred_points
from kai_sched.solver.kernels.volumes import volumes_fit
from kai_sched.solver.state import Context

OK = int(Verdict.OK)
HOST_PORT = int(Verdict.HOST_PORT)
POD_AFFINITY = int(Verdict.POD_AFFINITY)
POD_ANTI_AFFINITY = int(Verdict.POD_ANTI_AFFINITY)
EXISTING_ANTI_AFFINITY = int(Verdict.EXISTING_ANTI_AFFINITY)
NO_VOLUME = int(Verdict.NO_VOLUME)
ANTI = int(TermKind.ANTI)
BINPACK = int(Placement.BINPACK)
SPREAD = int(Placement.SPREAD)
PREFERRED = int(TermKind.PREFERRED)
NEED = int(TermRole.NEED)
CARRY = int(TermRole.CARRY)
MATCH = int(TermRole.MATCH)
PORT = int(TermRole.PORT)
PLACEMENT_POINTS = 9.0  # the most that nodeplacement gives


@inner
def score_nodes(t: int, ctx: Context, verdicts: Flags) -> int:
    """Return the best node for task ``t`` by the sum of its points (9); NULL if no node takes it.

    Only nodes on which the task fits later and that pass all predicates compete. The lower row wins a tie, which is the
    order by name.

    Parameters
    ----------
    t : row of the task, which is pending or was evicted by a search
    verdicts : (N,), the static verdict of each node for the class's signature; other nodes than those of OK are skipped

    Returns
    -------
    int : row of the node, or NULL
    """
    settings, snapshot, state = ctx.settings, ctx.snapshot, ctx.state
    nodes, classes = snapshot.nodes, snapshot.classes
    c, nominated = snapshot.tasks.cls[t], snapshot.tasks.nominated[t]
    request, by_rows = classes.request[c], rows_decide(c, ctx)
    cpu_only = classes.cpu_only[c] == 1
    resource = CPU if cpu_only else GPU
    placement = settings.cpu_placement if cpu_only else settings.gpu_placement
    # Bin-pack is relative to the least and the most free amount of all nodes that have the resource, also of nodes on
    # which the task does not fit (9).
    least, most = np.inf, -np.inf
    for n in range(state.idle.shape[0]):
        if nodes.allocatable[n, resource] != 0.0:
            free = free_for_placement(n, resource, ctx)
            least, most = min(least, free), max(most, free)
    first_of_kind, aligned = is_first_of_kind(c, ctx), asks_for_zones(c, ctx)
    best = NULL
    best_score = 0.0
    for n in range(state.idle.shape[0]):
        if verdicts[n] != OK or not fits_later(request, state.idle[n], state.releasing[n]):
            continue
        room, joins = (NOW, False) if by_rows else survey_room(c, n, ctx)
        if room == NEVER:
            continue
        if judge_placed(c, n, first_of_kind, ctx) != OK:
            continue
        if classes.memory[c] > 0 and not is_affordable(t, n, ctx):
            continue
        score = settings.nominated_points if n == nominated else 0.0
        if joins:
            score += settings.sharing_points
        if room == NOW and rows_fit_now(c, n, ctx) and not waits_for_leaving(c, n, ctx):
            score += settings.available_points
        if cpu_only and nodes.cpu_only[n] == 1:
            score += settings.cpu_node_points
        if has_frames(ctx):
            score += preferred_points(n, ctx)
        score += zone_points(c, n, ctx) if aligned else 0.0
        if settings.affinity_points != 0.0:
            score += settings.affinity_points * affinity_of(c, n, ctx)
        free = free_for_placement(n, resource, ctx)
        size = nodes.allocatable[n, resource] if cpu_only else nodes.devices[n]
        score += placement_score(free, nodes.allocatable[n, resource], size, placement, least, most)
        if best == NULL or score > best_score:
            best, best_score = n, score
    return best


@inner
def free_for_placement(n: int, resource: int, ctx: Context) -> float:
    """Return what nodeplacement (9) counts as free on node ``n``, now or later: CPU or whole devices."""
    if resource == GPU:
        return whole_later(n, ctx)
    return float(ctx.state.idle[n, resource] + ctx.state.releasing[n, resource])


@inner
def is_affordable(t: int, n: int, ctx: Context) -> bool:
    """Return whether limits and quotas allow task ``t`` at the price of its GPUs on node ``n`` (3.4, per node).

    Checked for the single task: the devices of a node may make GPU memory dearer than the gates of its chunk assume,
    and then less is left for the other tasks of the chunk. Reads the books of queues (Q + 1, 3), overwrites
    ``scratch.need`` (3,).
    """
    snapshot, scratch = ctx.snapshot, ctx.scratch
    c, j = snapshot.tasks.cls[t], snapshot.tasks.job[t]
    # Without shares the price is the same on all nodes, and the gates of the chunk have allowed it.
    if j == NULL or snapshot.devices.reserved.shape[0] == 0:
        return True
    for r in range(3):
        scratch.need[r] = price_of(c, r, n, ctx)
    fixed = snapshot.jobs.preemptible[j] == 0
    verdict, _, _ = pass_gates(snapshot.jobs.queue[j], scratch.need, fixed, snapshot.queues.parent, ctx.state.book)
    return bool(verdict == OK)


@inner
def placement_score(free: float, allocatable: float, size: float, placement: int, least: float, most: float) -> float:
    """Return the points of nodeplacement (9): 0 to 9 for binpack, 0 to 1 for spread, else 0.

    Parameters
    ----------
    free : idle plus releasing of the resource on the node; CPU for CPU-only pods, else GPUs
    allocatable : what the node has of it
    size : what spreading divides by: for GPUs the devices of the node (label), else what is allocatable
    placement : OFF, BINPACK or SPREAD
    least, most : the smallest and the largest ``free`` of all nodes that have the resource
    """
    if placement == BINPACK:
        if allocatable == 0.0 or most == 0.0:
            return 0.0
        return PLACEMENT_POINTS if least == most else PLACEMENT_POINTS * (1.0 - (free - least) / (most - least))
    if placement == SPREAD and size != 0.0:
        return free / size
    return 0.0


@inner
def is_first_of_kind(c: int, ctx: Context) -> bool:
    """Return whether class ``c`` may start anywhere although no pod matches its required affinity terms yet (12.2).

    This holds for a class whose own pods match all its terms (``term_roles.self_match`` (C,)), as long as no domain of
    these terms has a matching pod (``state.domains.matched`` (D,)).
    """
    terms, term_roles = ctx.snapshot.terms, ctx.snapshot.term_roles
    if term_roles.self_match[c] == 0:
        return False
    for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
        if term_roles.entry[entry, 0] == NEED:
            a = term_roles.entry[entry, 1]
            for n in range(terms.domain.shape[1]):
                if terms.domain[a, n] != NULL and ctx.state.domains.matched[terms.domain[a, n]] > 0:
                    return False
    return True


@inner
def judge_placed(c: int, n: int, first_of_kind: bool, ctx: Context) -> int:
    """Return the verdict on node ``n`` for class ``c`` by the pods that are placed so far (12.2, step 6).

    Checks inter-pod affinity, anti-affinity in both directions, and host ports, in the order of the class's term roles,
    and then volumes; the first that fails is the verdict: HOST_PORT, POD_AFFINITY, POD_ANTI_AFFINITY,
    EXISTING_ANTI_AFFINITY, NO_VOLUME, else OK. Reads ``state.domains`` (D,) and ``state.ports`` (N, P): leaving pods
    refuse nothing, but see ``waits_for_leaving``.

    Parameters
    ----------
    c, n : rows of the class and the node
    first_of_kind : result of ``is_first_of_kind``: a domain without matching pods satisfies a required term; the node
        must have the topology label all the same
    """
    terms, term_roles, host_ports = ctx.snapshot.terms, ctx.snapshot.term_roles, ctx.snapshot.host_ports
    domains, ports = ctx.state.domains, ctx.state.ports
    for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
        role, row = term_roles.entry[entry, 0], term_roles.entry[entry, 1]
        if role == PORT:
            for at in range(host_ports.ptr[row], host_ports.ptr[row + 1]):
                if ports[n, host_ports.conflict[at]] > 0:
                    return HOST_PORT
            continue
        domain = terms.domain[row, n]
        if role == NEED:
            if domain == NULL or (domains.matched[domain] == 0 and not first_of_kind):
                return POD_AFFINITY
        elif terms.kind[row] == ANTI and domain != NULL:
            # Anti-affinity holds in both directions: a term of this class that placed pods match, and a term that
            # placed pods carry and this class matches.
            if role == CARRY and domains.matched[domain] > 0:
                return POD_ANTI_AFFINITY
            if role == MATCH and domains.carried[domain] > 0:
                return EXISTING_ANTI_AFFINITY
    return OK if volumes_fit(c, n, ctx) else NO_VOLUME


@inner
def waits_for_leaving(c: int, n: int, ctx: Context) -> bool:
    """Return whether a pod of class ``c`` has to wait on node ``n`` until a leaving pod is gone (12.2).

    That is by host ports or by anti-affinity in either direction. Reads ``state.leaving_domains`` (D,) and
    ``leaving_ports`` (N, P).
    """
    terms, term_roles, host_ports = ctx.snapshot.terms, ctx.snapshot.term_roles, ctx.snapshot.host_ports
    leaving, ports = ctx.state.leaving_domains, ctx.state.leaving_ports
    for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
        role, row = term_roles.entry[entry, 0], term_roles.entry[entry, 1]
        if role == PORT:
            for at in range(host_ports.ptr[row], host_ports.ptr[row + 1]):
                if ports[n, host_ports.conflict[at]] > 0:
                    return True
        elif terms.kind[row] == ANTI and terms.domain[row, n] != NULL:
            domain = terms.domain[row, n]
            if role == CARRY and leaving.matched[domain] > 0:
                return True
            if role == MATCH and leaving.carried[domain] > 0:
                return True
    return False


@inner
def has_guards(c: int, snapshot: Snapshot) -> bool:
    """Return whether class ``c`` has host ports or anti-affinity, its own or others' (``term_roles.ptr`` (C + 1,))."""
    term_roles = snapshot.term_roles
    for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
        if term_roles.entry[entry, 0] == PORT or snapshot.terms.kind[term_roles.entry[entry, 1]] == ANTI:
            return True
    return False


@inner
def spans_nodes(c: int, snapshot: Snapshot) -> bool:
    """Return whether anti-affinity, of class ``c`` or of others against it, has a domain of several nodes.

    Else only pods on a node itself keep the class off it. Reads ``terms.spans_nodes`` (A,).
    """
    terms, term_roles = snapshot.terms, snapshot.term_roles
    for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
        role, row = term_roles.entry[entry, 0], term_roles.entry[entry, 1]
        if role != PORT and terms.kind[row] == ANTI and terms.spans_nodes[row] == 1:
            return True
    return False


@inner
def affinity_of(c: int, n: int, ctx: Context) -> int:
    """Return how much class ``c`` prefers node ``n`` (9): a sum of weights, negative for anti-affinity.

    It counts preferred terms of the class by the pods that match them (``domains.matched`` (D,)), and preferred terms
    of placed pods that match the class by their weight (``domains.carried`` (D,)).
    """
    terms, term_roles, domains = ctx.snapshot.terms, ctx.snapshot.term_roles, ctx.state.domains
    score = 0
    for entry in range(term_roles.ptr[c], term_roles.ptr[c + 1]):
        role, row, weight = term_roles.entry[entry, 0], term_roles.entry[entry, 1], term_roles.entry[entry, 2]
        if role == PORT or terms.kind[row] != PREFERRED or terms.domain[row, n] == NULL:
            continue
        if role == CARRY:
            score += weight * domains.matched[terms.domain[row, n]]
        elif role == MATCH:
            score += domains.carried[terms.domain[row, n]]
    return score
