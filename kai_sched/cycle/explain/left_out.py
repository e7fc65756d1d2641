"""Why groups wait because of objects that cycles leave out (``quarantine``): which pods need each, and the reason that
names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

from kai_sched.api.names import DEFAULT_QUEUE
from kai_sched.cycle.left_out import terms_by_labels
from kai_sched.model.claims.objects import DeviceClass, ResourceClaim
from kai_sched.model.claims.of_pods import ClaimBook
from kai_sched.model.objects import (
    ConfigMap,
    Namespace,
    Phase,
    Pod,
    PodGroup,
    PriorityClass,
    Queue,
    StorageClass,
    Volume,
    VolumeClaim,
)
from kai_sched.model.store import Change, Cluster
from kai_sched.plan import reasons
from kai_sched.plan.result import GroupState

# Without them only the pods that need them wait; each waits with the reason of the first of them that is left out.
_NEEDED = (PriorityClass, Namespace, ResourceClaim, DeviceClass, VolumeClaim, Volume, StorageClass, ConfigMap)


def explained(
    groups: Mapping[str, GroupState], cluster: Cluster, left_out: Mapping[Change, str]
) -> dict[str, GroupState]:
    """The groups, with a reason for those that wait because an object is left out."""
    found = dict(groups)
    members: dict[str, list[Pod]] = {key: [] for kind, key in left_out if kind is PodGroup}
    for pod in cluster.pods.values() if members else ():
        if pod.group and pod.group_key in members:
            members[pod.group_key].append(pod)
    given = {name: _reason(name, problem) for name, problem in left_out.items()}
    for (kind, key), reason in sorted(given.items(), key=lambda entry: (entry[0][0].__name__, entry[0][1])):
        if kind is Queue:
            waiting = {name: state for name, state in found.items() if state.queue == key and state.reason is not None}
            found |= {name: replace(state, reason=reason) for name, state in waiting.items()}
        elif kind is PodGroup and key in cluster.pod_groups:
            found[key] = _state_of(key, cluster.pod_groups[key].queue, members[key], reason)
        elif kind is Pod and key in cluster.pods:
            _explain_pod(cluster.pods[key], reason, found)
    if any(kind in _NEEDED for kind, _ in given):
        _explain_needs(cluster, given, found)
    return dict(sorted(found.items()))


def _reason(name: Change, problem: str) -> reasons.Reason:
    return reasons.left_out(f"{name[0].__name__} {name[1]}", problem)


def _explain_needs(cluster: Cluster, given: Mapping[Change, reasons.Reason], found: dict[str, GroupState]) -> None:
    """Give the reason to the groups of waiting pods that need something that is left out."""
    claims = ClaimBook(cluster)
    default = [key for key, each in sorted(cluster.priority_classes.items()) if each.global_default]
    spaces = [name for name in given if name[0] is Namespace]
    for key, pod in sorted(cluster.pods.items()):
        if pod.node or pod.phase != Phase.PENDING or (Pod, key) in given:
            continue
        needs = chain(spaces if any(terms_by_labels(pod.shape)) else (), _needs(pod, cluster, claims, default))
        name = next((name for name in needs if name in given), None)
        if name is None:
            continue
        state = found.get(pod.group_key)
        if state is None or name[0] in (PriorityClass, Namespace):  # the pod was no part of the cycle
            _explain_pod(pod, given[name], found)
        elif state.reason is not None:
            found[pod.group_key] = replace(state, reason=given[name])


def _needs(pod: Pod, cluster: Cluster, claims: ClaimBook, default: list[str]) -> Iterator[Change]:
    """What the pod needs beside its group and its queue. ``default``: the classes of pods that name none."""
    group = cluster.pod_groups.get(pod.group_key) if pod.group else None
    named = group.priority_class if group is not None else pod.priority_class
    yield from ((PriorityClass, key) for key in ([named] if named in cluster.priority_classes else default))
    yield Namespace, pod.namespace
    of_pod = claims.claims(pod)
    for claim in of_pod.distinct().values() if of_pod is not None else ():
        yield ResourceClaim, claim.key
        for request in claim.asks.requests:
            yield from ((DeviceClass, option.device_class) for option in request.options)
    for key in pod.shape.claims:
        yield VolumeClaim, key
        bound = cluster.volume_claims.get(key)
        if bound is not None:
            yield from ((Volume, bound.volume), (StorageClass, bound.storage_class))
    yield from ((ConfigMap, key) for key in pod.shape.config_maps)


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
