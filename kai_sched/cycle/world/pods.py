"""Offline, what happens to pods between two cycles: which start, which come back after an eviction, and the times on
their groups.

``kai-sched simulate --cycles N`` applies it after each cycle. The rules are those of scenario files; for plain objects
they differ in three points, which ``World`` names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from kai_sched.cycle.world.claims import keep_devices, settle_claims
from kai_sched.cycle.world.volumes import settle_volumes
from kai_sched.model.checks import DEFAULT_SET, short_of, tree_fault
from kai_sched.model.keys import split_key
from kai_sched.model.numa import NO_PLACEMENT
from kai_sched.model.objects import BindRequest, Phase, Pod, PodGroup
from kai_sched.model.store import Cluster, Store
from kai_sched.plan.effects import Bind, Pipeline
from kai_sched.plan.result import CycleResult, PodState

SECOND_NS = 1_000_000_000
RUNNING_FOR_NS = 60 * SECOND_NS

# The status after the step, for statuses that exist within a cycle only.
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
    stamped
        Whether all groups have the time since which they are stale already (``stamp_stale``), so that a step looks only
        at groups whose pods change.
    """

    step_ns: int = 0
    keeps_terminating: frozenset[str] = frozenset()
    revives: bool = True
    restarts_clocks: bool = True
    keeps_devices: bool = True
    stamped: bool = False


def advance(store: Store, cluster: Cluster, result: CycleResult, now_ns: int, world: World) -> None:
    """Apply the result of the cycle at ``now_ns`` to the store.

    Parameters
    ----------
    store
        Changed in place.
    cluster
        The view of ``store`` that the cycle ran on.
    """
    evicted = frozenset(result.evicted)
    requests: dict[str, BindRequest] = {
        request.pod_key: request for _, request in sorted(cluster.bind_requests.items())
    }
    binds = {effect.pod: effect for effect in result.effects if isinstance(effect, Bind)}
    pods = dict(cluster.pods)
    starting: set[str] = set()
    changed: set[str] = set()
    for key, state in _moving(cluster, result, binds, evicted, requests):
        before = cluster.pods[key]
        changed.add(before.group_key)
        if key in binds and binds[key].gpu_groups:
            before = replace(before, gpu_groups=binds[key].gpu_groups)
        if key in binds and (binds[key].zones or before.zones):
            before = replace(before, zones=binds[key].zones, zones_observed=False)
        if state.status == "Binding":
            starting.add(before.group_key)
            if (request := requests.get(key)) is not None:
                before = replace(before, gpu_groups=request.gpu_groups or before.gpu_groups)
                before = replace(before, zones=request.zones or before.zones)
                store.remove(BindRequest, request.key)
        after = _move(before, state, key in evicted, now_ns, world)
        if after is None:
            store.remove(Pod, key)
            del pods[key]
        elif after is not cluster.pods[key]:
            store.put(after)
            pods[key] = after
    settle_volumes(store, cluster, result, pods)
    settle_claims(store, cluster, binds.values(), pods)
    if world.keeps_devices:
        keep_devices(store, (each for each in result.effects if isinstance(each, Pipeline)))
    if world.restarts_clocks:
        restart_clocks(store, cluster.pod_groups, pods, now_ns + world.step_ns)
    else:
        if starting:
            starting -= _running(_members(cluster.pods, starting), evicted)
        stale = (key for key, group in cluster.pod_groups.items() if group.stale_since_ns)
        watched = changed | set(stale) if world.stamped else cluster.pod_groups.keys()
        _stamp(store, cluster, evicted, starting, _members(pods, watched), now_ns)


def _moving(
    cluster: Cluster,
    result: CycleResult,
    binds: Mapping[str, Bind],
    evicted: frozenset[str],
    requests: Mapping[str, BindRequest],
) -> Iterator[tuple[str, PodState]]:
    """The pods that may be others after the step, with their states at the end of the cycle.

    The states of all pods are only made where some pod is being deleted, or is bound by a BindRequest.
    """
    leaving = [key for key, pod in cluster.pods.items() if pod.deleted_ns]
    for key in sorted({*binds, *evicted, *leaving, *(requests.keys() & cluster.pods.keys())}):
        if key in binds:
            yield key, PodState("Binding", binds[key].node)
        elif key in evicted:
            yield key, PodState("Releasing", cluster.pods[key].node)
        elif (state := result.pods.get(key)) is not None:
            yield key, state


