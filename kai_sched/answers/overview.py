"""The state of a cluster in one cycle, as people read it: GPUs, queues, who waits and why, who starts, and who pays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from kai_sched.answers.goal import pod_gpus
from kai_sched.answers.headlines import Headline, headlines
from kai_sched.answers.waiting import Waiting, waiting_groups
from kai_sched.answers.words import count, gpus, number
from kai_sched.answers.workloads import Workload, Workloads, workloads_of
from kai_sched.model.config import Config, in_pool
from kai_sched.model.objects import Phase
from kai_sched.model.store import Cluster
from kai_sched.plan import waits
from kai_sched.plan.effects import Bind, Evict
from kai_sched.plan.result import QUEUE_RESOURCES, CycleResult, QueueState


@dataclass(frozen=True, slots=True)
class ClusterRoom:
    """How much of one resource there is at the end of the cycle, in scheduler units.

    Attributes
    ----------
    total
        On all nodes of the pool.
    used
        Held by pods, those that are bound in this cycle included.
    free
        Free on nodes that accept pods; what is left of shared GPUs included.
    apart
        The capacity of the nodes that accept none (cordoned or not ready), and how many these are.
    """

    resource: str
    nodes: int
    total: float
    used: float
    free: float
    apart: float
    nodes_apart: int


@dataclass(frozen=True, slots=True)
class PlacedWorkload:
    """A workload that gets nodes: bound in this cycle (``starts``), or once pods have left (``after`` says which).

    ``nodes`` has the number of its pods on each.
    """

    workload: Workload
    queue: str
    pods: int
    gpus: float
    nodes: tuple[tuple[str, int], ...] = field(repr=False)
    starts: bool
    after: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class RunningWorkload:
    """A workload of which pods run, and nothing waits."""

    workload: Workload
    queue: str
    pods: int
    gpus: float
    nodes: tuple[tuple[str, int], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Overview:
    """The answer of ``simulate``.

    Attributes
    ----------
    room
        Of the resource that matters most: GPUs, in a cluster without any CPU.
    queues
        Depth first.
    waiting
        Groups that wait, the oldest first.
    placed
        Groups that get nodes.
    headlines
        Who is evicted for whom.
    running
        Groups that run and are not touched.
    suspended, suspended_by_kueue
        Workloads of the input that have no pods as they are suspended, and how many of these wait in Kueue.
    finished
        Pods that have ended.
    others
        (scheduler, pods) that wait for other schedulers.
    """

    room: ClusterRoom
    queues: tuple[QueueState, ...]
    waiting: tuple[Waiting, ...]
    placed: tuple[PlacedWorkload, ...]
    headlines: tuple[Headline, ...]
    running: tuple[RunningWorkload, ...]
    finished: int
    suspended: int
    suspended_by_kueue: int
    others: tuple[tuple[str, int], ...]

    @property
    def waiting_pods(self) -> int:
        """Pods that wait."""
        return sum(each.pods * len(each.workloads) for each in self.waiting)

    @property
    def waiting_workloads(self) -> int:
        """Workloads that wait."""
        return sum(len(each.workloads) for each in self.waiting)


def overview(
    cluster: Cluster, result: CycleResult, config: Config, now_ns: int, suspended: Sequence[bool] = ()
) -> Overview:
    """The overview of a cycle that was decided at ``now_ns`` on this cluster.

    ``suspended`` has for each workload of the input that is suspended whether Kueue did it.
    """
    workloads = workloads_of(cluster)
    evicted = [each for each in result.effects if isinstance(each, Evict)]
    placed = _placed(cluster, result, workloads)
    busy = {each.workload.group for each in placed}
    phases = Counter(pod.has_ended for pod in cluster.pods.values() if _ours(pod.scheduler, config))
    return Overview(
        room=room_of(cluster, result, config, main_resource(result)),
        queues=result.queues,
        waiting=tuple(waiting_groups(cluster, result, workloads, now_ns)),
        placed=tuple(placed),
        headlines=tuple(headlines(evicted, cluster, workloads, now_ns)),
        running=tuple(_running(cluster, result, workloads, busy)),
        finished=phases[True],
        suspended=len(suspended),
        suspended_by_kueue=sum(suspended),
        others=_others(cluster, config),
    )


def main_resource(result: CycleResult) -> str:
    """GPUs, unless the cluster has none and no pod asks for one."""
    place = QUEUE_RESOURCES.index("gpu")
    gpus = any(node.allocatable.get("gpu", 0.0) > 0 for node in result.nodes.values())
    return "gpu" if gpus or any(queue.requested[place] > 0 for queue in result.queues) else "cpu"


def room_of(cluster: Cluster, result: CycleResult, config: Config, resource: str) -> ClusterRoom:
    """What there is of the resource at the end of the cycle."""
    total = used = free = apart = 0.0
    nodes_apart = 0
    for name, state in result.nodes.items():
        node = cluster.nodes[name]
        has = state.allocatable.get(resource, 0.0)
        left = state.idle.get(resource, 0.0) + state.releasing.get(resource, 0.0)
        left = max(0.0, left) + (state.shared if resource == "gpu" else 0.0)
        total += has
        if node.takes_pods:
            free += left
        elif has:
            apart += has
            nodes_apart += 1
        used += has - left if node.takes_pods else 0.0
    here = sum(in_pool(node.labels, config) for node in cluster.nodes.values())
    return ClusterRoom(resource, here, total, used, free, apart, nodes_apart)


def _placed(cluster: Cluster, result: CycleResult, workloads: Workloads) -> list[PlacedWorkload]:
    binds: dict[str, list[tuple[str, str]]] = {}
    for each in result.effects:
        if isinstance(each, Bind):
            binds.setdefault(workloads.pods[each.pod], []).append((each.pod, each.node))
    waiting = waits.by_group(result.effects, cluster.pods)
    moved = waits.moves(result.effects)
    found = []
    for group, pods in binds.items():
        found.append(_place(cluster, result, workloads.of(group), pods, ""))
    for group, places in waiting.items():
        if group in workloads.by_group and group in result.groups:
            after = waits.of_group(places, result.leaving, moved)
            pairs = [(each.pod, each.node) for each in places]
            found.append(_place(cluster, result, workloads.of(group), pairs, after))
    return sorted(found, key=lambda each: (not each.starts, each.workload.namespace, each.workload.name))


def _place(
    cluster: Cluster, result: CycleResult, workload: Workload, pods: Sequence[tuple[str, str]], after: str
) -> PlacedWorkload:
    """``pods`` with their nodes; ``after`` is "" for those that are bound now."""
    held = sum(pod_gpus(cluster.pods[key]) for key, _ in pods)
    nodes = tuple(sorted(Counter(node for _, node in pods).items()))
    state = result.groups.get(workload.group)
    return PlacedWorkload(workload, state.queue if state else "", len(pods), held, nodes, not after, after)


def _running(cluster: Cluster, result: CycleResult, workloads: Workloads, busy: set[str]) -> list[RunningWorkload]:
    held: dict[str, float] = {}
    for key, pod in cluster.pods.items():
        if pod.node and not pod.has_ended:
            group = workloads.pods[key]
            held[group] = held.get(group, 0.0) + pod_gpus(pod)
    found = []
    for key, state in result.groups.items():
        runs = sum(pods for status, pods in state.counts.items() if status in ("Running", "Bound"))
        if runs and state.reason is None and key not in busy:
            nodes = tuple(sorted(state.nodes.items()))
            found.append(RunningWorkload(workloads.of(key), state.queue, runs, held.get(key, 0.0), nodes))
    return found


def _others(cluster: Cluster, config: Config) -> tuple[tuple[str, int], ...]:
    names = Counter(
        pod.scheduler or "none"
        for pod in cluster.pods.values()
        if not _ours(pod.scheduler, config) and pod.phase == Phase.PENDING and not pod.node
    )
    return tuple(sorted(names.items()))


def _ours(scheduler: str, config: Config) -> bool:
    return scheduler == config.scheduler_name


def room_text(room: ClusterRoom) -> str:
    """The line about the cluster: "40 nodes, 200 GPUs: 184 used, 0 free, 16 on 2 unusable nodes"."""
    scale = 1000.0 if room.resource == "cpu" else 1.0
    total, used, free, apart = (each / scale for each in (room.total, room.used, room.free, room.apart))
    capacity = gpus(total) if room.resource == "gpu" else f"{number(total)} CPU core{'' if total == 1 else 's'}"
    text = f"{count(room.nodes, 'node')}, {capacity}: {number(used)} used, {number(free)} free"
    if room.nodes_apart:
        text += f", {number(apart)} on {count(room.nodes_apart, 'unusable node')}"
    return text
