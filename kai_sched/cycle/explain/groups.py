"""Which reason a pending group gets, with which facts, and what each evicting action found for it: from the verdicts of
the solver to the sentences of ``plan.reasons``.

Amounts are those at the end of the cycle. A reason is computed only when a caller reads it (``cycle.lift``).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from kai_sched.api.names import GPU_MEMORY_LABEL
from kai_sched.cycle.explain import volumes
from kai_sched.cycle.explain.claims import claims_text
from kai_sched.cycle.explain.nodes import list_nodes
from kai_sched.cycle.explain.shares import share_text
from kai_sched.cycle.explain.topology import topology_reason
from kai_sched.lowering.constraints import untolerated
from kai_sched.lowering.lower import Lowered
from kai_sched.lowering.pod_classes import GPU_SHARING_OFF
from kai_sched.model.claims.objects import ClaimRequests
from kai_sched.model.field_errors import shown
from kai_sched.model.times import format_time
from kai_sched.plan import reasons
from kai_sched.plan.amounts import is_of_volumes
from kai_sched.plan.reasons import Free, NoFit, Reason
from kai_sched.plan.result import QUEUE_RESOURCES
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.gpu_kinds import UNKNOWN_MEMORY
from kai_sched.snapshot.tables import DEFERRED, GPU, PODS, Action, Floats, Help, Longs, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.solution import JobOutcome, Solution

NODE_TEXTS = {
    Verdict.NOT_READY: reasons.NODE_NOT_READY,
    Verdict.UNSCHEDULABLE: reasons.NODE_CORDONED,
    Verdict.MEMORY_PRESSURE: reasons.MEMORY_PRESSURE,
    Verdict.DISK_PRESSURE: reasons.DISK_PRESSURE,
    Verdict.PID_PRESSURE: reasons.PID_PRESSURE,
    Verdict.NETWORK_UNAVAILABLE: reasons.NETWORK_UNAVAILABLE,
    Verdict.MIG_ONLY: "MIG devices only",
    Verdict.NO_MIG: "no MIG devices",
    Verdict.NO_GPU_MEMORY: "GPU memory not known (no label nvidia.com/gpu.memory)",
    Verdict.NOT_RESERVED: "a GPU could not be reserved for sharing there lately",
    Verdict.TAINT: "taint not tolerated",
    Verdict.NODE_AFFINITY: "node selector or node affinity not matched",
    Verdict.VOLUME_AFFINITY: "a volume of the pod is not available there",
    Verdict.NO_VOLUME: volumes.NO_VOLUME_TEXT,
    Verdict.NO_CAPACITY: volumes.NO_CAPACITY_TEXT,
    Verdict.NOT_ATTACHABLE: volumes.NOT_ATTACHABLE_TEXT,
    Verdict.WORKER_LABEL: "worker label missing",
    Verdict.HOST_PORT: "host port taken",
    Verdict.POD_AFFINITY: "pod affinity matches no pod there",
    Verdict.POD_ANTI_AFFINITY: volumes.ANTI_AFFINITY_TEXT,
    Verdict.EXISTING_ANTI_AFFINITY: "anti-affinity of a pod there against this one",
    Verdict.NO_CLAIMED_DEVICES: "cannot allocate all claims",
    Verdict.CLAIMS_ONLY: "its GPUs are devices for ResourceClaims",
    Verdict.NOT_ALIGNED: "cannot align the pod to its NUMA zones",
    Verdict.CLAIMS_TOO_HARD: "whether all claims can be allocated takes too long to find out",
}
CLASS_TEXTS = {
    Verdict.CLAIM_MISSING: "PersistentVolumeClaim {} does not exist",
    Verdict.CLAIM_LOST: "PersistentVolumeClaim {} has lost its volume",
    Verdict.CLAIM_DELETED: "PersistentVolumeClaim {} is being deleted",
    Verdict.CLAIM_UNBOUND: (
        "PersistentVolumeClaim {} is not bound, and its storage class binds immediately or does not exist"
    ),
    Verdict.VOLUME_MISSING: "PersistentVolume {}, to which its claim is bound, does not exist",
    Verdict.DEVICE_CLAIM: "{}",
    Verdict.CLAIM_IN_USE: "{}",
    Verdict.CONFIG_MAP_MISSING: "required ConfigMap {} does not exist",
}

ACTION_NAMES = {
    Action.CONSOLIDATION: "consolidation",
    Action.RECLAIM: "reclaim",
    Action.PREEMPT: "preempt",
    Action.STALE_GANG: "stalegangeviction",
    Action.BACKGROUND: "backgroundpods",
}
HELP_TEXTS = {
    Help.OVER_SHARE: "its queue would hold more than its fair share",
    Help.OVER_QUOTA: "its queue would hold more non-preemptible work than its quota",
    Help.LIKE_ANOTHER: "an equivalent group of the same queue found no victims",
    Help.NO_VICTIMS: "no pod may be evicted for it",
    Help.NO_ROOM: "it would not fit even without all pods that may be evicted for it",
    Help.SHARES: "other queues hold too little above their fair shares",
    Help.VICTIMS_GO_FIRST: "every possible victim would be scheduled again before it, or is protected by fair share",
    Help.TOO_LONG: "the search for victims was cut short: the searches of this action reached their work limit",
    Help.NOT_FOUND: "no set of victims makes room for it",
}
OTHERS_FIRST = "groups whose search for victims was cut short before go first in this cycle"
# Verdicts in which evictions could help. For others, the results of evicting actions are not reported.
ROOM_WOULD_HELP = frozenset(
    (Verdict.OK, Verdict.NO_FIT, Verdict.NO_DOMAIN, Verdict.NO_HELP, Verdict.OVER_LIMIT, Verdict.OVER_QUOTA)
)


@dataclass(slots=True)
class SharedFacts:
    """Facts that the reasons of several groups have in common, computed at first use."""

    by_node: bool = False  # reasons list the nodes by name (``detailedFitErrors``)
    facts: dict[int, NoFit] = field(default_factory=dict)  # by class: what keeps its pods from the nodes
    leaves: dict[str, list[str]] = field(default_factory=dict)  # by queue: leaf queues below it; "" for all
    free: dict[int, Free] = field(default_factory=dict)  # by column of the resource
    # By what a claim asks for: (request, text) of the requests that no node can meet.
    claims: dict[ClaimRequests, list[tuple[str, str]]] = field(default_factory=dict)


def explain_group(j: int, lowered: Lowered, solution: Solution, shared: SharedFacts) -> Reason:
    """Why pods of group ``j`` are pending, and why no pods were evicted for it."""
    codes = _found(j, lowered, solution)
    reason = _main_reason(j, lowered, solution, shared)
    if Help.DELAYED in codes.values():
        group = lowered.groups[j]
        until = format_time(int(lowered.snapshot.jobs.waits_until[j]))
        delay = reasons.delayed(group.preemption_delay_s, until)
        if solution.outcome(j).verdict == Verdict.NO_HELP:
            return delay
        return replace(reason, message=f"{reason.message}; {delay.message}")
    if Help.HELPED in codes.values() or solution.outcome(j).verdict not in ROOM_WOULD_HELP:
        return reason
    if not codes:
        return replace(reason, message=f"{reason.message}; {OTHERS_FIRST}")
    texts = [(ACTION_NAMES[action], HELP_TEXTS[code]) for action, code in codes.items() if code in HELP_TEXTS]
    return reasons.with_help(reason, texts)


def _found(j: int, lowered: Lowered, solution: Solution) -> dict[Action, Help]:
    """What each evicting action found for the group.

    For a group whose search was deferred, that is the result of its last search; nothing if it had none yet.
    """
    codes = solution.helped(j)
    if lowered.snapshot.jobs.waits_until[j] == DEFERRED:
        then = lowered.searched.get(lowered.groups[j].key, ())
        codes = tuple(Help.NOT_TRIED if code in (Help.DELAYED, Help.HELPED) else Help(code) for code in then)
    return dict(zip(Action, codes, strict=False))


def _main_reason(j: int, lowered: Lowered, solution: Solution, shared: SharedFacts) -> Reason:
    """The reason for the verdict on the group, apart from evictions."""
    outcome, queue = solution.outcome(j), lowered.groups[j].queue
    blocking_row = outcome.blocking_row
    match outcome.verdict:
        case Verdict.OK:
            return _only_gated(j, lowered, solution)
        case Verdict.NO_QUEUE:
            above = lowered.queues.left_out.get(queue)
            return reasons.no_queue(queue, _leaves(lowered, "", shared), above, bool(lowered.bare[j]))
        case Verdict.QUEUE_NOT_LEAF:
            return reasons.queue_not_leaf(queue, _leaves(lowered, queue, shared))
        case Verdict.GANG_NOT_READY:
            return reasons.not_ready(_short_sets(j, lowered, solution))
        case Verdict.NO_CHUNK:
            return reasons.nothing_to_add()
        case Verdict.OVER_LIMIT | Verdict.OVER_QUOTA:
            return _gate(outcome, lowered, solution)
        case Verdict.NO_FIT:
            c = int(lowered.snapshot.tasks.cls[blocking_row])
            if c not in shared.facts:
                shared.facts[c] = _facts(c, blocking_row, lowered, solution, shared)
            placed, asked = outcome.placed, outcome.asked
            facts = replace(shared.facts[c], pod=lowered.pods[blocking_row].key, placed=placed, asked=asked)
            facts = _with_claims(blocking_row, facts, lowered, shared)
            facts = volumes.with_volumes(blocking_row, facts, lowered, solution)
            if placed and facts.room and (together := volumes.after_others(blocking_row, lowered)):
                return reasons.no_fit(replace(facts, together=together))
            return reasons.no_fit(facts if facts.free or asked < 2 else _as_a_gang(j, facts, lowered, solution, shared))
        case Verdict.NO_TOPOLOGY | Verdict.NO_LEVEL | Verdict.NO_DOMAIN:
            return topology_reason(j, outcome, lowered, solution)
        case Verdict.NOT_SUPPORTED:
            what = _refusal(blocking_row, lowered)
            return reasons.sharing_off() if what == GPU_SHARING_OFF else reasons.not_supported(what)
        case Verdict.BACKED_OFF:
            return reasons.backed_off(lowered.groups[j].given_up_in)
        case Verdict.NO_HELP:
            return reasons.no_help()
        case Verdict.OVER_WORK:
            return reasons.over_work(lowered.pods[blocking_row].key, _refusal(blocking_row, lowered))
        case Verdict.TOO_LARGE:
            return _too_large(blocking_row, lowered)
        case _:
            return reasons.refused(
                lowered.pods[blocking_row].key, CLASS_TEXTS[outcome.verdict].format(_refusal(blocking_row, lowered))
            )


def _with_claims(t: int, facts: NoFit, lowered: Lowered, shared: SharedFacts) -> NoFit:
    """The facts with what no node can give to the claims of task ``t``: its class has other claims."""
    text = NODE_TEXTS[Verdict.NO_CLAIMED_DEVICES]
    if text not in facts.verdicts or not (more := claims_text(t, lowered, shared.claims)):
        return facts
    verdicts = {f"{text} ({more})" if each == text else each: count for each, count in facts.verdicts.items()}
    return replace(facts, verdicts=verdicts)


def _only_gated(j: int, lowered: Lowered, solution: Solution) -> Reason:
    """The reason where the verdict is OK: pods are gated, lost their node again, or no action tried the group."""
    jobs = lowered.snapshot.jobs
    tasks = slice(jobs.task_ptr[j], jobs.task_ptr[j + 1])
    statuses = solution.status[tasks].tolist()
    if Status.PENDING in statuses:
        return reasons.not_tried()
    if lost := int(solution.lost[tasks].sum()):
        return reasons.gave_way(lost)
    short = _short_sets(j, lowered, solution)
    return reasons.not_ready(short) if short else reasons.gated(statuses.count(Status.GATED))


def _refusal(t: int, lowered: Lowered) -> str:
    return lowered.refusals[int(lowered.snapshot.tasks.cls[t])]


def _leaves(lowered: Lowered, above: str, shared: SharedFacts) -> list[str]:
    """Names of the leaf queues below the queue ``above``; of all leaf queues for ""."""
    if above in shared.leaves:
        return shared.leaves[above]
    parent, queues = lowered.snapshot.queues.parent, lowered.queues.queues
    names = []
    for q in np.flatnonzero(lowered.queues.is_leaf):
        row, found = q, not above
        while row != NULL and not found:
            found = queues[row].name == above
            row = parent[row]
        if found:
            names.append(queues[q].name)
    shared.leaves[above] = sorted(names)
    return shared.leaves[above]


def _short_sets(j: int, lowered: Lowered, solution: Solution) -> list[tuple[str, int, int, int]]:
    sets, first, layout = lowered.snapshot.sets, int(lowered.snapshot.jobs.set_ptr[j]), lowered.layouts[j]
    parts = []
    for name, row in sorted(layout.pod_sets.items()):
        s = first + row
        statuses = solution.status[sets.task_ptr[s] : sets.task_ptr[s + 1]].tolist()
        gated, succeeded = statuses.count(Status.GATED), statuses.count(Status.SUCCEEDED)
        there = gated + succeeded + sum(Status.PENDING <= status <= Status.RUNNING for status in statuses)
        if there - gated < layout.minimum[row]:
            parts.append((name, layout.minimum[row], there, gated))
    return parts


def _gate(outcome: JobOutcome, lowered: Lowered, solution: Solution) -> Reason:
    shares, q, r = solution.queues, outcome.blocking_row, outcome.resource
    queue = lowered.queues.queues[q]
    name, resource = queue.display_name or queue.name, QUEUE_RESOURCES[r]
    if outcome.verdict == Verdict.OVER_LIMIT:
        reason = reasons.over_limit(name, resource, float(shares.limit[q, r]), float(shares.held[q, r]), outcome.need)
    else:
        held = float(shares.held_fixed[q, r])
        reason = reasons.over_quota(name, resource, float(shares.quota[q, r]), held, outcome.need)
    return replace(reason, queue=queue.name)


def _too_large(t: int, lowered: Lowered) -> Reason:
    request = lowered.snapshot.classes.request[lowered.snapshot.tasks.cls[t]]
    allocatable = lowered.snapshot.nodes.allocatable
    for r, resource in enumerate(lowered.resources):
        largest = float(allocatable[:, r].max(initial=0.0))
        if request[r] > largest:
            c, pod = int(lowered.snapshot.tasks.cls[t]), lowered.pods[t].key
            wanted, most = share_text(c, lowered)
            if r == GPU and most:
                return reasons.too_much_memory(pod, wanted, most)
            return reasons.too_large(pod, resource, float(_asked(c, lowered)[r]), largest)
    raise AssertionError("a pod that is too large exceeds the largest node in some resource")


def _asked(c: int, lowered: Lowered) -> Floats:
    """(R,) what a pod of class ``c`` asks for, as users wrote it: the books round parts of GPUs down.

    GPU memory is its part of the smallest device, which the pod has to pay for at most.
    """
    classes = lowered.snapshot.classes
    asked: Floats = classes.request[c].copy()
    if classes.portion[c]:
        asked[GPU] = classes.portion[c] * classes.shares[c]
    elif classes.shares[c]:
        asked[GPU] = classes.quota[c, GPU]
    return asked


def _facts(c: int, t: int, lowered: Lowered, solution: Solution, shared: SharedFacts) -> NoFit:
    """What keeps pods of class ``c`` from the nodes; ``t`` is a task of it. Pod, placed and asked are left empty."""
    facts = solution.class_facts(c)
    request, asked = lowered.snapshot.classes.request[c], _asked(c, lowered)
    lacked = [(r, resource) for r, resource in enumerate(lowered.resources) if facts.short[r]]
    short = {
        resource: (int(facts.short[r]), float(asked[r]), float(facts.largest_free[r]))
        for r, resource in lacked
        if asked[r] > 0
    }
    # A request of nothing is more than what is left only where that is less than nothing.
    overcommitted = {resource: int(facts.short[r]) for r, resource in lacked if asked[r] <= 0}
    verdicts = {text: facts.nodes[verdict] for verdict, text in NODE_TEXTS.items() if verdict in facts.nodes}
    if plain := verdicts.pop(NODE_TEXTS[Verdict.TAINT], 0):
        taints = {
            taint for node in lowered.nodes for taint in untolerated(lowered.pods[t].shape.tolerations, node.taints)
        }
        names = reasons.some_of(sorted(f"{taint.key}={taint.value}" if taint.value else taint.key for taint in taints))
        verdicts[f"{NODE_TEXTS[Verdict.TAINT]} ({names})"] = plain
    if unknown := verdicts.pop(NODE_TEXTS[Verdict.NO_GPU_MEMORY], 0):
        verdicts[_memory_text(lowered)] = unknown
    scarce = _scarce(request, facts.short)
    free = {}
    if scarce != NULL and not is_of_volumes(lowered.resources[scarce]):
        if scarce not in shared.free:
            shared.free[scarce] = _free(scarce, lowered, solution)
        free[lowered.resources[scarce]] = shared.free[scarce]
    return NoFit(
        pod="",
        placed=0,
        asked=0,
        room=facts.room,
        n_nodes=len(lowered.nodes),
        short=short,
        overcommitted=overcommitted,
        verdicts=verdicts,
        free=free,
        holders=_holders(scarce, lowered, solution) if NULL < scarce < PODS else [],
        holders_of=lowered.resources[scarce] if scarce != NULL else "",
        share=share_text(c, lowered) if lowered.snapshot.classes.shares[c] else ("", ""),
        listed=list_nodes(c, t, asked, lowered, solution, NODE_TEXTS) if shared.by_node else "",
    )


def _memory_text(lowered: Lowered) -> str:
    """Why the memory of GPUs is not known: which nodes have a label that cannot be read, and what is in it."""
    unknown = [lowered.nodes[n] for n in np.flatnonzero(lowered.snapshot.nodes.device_memory == UNKNOWN_MEMORY)]
    labels = {node.name: node.labels.get(GPU_MEMORY_LABEL) for node in unknown}
    bad = [f"{shown(value)} on {name}" for name, value in sorted(labels.items()) if value is not None]
    if not bad:
        return NODE_TEXTS[Verdict.NO_GPU_MEMORY]
    missing = "no label" if None in labels.values() else "label"
    or_bad = ", or one that is" if None in labels.values() else " is"
    what = f"{missing} {GPU_MEMORY_LABEL}{or_bad} no whole number of MiB above 0"
    return f"GPU memory not known ({what}: {reasons.some_of(bad)}; correct it)"


def _as_a_gang(j: int, facts: NoFit, lowered: Lowered, solution: Solution, shared: SharedFacts) -> NoFit:
    """The facts of a gang each pod of which would fit alone, with the resource that is short for all together."""
    classes, cls = lowered.snapshot.classes, lowered.snapshot.tasks.cls
    tasks = range(*lowered.snapshot.jobs.task_ptr[j : j + 2].tolist())
    waiting = [int(cls[t]) for t in tasks if solution.status[t] == Status.PENDING]
    if len(set(waiting)) == 1:
        booked, asked = (facts.asked * row for row in (classes.request[waiting[0]], _asked(waiting[0], lowered)))
    elif len(waiting) == facts.asked:
        booked, asked = classes.request[waiting].sum(axis=0), sum(_asked(c, lowered) for c in waiting)
    else:
        return facts  # which of them it is about is not shared
    for r in sorted(range(len(lowered.resources)), key=lambda r: r != GPU):
        if booked[r] <= 0.0 or is_of_volumes(lowered.resources[r]):
            continue
        if r not in shared.free:
            shared.free[r] = _free(r, lowered, solution)
        shares = r == GPU and bool(classes.shares[waiting].any())
        if booked[r] > shared.free[r].amount - (0.0 if shares else shared.free[r].shared):
            resource = lowered.resources[r]
            holders = _holders(r, lowered, solution) if r < PODS else []
            free = {resource: shared.free[r]}
            return replace(facts, in_all={resource: float(asked[r])}, free=free, holders=holders, holders_of=resource)
    return facts


def _free(r: int, lowered: Lowered, solution: Solution) -> Free:
    """What is free of resource ``r`` in the cluster."""
    left = (solution.idle[:, r] + solution.releasing[:, r]).clip(min=0)
    shared = solution.shared_left if r == GPU else np.zeros(left.size)
    usable = np.array([node.takes_pods for node in lowered.nodes], bool)
    total = lowered.snapshot.nodes.allocatable[usable, r].sum()
    sums = (left + shared)[usable].sum(), total, (left + shared)[~usable].sum(), shared[usable].sum()
    return Free(*(float(each) for each in sums))


def _scarce(request: Floats, short: Longs) -> int:
    """The resource to report: GPUs if the pod requests them and nodes lack them, else the one that most nodes lack.

    ``request`` (R,) is the request of a class, ``short`` (R,) the number of nodes that lack it. NULL if none is short.
    """
    asked = [
        (int(nodes), r == GPU, -r)
        for r, (nodes, amount) in enumerate(zip(short, request, strict=True))
        if nodes and amount > 0
    ]
    if not asked:
        return NULL
    gpus = [entry for entry in asked if entry[1]]
    return -max(gpus or asked)[2]


def _holders(r: int, lowered: Lowered, solution: Solution) -> list[tuple[str, float]]:
    """(queue, amount) of the leaf queues that hold resource ``r``, the largest first."""
    queues, shares = lowered.queues.queues, solution.queues
    held = [(queues[q].name, float(shares.held[q, r])) for q in np.flatnonzero(lowered.queues.is_leaf)]
    held = [entry for entry in held if entry[1] > 0]
    return sorted(held, key=lambda entry: (-entry[1], entry[0]))