def _members(pods: Mapping[str, Pod], groups: Set[str]) -> dict[str, list[Pod]]:
    """The pods of each of these groups; of a group without pods an empty list."""
    found: dict[str, list[Pod]] = {key: [] for key in groups}
    names = {split_key(key)[1] for key in groups}
    for pod in pods.values():
        if pod.group in names and (members := found.get(pod.group_key)) is not None:
            members.append(pod)
    return found


def _running(members: Mapping[str, Sequence[Pod]], evicted: frozenset[str]) -> set[str]:
    """The groups, of these, of which a pod ran already and stays."""
    alive = (Phase.PENDING, Phase.RUNNING)
    return {
        group
        for group, pods in members.items()
        if any(pod.node and pod.phase in alive and not pod.deleted_ns and pod.key not in evicted for pod in pods)
    }


def settled_states(result: CycleResult, cluster: Cluster) -> dict[str, PodState]:
    """The state of every pod after a step to ``cluster``, by key; pods that are gone are missing."""
    return {key: _stand(cluster.pods[key], state) for key, state in result.pods.items() if key in cluster.pods}


def _move(pod: Pod, state: PodState, evicted: bool, now_ns: int, world: World) -> Pod | None:
    """The pod in the next cycle; None when it is gone."""
    match state.status:
        case "Binding":
            return replace(pod, node=state.node, phase=Phase.RUNNING)
        case "Releasing" if pod.group in world.keeps_terminating:
            return replace(pod, deleted_ns=pod.deleted_ns or now_ns)
        case "Releasing" if evicted or world.revives:
            return replace(pod, node="", phase=Phase.PENDING, deleted_ns=0, gpu_groups=(), zones=NO_PLACEMENT)
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


def stamp_stale(store: Store, now_ns: int) -> None:
    """Write the time since which each group is stale, as the scheduler does it in its first cycle."""
    cluster = store.cluster()
    _stamp(store, cluster, frozenset(), frozenset(), _members(cluster.pods, cluster.pod_groups.keys()), now_ns)


def _stamp(
    store: Store,
    cluster: Cluster,
    evicted: frozenset[str],
    starting: Set[str],
    members: Mapping[str, Sequence[Pod]],
    now_ns: int,
) -> None:
    """Write the times that the scheduler keeps on pod groups: last start, last eviction, stale since.

    ``evicted`` are keys of pods, ``starting`` those of groups that start from nothing, ``members`` the pods after the
    step of each group that is looked at.
    """
    lost = {cluster.pods[key].group_key for key in evicted if cluster.pods[key].group}
    for key, pods in members.items():
        group = cluster.pod_groups.get(key)
        if group is None:
            continue
        start_ns = now_ns if key in starting else group.last_start_ns
        eviction_ns = now_ns if key in lost else group.last_eviction_ns
        stale_ns = (group.stale_since_ns or now_ns) if _is_broken(group, pods) else 0
        if (group.last_start_ns, group.last_eviction_ns, group.stale_since_ns) != (start_ns, eviction_ns, stale_ns):
            store.put(replace(group, last_start_ns=start_ns, last_eviction_ns=eviction_ns, stale_since_ns=stale_ns))


def _is_broken(group: PodGroup, pods: Sequence[Pod]) -> bool:
    """Whether the group runs below its minimum and has no pod that finished."""
    used = [pod for pod in pods if pod.node and not pod.has_ended]
    if not used or any(pod.phase == Phase.SUCCEEDED for pod in pods) or tree_fault(group) is not None:
        return False
    return short_of(group, Counter(pod.sub_group or DEFAULT_SET for pod in used)) is not None
