"""What happens between two cycles: bound pods run, evicted ones come back and wait, times are written down.

For any decider: a plan is given as where each pod stands at the end, and who was evicted by what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from kai_sched import Cluster
from kai_sched.model.objects import Object, Phase, Pod, PodGroup

Stands = Mapping[str, tuple[str, str]]  # status and node of each pod
NOTHING: Mapping[str, tuple[str, ...]] = {}


def objects_of(cluster: Cluster) -> list[Object]:
    tables = (cluster.queues, cluster.nodes, cluster.pod_groups, cluster.pods, cluster.priority_classes)
    return [item for table in (*tables, cluster.topologies) for item in table.values()]


def moved_on(
    cluster: Cluster,
    stands: Stands,
    evicted: Collection[str],
    now_ns: int,
    lasting: Collection[str] = (),
    devices: Mapping[str, tuple[str, ...]] = NOTHING,
) -> list[Object]:
    """The objects of the next cycle; evicted pods of the groups in ``lasting`` go on terminating.

    ``devices``: the groups of the devices that pods which are bound share.
    """
    return [
        _pod(item, stands[item.key], item.key in evicted, now_ns, lasting, devices.get(item.key, ()))
        if isinstance(item, Pod) and item.key in stands
        else item
        for item in objects_of(cluster)
    ]


def _pod(
    pod: Pod,
    stand: tuple[str, str],
    evicted: bool,
    now_ns: int,
    lasting: Collection[str],
    devices: tuple[str, ...],
) -> Pod:
    status, node = stand
    if status == "Binding":
        return replace(pod, node=node, phase=Phase.RUNNING, gpu_groups=devices or pod.gpu_groups)
    if (status == "Releasing" or evicted) and pod.group in lasting:
        return replace(pod, deleted_ns=pod.deleted_ns or now_ns)
    if status == "Releasing" or evicted:
        return replace(pod, node="", phase=Phase.PENDING, deleted_ns=0, gpu_groups=())
    return pod


def stamped(
    before: Cluster, objects: list[Object], stands: Stands, victims: Mapping[str, str], now_ns: int
) -> list[Object]:
    """The objects with the times that a scheduler writes on pod groups; ``victims``: pod to the action that evicted it.

    A group starts when it gets bound with nothing bound before; stale gang eviction leaves no eviction time.
    """
    starts: set[str] = set()
    for key in {f"{pod.namespace}/{pod.group}" for pod in before.pods.values()}:
        own = {name for name, pod in before.pods.items() if f"{pod.namespace}/{pod.group}" == key}
        bound = {stands[name][0] for name in own if name in stands}
        if "Binding" in bound and not bound & {"Running", "Bound"}:
            starts.add(key)
    hit = {
        f"{before.pods[name].namespace}/{before.pods[name].group}"
        for name, action in victims.items()
        if action != "stalegangeviction"
    }
    return [
        replace(
            item,
            last_start_ns=now_ns if item.key in starts else item.last_start_ns,
            last_eviction_ns=now_ns if item.key in hit else item.last_eviction_ns,
        )
        if isinstance(item, PodGroup)
        else item
        for item in objects
    ]


def stale_noted(objects: list[Object], now_ns: int) -> list[Object]:
    """The objects with the time since when a group without sub-groups runs with fewer pods than it needs."""
    running = Counter(f"{pod.namespace}/{pod.group}" for pod in objects if isinstance(pod, Pod) and pod.node)
    return [
        replace(item, stale_since_ns=(item.stale_since_ns or now_ns) if _is_torn(item, running[item.key]) else 0)
        if isinstance(item, PodGroup) and not item.sub_groups
        else item
        for item in objects
    ]


def _is_torn(group: PodGroup, running: int) -> bool:
    return 0 < running < (group.min_member or 1)
