"""A cluster without some of its objects, so that no room looks free that is not, and what is told of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kai_sched.api.names import DEFAULT_QUEUE
from kai_sched.model.config import Config
from kai_sched.model.objects import BindRequest, Node, Object, Phase, Pod, PodGroup, Queue, Shape
from kai_sched.model.store import TABLES, Change, Cluster
from kai_sched.plan import reasons
from kai_sched.plan.result import GroupState

FOR_EVER = -1.0


@dataclass(frozen=True, slots=True)
class Without:
    """What is missing from a view, and what is changed in it because of that. Equal ones leave out the same.

    ``cordoned``: nodes that get nothing new, as pods that are left out hold or get room there. ``spared``: groups that
    are not to be taken for stale, as they have pods that are left out. ``held``: pods of which only what they hold is
    left.
    """

    names: frozenset[Change]
    cordoned: frozenset[str] = frozenset()
    spared: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()


def leave_out(cluster: Cluster, culprits: Iterable[Change], keep: bool) -> Without:
    """How to leave these objects out.

    A pod leaves its node to nobody else. With ``keep`` it goes on to hold what it asked for, and to be in its group.
    """
    gone = set(culprits)
    requests: dict[str, BindRequest] = {
        request.pod_key: request for _, request in sorted(cluster.bind_requests.items()) if request.is_live
    }
    for kind, key in list(gone):
        request = cluster.bind_requests.get(key) if kind is BindRequest else None
        if request is not None:
            gone.add((Pod, request.pod_key))
    cordoned, spared, held = set(), set(), set()
    for kind, key in list(gone):
        pod = cluster.pods.get(key) if kind is Pod else None
        if pod is None:
            continue
        if pod.node and keep:
            held.add(key)
            gone.discard((Pod, key))
        elif pod.node and pod.group:
            spared.add(pod.group_key)
        for node in (pod.node, requests[key].node if key in requests else ""):
            if node:
                cordoned.add(node)
    return Without(frozenset(gone), frozenset(cordoned), frozenset(spared), frozenset(held))


def view_without(cluster: Cluster, without: Without, config: Config, identity: object) -> Cluster:
    """The view; ``identity`` stands for the store of all views that leave out the same."""
    tables: dict[str, dict[str, Object]] = {}

    def table(kind: type[Object]) -> dict[str, Object]:
        return tables.setdefault(TABLES[kind], dict(cluster.table(kind)))

    for kind, key in without.names:
        table(kind).pop(key, None)
    for key in without.held & cluster.pods.keys():
        table(Pod)[key] = _holdings(cluster.pods[key], config)
    for name in without.cordoned & cluster.nodes.keys():
        if (Node, name) not in without.names:
            table(Node)[name] = replace(cluster.nodes[name], unschedulable=True)
    for key in without.spared & cluster.pod_groups.keys():
        if (PodGroup, key) not in without.names:
            table(PodGroup)[key] = replace(cluster.pod_groups[key], staleness_grace_s=FOR_EVER)
    return replace(cluster, store_id=identity, **tables)  # type: ignore[arg-type]


def _holdings(pod: Pod, config: Config) -> Pod:
    """Of the pod whose it is, and what it holds where; all else may be what is at fault."""
    amounts = tuple((name, amount) for name, amount in pod.shape.request if _is_amount(amount))
    shape = Shape(amounts, shared_devices=pod.shape.shared_devices, shared_quota=pod.shape.shared_quota)
    pool = config.node_pool_label
    labels = {pool: pod.labels[pool]} if pool in pod.labels else {}
    return replace(pod, shape=shape, labels=labels, nominated_node="", expected_node="", gates=())


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0


def explained(
    groups: Mapping[str, GroupState], cluster: Cluster, left_out: Mapping[Change, str]
) -> dict[str, GroupState]:
    """The groups, where those that wait because of what is left out say so."""
    found = dict(groups)
    members: dict[str, list[Pod]] = {key: [] for kind, key in left_out if kind is PodGroup}
    for pod in cluster.pods.values() if members else ():
        if pod.group and pod.group_key in members:
            members[pod.group_key].append(pod)
    for (kind, key), problem in sorted(left_out.items(), key=lambda entry: (entry[0][0].__name__, entry[0][1])):
        reason = reasons.left_out(f"{kind.__name__} {key}", problem)
        if kind is Queue:
            waiting = {name: state for name, state in found.items() if state.queue == key and state.reason is not None}
            found |= {name: replace(state, reason=reason) for name, state in waiting.items()}
        elif kind is PodGroup and key in cluster.pod_groups:
            found[key] = _state_of(key, cluster.pod_groups[key].queue, members[key], reason)
        elif kind is Pod and key in cluster.pods:
            _explain_pod(cluster.pods[key], reason, found)
    return dict(sorted(found.items()))


def _explain_pod(pod: Pod, reason: reasons.Reason, found: dict[str, GroupState]) -> None:
    group: str = pod.group_key
    state = found.get(group)
    if state is None:
        found[group] = _state_of(group, pod.queue or DEFAULT_QUEUE, [pod], reason)
    elif not pod.node:
        counts = {**state.counts, "Pending": state.counts.get("Pending", 0) + 1}
        found[group] = replace(state, counts=dict(sorted(counts.items())), reason=reason)


def _state_of(key: str, queue: str, pods: list[Pod], reason: reasons.Reason) -> GroupState:
    """Of a group that the cycle did not see."""
    there = [pod for pod in pods if pod.phase in (Phase.PENDING, Phase.RUNNING)]
    waiting = sum(not pod.node for pod in there)
    counts = {"Pending": waiting} if waiting else {}
    if len(there) > waiting:
        counts["Running"] = len(there) - waiting
    nodes: dict[str, int] = {}
    for pod in there:
        if pod.node:
            nodes[pod.node] = nodes.get(pod.node, 0) + 1
    return GroupState(key, queue, 0, False, 0, counts, dict(sorted(nodes.items())), reason if waiting else None)
