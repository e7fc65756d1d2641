"""The groups that wait, with the dominant reason of each in a few words, and equal ones as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kai_sched.answers.goal import pod_gpus
from kai_sched.answers.words import alike, number, pattern, since
from kai_sched.answers.workloads import Workload, Workloads
from kai_sched.model.objects import Pod
from kai_sched.model.store import Cluster
from kai_sched.plan.amounts import is_of_volumes, show_amount, show_number
from kai_sched.plan.reasons import (
    NO_FIT,
    NO_QUEUE,
    NODE_STATES,
    OVER_LIMIT,
    OVER_QUOTA,
    QUEUE_NOT_LEAF,
    NoFit,
    Reason,
)
from kai_sched.plan.result import QUEUE_RESOURCES, CycleResult, GroupState, QueueState

GPU_PLACE = QUEUE_RESOURCES.index("gpu")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A workload, or several equal ones, of which pods wait.

    Attributes
    ----------
    workloads
        The workload; several that differ in a number of their name, and in nothing else that is shown.
    name
        Their names as one.
    queue
        Its queue; "" where it names none.
    pods, gpus_per_pod
        Pods of each that wait, and GPUs that each of these asks for; 0 where pods differ.
    gpus
        GPUs that the pods of each ask for in all.
    running
        Pods of each that run.
    waits_s
        Seconds since the oldest of them was created.
    code, why
        The code of the reason, and the reason in a few words.
    message
        The whole reason, of the first of them.
    """

    workloads: tuple[Workload, ...] = field(repr=False)
    name: str
    queue: str
    pods: int
    gpus_per_pod: float = field(repr=False)
    gpus: float
    running: int
    waits_s: float
    code: str
    why: str
    message: str = field(repr=False)

    @property
    def size(self) -> str:
        """ "1x4 GPU", "8x8 GPU", or the number of pods that ask for no GPU, or for different numbers."""
        if self.gpus and self.gpus_per_pod:
            return f"{self.pods}x{number(self.gpus_per_pod)} GPU"
        return f"{self.pods} pods, {number(self.gpus)} GPU" if self.gpus else f"{self.pods} pod{'s' * (self.pods != 1)}"


def waiting_groups(cluster: Cluster, result: CycleResult, workloads: Workloads, now_ns: int) -> list[Waiting]:
    """All groups with a reason, the oldest first; equal ones as one."""
    pods: dict[str, list[Pod]] = {}
    for key, state in result.pods.items():
        if state.status in ("Pending", "Gated"):
            pods.setdefault(workloads.pods.get(key, ""), []).append(cluster.pods[key])
    queues = {queue.name: queue for queue in result.queues}
    found = [
        _waiting(state, pods.get(key, []), workloads.of(key), queues, now_ns)
        for key, state in result.groups.items()
        if state.reason is not None
    ]
    found.sort(key=lambda each: (-each.waits_s, each.workloads[0].namespace, each.name))
    return _collapsed(found)


def _waiting(
    state: GroupState, pods: Sequence[Pod], workload: Workload, queues: dict[str, QueueState], now_ns: int
) -> Waiting:
    asked = [pod_gpus(pod) for pod in pods]
    created = min((pod.created_ns for pod in pods if pod.created_ns), default=0)
    reason = state.reason
    assert reason is not None  # the caller leaves out groups that do not wait
    runs = sum(number for status, number in state.counts.items() if status in ("Running", "Bound"))
    return Waiting(
        workloads=(workload,),
        name=workload.name,
        queue=state.queue,
        pods=len(pods),
        gpus_per_pod=asked[0] if len(set(asked)) == 1 else 0.0,
        gpus=sum(asked),
        running=runs,
        waits_s=since(created, now_ns),
        code=reason.code,
        why=in_brief(state, reason, sum(asked), queues),
        message=reason.message,
    )


def _collapsed(waiting: Sequence[Waiting]) -> list[Waiting]:
    sets: dict[object, list[Waiting]] = {}
    for each in waiting:
        first = each.workloads[0]
        key = (first.kind, first.namespace, pattern(first.name), each.queue, each.size, each.running, each.why)
        sets.setdefault(key, []).append(each)
    found = []
    for members in sets.values():
        names = alike([each.name for each in members])
        together = tuple(each.workloads[0] for each in members)
        found.append(replace(members[0], workloads=together, name=names))
    return found


def in_brief(state: GroupState, reason: Reason, asked: float, queues: dict[str, QueueState]) -> str:
    """The reason in a few words, with the numbers that decide it; queues are named where they are not the group's."""
    gate = reason.gate
    if gate is not None and not gate.queue:
        return f"no node has {show_amount(gate.resource, gate.need)}"
    if gate is not None and reason.code in (OVER_LIMIT, OVER_QUOTA):
        held, need, bound = (show_number(gate.resource, each) for each in (gate.held, gate.need, gate.bound))
        of = "" if gate.queue == state.queue else f" of {gate.queue}"
        what = "limit" if reason.code == OVER_LIMIT else "not preemptible, quota"
        unit = "" if gate.resource == "gpu" else f" {gate.resource}"
        return f"{what}{of} {bound} < {held} + {need}{unit}"
    if reason.code == NO_FIT and reason.facts is not None:
        return _no_room(state, reason.facts, asked, queues)
    if reason.code == NO_QUEUE:
        is_there = " is ignored: " in reason.message
        known = reason.message.partition(";")[0] if is_there else f"there is no queue {state.queue!r}"
        return known if state.queue else "it names no queue"
    if reason.code == QUEUE_NOT_LEAF:
        return f"queue {state.queue} has child queues"
    return reason.message


def _no_room(state: GroupState, facts: NoFit, asked: float, queues: dict[str, QueueState]) -> str:
    """What keeps the group from the nodes, and why nobody is evicted for it."""
    place = "no room"
    if facts.freed_later:
        return "later decisions of this cycle made room"
    if 0 < facts.room < facts.asked:
        place = f"room for {facts.room} of {facts.asked} pods"
    elif facts.room and facts.asked > 1:
        place = "room for each pod, and not for all together"
    elif unmet := _main_verdict(facts) or _main_volumes(facts):
        return unmet
    queue = queues.get(state.queue)
    if queue is not None and asked:
        fair, held = queue.fair_share[GPU_PLACE], queue.allocated[GPU_PLACE]
        if held + asked > fair:
            return f"{place}; claim {number(fair)} < {number(held)} + {number(asked)}"
    return place


def _main_volumes(facts: NoFit) -> str:
    """What most nodes lack, if that is attachments or capacity for volumes."""
    scarce = max(facts.short.items(), key=lambda each: (each[1][0], is_of_volumes(each[0])), default=None)
    if scarce is None or not is_of_volumes(scarce[0]):
        return ""
    resource, (nodes, asked, _) = scarce
    return f"{nodes} of {facts.n_nodes} nodes lack {show_amount(resource, asked)}"


def _main_verdict(facts: NoFit) -> str:
    """What keeps the pod from most nodes, if that is no lack of room: what it asks of nodes, or that none is usable."""
    short = max((nodes for nodes, _, _ in facts.short.values()), default=0)
    verdicts = sorted(facts.verdicts.items(), key=lambda each: (each[0] in NODE_STATES, -each[1], each[0]))
    for text, nodes in verdicts:
        if nodes > short and (text not in NODE_STATES or not short):
            return f"{text}, {nodes} of {facts.n_nodes} nodes"
    return ""
