"""What blocks a group: constraints of which each alone, if it were not there, would let the group start; where there is
no such one, those that block it only together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

from kai_sched.answers.changes import AddNodes
from kai_sched.answers.explain.node_changes import may_refuse, most_nodes, node_kinds, refusing_nodes
from kai_sched.answers.explain.queue_changes import unlimited_changes
from kai_sched.answers.explain.search import Changes, TrialSearch
from kai_sched.answers.explain.suggestion import smallest_set
from kai_sched.answers.explain.unknown_queue import unknown_queue, with_stand_in
from kai_sched.answers.explain.user_changes import demand_changes
from kai_sched.answers.goal import group_labels, pod_gpus
from kai_sched.answers.words import count, number, some
from kai_sched.answers.workload_changes import Preemptible, Tolerate, WithoutDemand
from kai_sched.api.names import DEFAULT_SCHEDULER
from kai_sched.cycle.explain.groups import NODE_TEXTS
from kai_sched.lowering.constraints import untolerated
from kai_sched.model.config import in_pool
from kai_sched.model.objects import Node, Pod
from kai_sched.model.queue_tree import path_to_root
from kai_sched.model.resources import STORAGE_OF
from kai_sched.model.selectors import admits
from kai_sched.plan.amounts import show_amount, show_number
from kai_sched.plan.reasons import NO_DOMAIN, NODE_STATES, OVER_QUOTA
from kai_sched.plan.result import QUEUE_RESOURCES, GroupState
from kai_sched.reconcile.status.pod_conditions import unknown_group, unserved_pool
from kai_sched.snapshot.verdicts import Verdict

_HAS_ROOM = "with room for a pod"
_NOT_ALIGNED = NODE_TEXTS[Verdict.NOT_ALIGNED]
_OF_VOLUMES = (NODE_TEXTS[Verdict.NO_CAPACITY], NODE_TEXTS[Verdict.NOT_ATTACHABLE], STORAGE_OF, "attachable volume")
# What ``node_word`` sees itself.
_SEEN = frozenset(NODE_TEXTS[verdict] for verdict in (Verdict.TAINT, Verdict.NODE_AFFINITY, Verdict.NOT_ALIGNED))
_WORDS = {"cpu": "CPU", "pods": "room for more pods"}
_CONSTRAINED = "topology: its constraint cannot be met"


@dataclass(frozen=True, slots=True)
class Constraint:
    """Something that keeps the group from starting.

    Attributes
    ----------
    kind
        "queue", "limit", "quota", "demand", "numa", "room", "claim", "pool", or "unseen": no scheduler decides it.
    text
        What it is, with its numbers.
    necessary
        Whether the group starts if this one alone is taken away. Else it starts only if all constraints that are named
        are, and none of them can stay.
    without
        The changes that take it away; what was tried.
    """

    kind: str
    text: str
    necessary: bool
    without: Changes


def blocking(search: TrialSearch, raised: Set[str] = frozenset()) -> list[Constraint]:
    """The constraints that block the group; what is wrong with the workload comes first, then its queue, then room.

    ``raised`` are the queues whose quotas have to be raised for it, where that is known: those that stop it.
    """
    candidates = list(_candidates(search, raised))
    alone = [each for each in candidates if each.without and search.starts(each.without)]
    if alone:
        return alone
    every = tuple(change for each in candidates for change in each.without)
    if len(candidates) < 2 or not search.starts(every):
        return []
    kept = [candidates[place] for place in smallest_set(search, [each.without for each in candidates])]
    return [replace(each, necessary=False) for each in kept]


def _candidates(search: TrialSearch, raised: Set[str]) -> Iterator[Constraint]:
    cluster, waiting = search.trials.cluster, search.waiting
    state = search.base.last.groups.get(search.group) or search.base.first.groups.get(search.group)
    assert state is not None  # the caller asks ``unseen`` otherwise
    problem = unknown_queue(cluster, state.queue, search.config)
    if problem:
        yield Constraint("queue", problem, True, with_stand_in(search.group, search.config))
    else:
        yield from _gates(search, state)
    for change, _ in demand_changes(search, waiting):
        yield Constraint("demand", _demand_text(change, waiting, state), True, (change,))
    if refusing := refusing_nodes(search):
        yield Constraint("numa", _numa_text(len(refusing)), True, (WithoutDemand(search.group, "numaAlignment"),))
    if more := _more_room(search):
        yield Constraint("room", room_text(search, waiting), True, more)
    if not problem and (open_ := unlimited_changes(search, "quota")):
        yield Constraint("claim", claim_text(search, state, waiting, raised), True, open_)


def _gates(search: TrialSearch, state: GroupState) -> Iterator[Constraint]:
    """The limits, and for a group that is not preemptible the quotas, of its queue and those above it."""
    gate = state.reason.gate if state.reason else None
    if limits := unlimited_changes(search, "limit"):
        if gate is not None and state.reason is not None and state.reason.code != OVER_QUOTA:
            asks = show_amount(gate.resource, gate.need)
            text = f"limit: queue {gate.queue} may hold {show_amount(gate.resource, gate.bound)}; it holds "
            text += f"{show_number(gate.resource, gate.held)}, and this asks for {asks}"
        else:
            names = path_to_root(search.trials.cluster.queues, state.queue)
            text = f"limit: {' and '.join(names)} may not hold what this asks for"
        yield Constraint("limit", text, True, limits)
    if not state.preemptible:
        text = "quota: it is not preemptible, so it has to stay within the quota of its queue and of those above it"
        if gate is not None and state.reason is not None and state.reason.code == OVER_QUOTA:
            text += f"; {gate.queue} has {show_amount(gate.resource, gate.bound)}, of which "
            held, need = (show_number(gate.resource, each) for each in (gate.held, gate.need))
            text += f"{held} are held, and this asks for {need}"
        yield Constraint("quota", text, True, (Preemptible(search.group),))


def _demand_text(change: object, waiting: Sequence[Pod], state: GroupState) -> str:
    demand = getattr(change, "demand", "")
    if isinstance(change, Tolerate):
        return f"taint: {change.key} is not tolerated"
    selectors = sorted({pair for pod in waiting for pair in pod.shape.node_selector})
    if demand == "nodeSelector":
        return f"node selector: {', '.join(f'{key}={value}' for key, value in selectors)}"
    if demand == "topologyConstraint":
        if state.reason is None or not (state.reason.code == NO_DOMAIN or state.reason.missing):
            return _CONSTRAINED
        said = state.reason.message.partition(";")[0]
        return said if said.startswith("Topology ") else f"topology: {said}"
    words = {"nodeAffinity": "node affinity", "podAffinity": "pod affinity", "podAntiAffinity": "pod anti-affinity"}
    return f"{words.get(demand, demand)}: it is required, and leaves too few nodes"


def unseen(search: TrialSearch, pods: Sequence[Pod]) -> Constraint:
    """Why no cycle has seen the group at all, so that no change was tried."""
    cluster, trials = search.trials.cluster, search.trials
    labels = group_labels(cluster, search.group)
    scheduler = trials.config.scheduler_name
    others = sorted({pod.scheduler or DEFAULT_SCHEDULER for pod in pods if pod.scheduler != scheduler})
    if others:
        text = f"its pods name the scheduler {others[0]!r}, and this is {scheduler!r}"
    elif not any(in_pool(labels, each) for each in trials.shards or (trials.config,)):
        text = unserved_pool(labels.get(trials.config.node_pool_label, "")).message
    elif search.group not in cluster.pod_groups and pods and pods[0].group:
        text = unknown_group(pods[0].group_key).message
    else:
        text = "the scheduler left it out, as it could not be read: see the warnings about it"
    return Constraint("unseen", text, True, ())


def _more_room(search: TrialSearch) -> Changes:
    """Many nodes of the kind of which there are most that can hold a pod of the group."""
    kinds = node_kinds(search)
    return (AddNodes(most_nodes(search), kinds[0].name),) if kinds else ()


def room_text(search: TrialSearch, waiting: Sequence[Pod]) -> str:
    """Which nodes could hold a pod of the group and why none does: full, cordoned, not ready, or not for it."""
    cluster, states, config = search.trials.cluster, search.base.last.nodes, search.config
    if not waiting:
        return "room: no node has any for it"
    pod = max(waiting, key=pod_gpus)
    scarce = "gpu" if pod_gpus(pod) else "cpu"
    state = search.base.last.groups.get(search.group)
    reason = state.reason if state is not None else None
    said = reason.message if reason is not None else ""
    unaligned, homeless = _NOT_ALIGNED in said, any(text in said for text in _OF_VOLUMES)
    verdicts = reason.facts.verdicts if reason is not None and reason.facts is not None else {}
    most_first = sorted(verdicts, key=lambda text: (-verdicts[text], text))
    others = [text for text in most_first if text not in _SEEN and text not in NODE_STATES]
    found: Counter[str] = Counter()
    names: dict[str, list[str]] = {}
    without = 0
    for name, node in sorted(cluster.nodes.items()):
        if not in_pool(node.labels, config):
            continue
        if not node.allocatable.get(scarce, 0.0):
            without += 1
            continue
        room = states[name].idle if name in states else {}
        word = node_word(node, pod, room)
        if word == _HAS_ROOM and unaligned and may_refuse(cluster.node_zones.get(name), pod):
            word = "with room for a pod, but not in its NUMA zones"
        elif word == _HAS_ROOM and homeless:
            word = "with room for a pod, but not for its volumes"
        elif word == _HAS_ROOM and others:
            word = f"{_HAS_ROOM}, but {others[0]}"
        found[word] += 1
        names.setdefault(word, []).append(name)
    kind = "GPU node" if scarce == "gpu" else "node"
    parts: list[str] = []
    for word in sorted(found, key=lambda each: (-found[each], each)):
        listed = f" ({some(names[word], 2)})" if word in _LISTED else ""
        parts.append(f"{count(found[word], kind) if not parts else found[word]} {word}{listed}")
    text = f"room: {_of_pool(search)}" + (", ".join(parts) or f"there is no {kind}")
    return f"{text}; {without} without GPUs" if without and scarce == "gpu" else text


def _of_pool(search: TrialSearch) -> str:
    """Whose nodes these are, where there are several node pools."""
    if len(search.trials.shards) < 2:
        return ""
    return f"node pool {search.config.node_pool}: " if search.config.node_pool else "outside node pools: "


_LISTED = frozenset({"cordoned", "not ready"})


def node_word(node: Node, pod: Pod, idle: object) -> str:
    """Why the node does not take the pod: the first that holds of cordoned, not ready, a taint, a selector, full."""
    if node.bad_conditions:
        return "not ready"
    if node.unschedulable:
        return "cordoned"
    if untolerated(pod.shape.tolerations, node.taints):
        return "with a taint that is not tolerated"
    selector = dict(pod.shape.node_selector)
    if any(node.labels.get(key) != value for key, value in selector.items()):
        return "not matched by its node selector"
    if pod.shape.node_affinity is not None and not admits(pod.shape.node_affinity, node):
        return "not matched by its node affinity"
    room = idle if isinstance(idle, dict) else {}
    scarce = sorted(name for name, amount in pod.shape.request if room.get(name, 0.0) < amount)
    if scarce and not pod.shape.share and ("gpu" if pod_gpus(pod) else "cpu") not in scarce:
        return f"with too little {_WORDS.get(scarce[0], scarce[0])}"
    return "full" if scarce or pod.shape.share else _HAS_ROOM


def _numa_text(nodes: int) -> str:
    if nodes == 1:
        return "NUMA: 1 node refuses pods that do not fit its zones"
    return f"NUMA: {nodes:,} nodes refuse pods that do not fit their zones"


def claim_text(search: TrialSearch, state: GroupState, waiting: Sequence[Pod], raised: Set[str]) -> str:
    """How much the queue and those above it may claim, and what the group needs of it; of ``raised`` where given."""
    queues = {each.name: each for each in search.base.first.queues}
    place = QUEUE_RESOURCES.index("gpu")
    asked = sum(pod_gpus(pod) for pod in waiting)
    parts = []
    for name in path_to_root(search.trials.cluster.queues, state.queue):
        queue = queues.get(name)
        if queue is None or (raised and name not in raised):
            continue
        fair, held, quota = queue.fair_share[place], queue.allocated[place], queue.quota[place]
        if held + asked > fair:
            spare = f" + {number(fair - quota)} of the spare" if quota < fair else ""
            needs = f"{number(held)} held + {number(asked)}" if held else number(asked)
            parts.append(f"{name} may claim {number(fair)} GPUs (quota {number(quota)}{spare}), and needs {needs}")
    if not parts:
        return "claim: a higher quota would let it take room from queues that are over their share"
    return "claim: " + "; ".join(parts) + ", so nobody is evicted for it"
