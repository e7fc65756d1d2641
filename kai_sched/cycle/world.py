"""The world between two cycles, for scheduling on without a cluster: what kubelets, controllers and users do to the
objects.

The rules are those of the scenario files; a plain cluster differs in two points, which ``World`` names.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kai_sched.model.checks import DEFAULT_SET, short_of, tree_fault
from kai_sched.model.objects import BindRequest, Phase, Pod, PodGroup
from kai_sched.model.store import Cluster, Store
from kai_sched.plan.result import CycleResult, PodState

SECOND_NS = 1_000_000_000
RUNNING_FOR_NS = 60 * SECOND_NS

# Where a pod stands once the world has moved, for the statuses that only last for the cycle that decides them.
SETTLED = {"Binding": "Running", "Pipelined": "Pending", "Releasing": "Pending"}


@dataclass(frozen=True, slots=True)
class World:
    """How the world outside behaves.

    ``step_ns`` is how far the clock moves on from one cycle to the next. The evicted pods of the groups in
    ``keeps_terminating`` (names without namespace) stay Releasing, as if a user had deleted them; all others come
    back Pending. ``revives`` says whether a pod that was already being deleted comes back, too, or is gone (plain
    clusters). ``restarts_clocks`` says whether start and eviction times begin anew in every cycle, or are kept as a
    scheduler would, and with them since when a gang is broken.
    """

    step_ns: int = 0
    keeps_terminating: frozenset[str] = frozenset()
    revives: bool = True
    restarts_clocks: bool = True


def advance(store: Store, cluster: Cluster, result: CycleResult, now_ns: int, world: World) -> dict[str, PodState]:
    """Move the store on from the cycle that was decided at ``now_ns``, and say where every pod then stands.

    ``cluster`` is the view of ``store`` that ``result`` was decided on. Pods that are gone are missing from the answer.
    """
    evicted = frozenset(result.evicted)
    settled: dict[str, PodState] = {}
    pods: dict[str, Pod] = {}
    requests: dict[str, BindRequest] = {
        request.pod_key: request for _, request in sorted(cluster.bind_requests.items())
    }
    for key, state in result.pods.items():
        before = cluster.pods[key]
        request = requests.get(key) if state.status == "Binding" else None
        if request is not None:
            before = replace(before, gpu_groups=request.gpu_groups or before.gpu_groups)
            store.remove(BindRequest, request.key)
        after = _move(before, state, key in evicted, now_ns, world)
        if after is None:
            store.remove(Pod, key)
            continue
        if after is not before:
            store.put(after)
        pods[key] = after
        settled[key] = _stand(after, state)
    if world.restarts_clocks:
        restart_clocks(store, cluster.pod_groups, pods, now_ns + world.step_ns)
    else:
        _stamp(store, cluster, result, pods, now_ns)
    return settled


def _move(pod: Pod, state: PodState, evicted: bool, now_ns: int, world: World) -> Pod | None:
    """The pod in the next cycle; None when it is gone."""
    match state.status:
        case "Binding":
            return replace(pod, node=state.node, phase=Phase.RUNNING)
        case "Releasing" | "Pipelined" if evicted and pod.group in world.keeps_terminating:
            return replace(pod, deleted_ns=pod.deleted_ns or now_ns)
        case "Releasing" if pod.group in world.keeps_terminating:
            return replace(pod, deleted_ns=pod.deleted_ns or now_ns)
        case "Pipelined" if evicted:
            return replace(pod, node="", phase=Phase.PENDING, deleted_ns=0, gpu_groups=())
        case "Releasing" if evicted or world.revives:
            return replace(pod, node="", phase=Phase.PENDING, deleted_ns=0, gpu_groups=())
        case "Releasing":
            return None
        case _:
            return pod


def _stand(pod: Pod, state: PodState) -> PodState:
    if pod.deleted_ns or state.status not in SETTLED:
        return state
    return PodState(SETTLED[state.status], pod.node or pod.expected_node)


def restart_clocks(store: Store, groups: Mapping[str, PodGroup], pods: Mapping[str, Pod], now_ns: int) -> None:
    """Let every group with running pods count as started a minute before ``now_ns``, and none as ever evicted."""
    running = {
        pod.group_key for pod in pods.values() if pod.group and pod.phase == Phase.RUNNING and not pod.deleted_ns
    }
    for key, group in groups.items():
        start_ns = now_ns - RUNNING_FOR_NS if key in running else 0
        if (group.last_start_ns, group.last_eviction_ns) != (start_ns, 0):
            store.put(replace(group, last_start_ns=start_ns, last_eviction_ns=0))


def _stamp(store: Store, cluster: Cluster, result: CycleResult, pods: Mapping[str, Pod], now_ns: int) -> None:
    """Keep the times that the scheduler writes on pod groups: when one started from nothing, when it last lost a pod,
    since when it runs with fewer pods than it needs."""
    evicted = {cluster.pods[key].group_key for key in result.evicted if cluster.pods[key].group}
    broken = _broken(cluster, pods)
    for key, group in cluster.pod_groups.items():
        counts = result.groups[key].counts if key in result.groups else {}
        starts = "Binding" in counts and not counts.keys() & {"Running", "Bound"}
        start_ns = now_ns if starts else group.last_start_ns
        eviction_ns = now_ns if key in evicted else group.last_eviction_ns
        stale_ns = (group.stale_since_ns or now_ns) if key in broken else 0
        if (group.last_start_ns, group.last_eviction_ns, group.stale_since_ns) != (start_ns, eviction_ns, stale_ns):
            store.put(replace(group, last_start_ns=start_ns, last_eviction_ns=eviction_ns, stale_since_ns=stale_ns))


def _broken(cluster: Cluster, pods: Mapping[str, Pod]) -> set[str]:
    """The groups that run with fewer pods than they need, none having finished."""
    used: dict[str, Counter[str]] = defaultdict(Counter)
    finished = set()
    for pod in pods.values():
        if not pod.group:
            continue
        if pod.phase == Phase.SUCCEEDED:
            finished.add(pod.group_key)
        elif pod.node and pod.phase != Phase.FAILED:
            used[pod.group_key][pod.sub_group or DEFAULT_SET] += 1
    groups = ((key, cluster.pod_groups.get(key)) for key in used.keys() - finished)
    return {key for key, group in groups if group and tree_fault(group) is None and short_of(group, used[key])}
