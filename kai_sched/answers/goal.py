"""The pods of a group, and whether it has started: it holds nodes for its minimum; a group that runs already, for more
pods than before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kai_sched.model.checks import DEFAULT_SET, short_of, tree_fault
from kai_sched.model.keys import split_key, unmarked
from kai_sched.model.objects import Pod, PodGroup
from kai_sched.model.store import Cluster


@dataclass(frozen=True, slots=True)
class Goal:
    """When the group with this key has started: its minimum is held, by at least ``least`` pods."""

    group: str
    least: int

    def met(self, cluster: Cluster) -> bool:
        """Whether it has started in this cluster."""
        pods = group_pods(cluster.pods, cluster.pod_groups, self.group)
        return holding(pods) >= self.least and has_minimum(cluster, self.group, pods)


def goal_of(cluster: Cluster, group: str) -> Goal:
    """The goal for a group that waits: its minimum; of one that has that already, one pod more than now."""
    pods = group_pods(cluster.pods, cluster.pod_groups, group)
    held = holding(pods)
    return Goal(group, held + 1 if held and has_minimum(cluster, group, pods) else 1)


def group_pods(pods: Mapping[str, Pod], groups: Mapping[str, PodGroup], group: str) -> list[Pod]:
    """The pods of the group with this key, by key; of a bare pod, that pod."""
    key = unmarked(group)
    if key == group:
        namespace, name = split_key(group)
        found = [pod for pod in pods.values() if pod.group == name and pod.namespace == namespace]
        if found or group in groups:
            return sorted(found, key=lambda pod: pod.key)
    pod = pods.get(key)
    return [] if pod is None or pod.group else [pod]


def group_labels(cluster: Cluster, group: str) -> Mapping[str, str]:
    """The labels of the PodGroup with this key, or of the bare pod."""
    known = cluster.pod_groups.get(group)
    pods = group_pods(cluster.pods, cluster.pod_groups, group)
    return known.labels if known is not None else pods[0].labels if pods else {}


def group_queue(cluster: Cluster, group: str) -> str:
    """The queue that the PodGroup with this key names, or the bare pod; "" for none."""
    known = cluster.pod_groups.get(group)
    pods = group_pods(cluster.pods, cluster.pod_groups, group)
    return known.queue if known is not None else pods[0].queue if pods else ""


def holding(pods: Iterable[Pod]) -> int:
    """How many of the pods have a node."""
    return sum(holds(pod) for pod in pods)


def pod_gpus(pod: Pod) -> float:
    """GPUs that the pod asks for; a part that is given as memory counts as nothing, as its size depends on the node."""
    return dict(pod.shape.request).get("gpu", 0.0) + (pod.shape.share.quota if pod.shape.share else 0.0)


def has_minimum(cluster: Cluster, group: str, pods: Iterable[Pod]) -> bool:
    """Whether these pods of the group hold what it needs to run."""
    known = cluster.pod_groups.get(group)
    if known is None or tree_fault(known) is not None:
        return any(holds(pod) for pod in pods)
    return short_of(known, Counter(pod.sub_group or DEFAULT_SET for pod in pods if holds(pod))) is None


def started_ns(group: PodGroup | None, pods: Iterable[Pod]) -> int:
    """When the group started, as it says itself; else when the first of these pods was made, 0 for none."""
    said = group.last_start_ns if group else 0
    return said or min((pod.created_ns for pod in pods), default=0)


def holds(pod: Pod) -> bool:
    """Whether it has a node that it is not leaving."""
    return bool(pod.node) and not pod.has_ended and not pod.deleted_ns
