"""How a view leaves out the objects that ``quarantine`` names: the room that excluded pods keep, and the reason of the
groups that wait because of it.

Invariant: room that an excluded pod holds or is about to get never looks free.
"""

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

NEVER_STALE_S = -1.0  # a staleness grace without end


@dataclass(frozen=True, slots=True)
class Exclusions:
    """What a view leaves out and changes. Equal exclusions give equal views.

    Attributes
    ----------
    names
        The objects that are missing.
    cordoned
        Nodes that get no new pods, because excluded pods hold room on them or are about to.
    never_stale
        PodGroups that do not count as stale, because pods of theirs are excluded.
    held
        Pods that are reduced to their identity and the room that they hold.
    """

    names: frozenset[Change]
    cordoned: frozenset[str] = frozenset()
    never_stale: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()


def leave_out(cluster: Cluster, names: Iterable[Change], keep: bool) -> Exclusions:
    """The exclusions that leave these objects out.

    A bind request is left out together with its pod. The node of an excluded pod is cordoned, so that no other pod
    gets its room. With ``keep``, a pod on a node still holds its room and stays in its group.
    """
    gone = set(names)
    requests: dict[str, BindRequest] = {
        request.pod_key: request for _, request in sorted(cluster.bind_requests.items()) if request.is_live
    }
    for kind, key in list(gone):
        request = cluster.bind_requests.get(key) if kind is BindRequest else None
        if request is not None:
            gone.add((Pod, request.pod_key))
    cordoned, never_stale, held = set(), set(), set()
    for kind, key in list(gone):
        pod = cluster.pods.get(key) if kind is Pod else None
        if pod is None:
            continue
        if pod.node and keep:
            held.add(key)
            gone.discard((Pod, key))
        elif pod.node and pod.group:
            never_stale.add(pod.group_key)
        for node in (pod.node, requests[key].node if key in requests else ""):
            if node:
                cordoned.add(node)
    return Exclusions(frozenset(gone), frozenset(cordoned), frozenset(never_stale), frozenset(held))


def view_without(cluster: Cluster, exclusions: Exclusions, config: Config, identity: object) -> Cluster:
    """The view with these exclusions. ``identity`` stands for the store of all views with equal exclusions."""
    tables: dict[str, dict[str, Object]] = {}

    def table(kind: type[Object]) -> dict[str, Object]:
        return tables.setdefault(TABLES[kind], dict(cluster.table(kind)))

    for kind, key in exclusions.names:
        table(kind).pop(key, None)
    for key in exclusions.held & cluster.pods.keys():
        table(Pod)[key] = _holdings(cluster.pods[key], config)
    for name in exclusions.cordoned & cluster.nodes.keys():
        if (Node, name) not in exclusions.names:
            table(Node)[name] = replace(cluster.nodes[name], unschedulable=True)
    for key in exclusions.never_stale & cluster.pod_groups.keys():
        if (PodGroup, key) not in exclusions.names:
            table(PodGroup)[key] = replace(cluster.pod_groups[key], staleness_grace_s=NEVER_STALE_S)
    return replace(cluster, store_id=identity, **tables)  # type: ignore[arg-type]


def _holdings(pod: Pod, config: Config) -> Pod:
    """The pod reduced to its identity, its group and the room that it holds: anything else may be what is faulty."""
    amounts = tuple((name, amount) for name, amount in pod.shape.request if _is_amount(amount))
    shape = Shape(amounts, share=pod.shape.share, legacy_mig=pod.shape.legacy_mig)
    pool = config.node_pool_label
    labels = {pool: pod.labels[pool]} if pool in pod.labels else {}
    return replace(pod, shape=shape, labels=labels, nominated_node="", expected_node="", gates=())


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0


def explained(
    groups: Mapping[str, GroupState], cluster: Cluster, left_out: Mapping[Change, str]
) -> dict[str, GroupState]:
    """The groups, with a reason for those that wait because an object is left out."""
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
    """The state of a group that was not part of the cycle."""
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
