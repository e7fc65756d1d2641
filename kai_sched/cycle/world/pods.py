"""Offline, what happens to pods between two cycles: which start, which come back after an eviction, and the times on
their groups.

``kai-sched simulate --cycles N`` applies it after each cycle. The rules are those of scenario files; for plain objects
they differ in three points, which ``World`` names.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from kai_sched.cycle.world.claims import keep_devices, settle_claims
from kai_sched.cycle.world.volumes import settle_volumes
from kai_sched.model.checks import DEFAULT_SET, short_of, tree_fault
from kai_sched.model.objects import BindRequest, Phase, Pod, PodGroup
from kai_sched.model.store import Cluster, Store
from kai_sched.plan.effects import Bind, Pipeline
from kai_sched.plan.result import CycleResult, PodState

SECOND_NS = 1_000_000_000
RUNNING_FOR_NS = 60 * SECOND_NS

# The status after the step, for statuses that exist within a cycle only.
_HOLDING = frozenset({"Binding", "Running", "Bound"})
SETTLED = {"Binding": "Running", "Pipelined": "Pending", "Releasing": "Pending"}


@dataclass(frozen=True, slots=True)
class World:
    """How the cluster behaves between cycles.

    Attributes
    ----------
    step_ns
        How far the clock moves between two cycles, in nanoseconds.
    keeps_terminating
        Names of pod groups (without namespace) whose evicted pods stay Releasing. Evicted pods of other groups are
        Pending again.
    revives
        Whether a pod that was already being deleted is Pending again (scenarios), or gone (plain objects).
    restarts_clocks
        Whether start and eviction times are set anew before every cycle (scenarios), or kept as the scheduler does
        (plain objects), together with the time since which a gang is stale.
    keeps_devices
        Whether the claims of pods that wait have the devices that were decided from then on (scenarios), or get
        devices when the pod is bound (plain objects).
    """

    step_ns: int = 0
    keeps_terminating: frozenset[str] = frozenset()
    revives: bool = True
    restarts_clocks: bool = True
    keeps_devices: bool = True


def advance(store: Store, cluster: Cluster, result: CycleResult, now_ns: int, world: World) -> dict[str, PodState]:
    """Apply the result of the cycle at ``now_ns`` to the store.

    Parameters
    ----------
    store
        Changed in place.
    cluster
        The view of ``store`` that the cycle ran on.

    Returns
    -------
    dict
        The state of every pod after the step, by key; pods that are gone are missing.
    """
    evicted = frozenset(result.evicted)
    settled: dict[str, PodState] = {}
    pods: dict[str, Pod] = {}
    requests: dict[str, BindRequest] = {
        request.pod_key: request for _, request in sorted(cluster.bind_requests.items())
    }
    groups = {effect.pod: effect.gpu_groups for effect in result.effects if isinstance(effect, Bind)}
    starting: set[str] = set()
    running: set[str] = set()
    for key, state in result.pods.items():
        before = cluster.pods[key]
        if before.group and state.status in _HOLDING:
            (starting if state.status == "Binding" else running).add(before.group_key)
        if groups.get(key):
            before = replace(before, gpu_groups=groups[key])
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
    settle_volumes(store, cluster, result, pods)
    settle_claims(store, cluster, (each for each in result.effects if isinstance(each, Bind)), pods)
    if world.keeps_devices:
        keep_devices(store, (each for each in result.effects if isinstance(each, Pipeline)))
    if world.restarts_clocks:
        restart_clocks(store, cluster.pod_groups, pods, now_ns + world.step_ns)
    else:
        _stamp(store, cluster, frozenset(result.evicted), starting - running, pods, now_ns)
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
    """Set the start of every group with running pods to a minute before ``now_ns``, and clear all eviction times."""
    running = {
        pod.group_key for pod in pods.values() if pod.group and pod.phase == Phase.RUNNING and not pod.deleted_ns
    }
    for key, group in groups.items():
        start_ns = now_ns - RUNNING_FOR_NS if key in running else 0
        if (group.last_start_ns, group.last_eviction_ns) != (start_ns, 0):
            store.put(replace(group, last_start_ns=start_ns, last_eviction_ns=0))


def _stamp(
    store: Store,
    cluster: Cluster,
    evicted: frozenset[str],
    starting: Set[str],
    pods: Mapping[str, Pod],
    now_ns: int,
) -> None:
    """Write the times that the scheduler keeps on pod groups: last start, last eviction, stale since.

    ``evicted`` are keys of pods, ``starting`` those of groups that start from nothing.
    """
    lost = {cluster.pods[key].group_key for key in evicted if cluster.pods[key].group}
    broken = _broken(cluster, pods)
    for key, group in cluster.pod_groups.items():
        start_ns = now_ns if key in starting else group.last_start_ns
        eviction_ns = now_ns if key in lost else group.last_eviction_ns
        stale_ns = (group.stale_since_ns or now_ns) if key in broken else 0
        if (group.last_start_ns, group.last_eviction_ns, group.stale_since_ns) != (start_ns, eviction_ns, stale_ns):
            store.put(replace(group, last_start_ns=start_ns, last_eviction_ns=eviction_ns, stale_since_ns=stale_ns))


def _broken(cluster: Cluster, pods: Mapping[str, Pod]) -> set[str]:
    """The groups that run below their minimum and have no pod that finished."""
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
