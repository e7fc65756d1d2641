"""The grouping rules for RayCluster, RayJob and RayService: the head and the minimum of each worker group start
together (API 4.7).

Workers beyond the minimum join the same group as the autoscaler asks for them: one by one, or all hosts of a replica
together if a replica has several.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from kai_sched.api import names
from kai_sched.api.podgroup import SUB_GROUPS_MAX
from kai_sched.model.objects import SubGroup, TopologyConstraint
from kai_sched.reconcile.grouping.draft import (
    Draft,
    GroupingCase,
    Rule,
    SharedSubGroups,
    group_name,
    usable_name,
)
from kai_sched.reconcile.grouping.fields import COUNT_MAX, Fields, whole_number
from kai_sched.reconcile.grouping.owners import Owner

HEAD_GROUP = "headgroup"


def ray_cluster(case: GroupingCase) -> Draft:
    """The pods of the cluster itself."""
    return _group(case, case.whole(case.owner), case.owner)


def _of_cluster(*places: tuple[str, ...]) -> Rule:
    """For owners that have KubeRay create a cluster; its name is at the first of ``places`` that has one."""

    def group(case: GroupingCase) -> Draft:
        owner = case.whole(case.owner)
        status = owner.fields.at("status")
        name = next((name for *above, last in places if (name := status.at(*above).text(last))), "")
        if not name:
            field = ".".join(("status", *places[0]))
            raise owner.error(field, "empty: the Ray operator must create the cluster first; the pod waits for it")
        cluster = case.named(owner.api_version, "RayCluster", name)
        if cluster is None:
            message = f"there is no RayCluster {owner.namespace}/{name} that can be read: wait for the Ray operator"
            raise owner.error(".".join(("status", *places[0])), message)
        return _group(case, cluster, case.owner)

    return group


ray_job = _of_cluster(("rayClusterName",))
_of_status = _of_cluster(("activeServiceStatus", "rayClusterName"), ("pendingServiceStatus", "rayClusterName"))


def ray_service(case: GroupingCase) -> Draft:
    """The group of the pod's own RayCluster. An upgrade adds a second RayCluster, which is a gang of its own.

    The group belongs to the RayCluster. An earlier version, or the original, may have created one group for the whole
    RayService. If pods of the RayCluster are in that group, all of them use it: running pods must not change groups.
    """
    cluster = next((each for each in case.owners if each.kind == "RayCluster"), None)
    if cluster is None or _is_shared(case, cluster):
        return _of_status(case)
    draft = _group(case, case.whole(cluster), cluster)
    return replace(draft, source=case.owner)


def _is_shared(case: GroupingCase, cluster: Owner) -> bool:
    name, namespace = group_name(case.owner), case.pod.namespace
    if case.view.group(namespace, name) is None:
        return False
    return any(pod.group == name for pod in case.view.pods(namespace, names.RAY_CLUSTER_LABEL, cluster.name))


class _Parts(NamedTuple):
    """What all pods of a cluster have in common: the smallest number of pods, the sub-groups, and the names of the head
    and the worker groups, and of those that are cut into replicas.
    """

    least: int
    shared: SharedSubGroups
    names: Set[str]
    cut: Set[str]


def _group(case: GroupingCase, cluster: Owner, owner: Owner) -> Draft:
    """The cluster's pods, in a group that belongs to ``owner``."""
    group = group_name(owner)
    parts = case.view.once(("ray", cluster.reference(), group), lambda: _parts(case, cluster, group))
    priority = case.owner.labels.get(names.RAY_PRIORITY_CLASS_LABEL, "")
    old = case.view.group(case.pod.namespace, group)
    if old is not None and not old.sub_groups:
        return Draft(owner, min_member=parts.least, fixed_class=priority)
    return Draft(
        owner,
        min_member=parts.least,
        sub_groups=parts.shared.sub_groups,
        shared=parts.shared,
        sub_group=_membership(case, parts.names, parts.cut),
        fixed_class=priority,
    )


def _parts(case: GroupingCase, cluster: Owner, group: str) -> _Parts:
    spec = cluster.fields.at("spec")
    sub_groups = [SubGroup(HEAD_GROUP, min_member=1, topology=_topology(spec.at("headGroupSpec")))]
    least, cut = 1, set[str]()
    for index, workers in enumerate(spec.entries("workerGroupSpecs")):
        replicas, hosts = _replicas(workers), _hosts(workers)
        if not replicas or not hosts:
            continue
        least += replicas * hosts
        name = usable_name(workers, "groupName", workers.text("groupName") or f"worker-group-{index}")
        indices = _indices(case, cluster, group, name) if hosts > 1 else None
        if indices is None:
            sub_groups.append(SubGroup(name, min_member=replicas * hosts, topology=_topology(workers)))
        else:
            cut.add(name)
            sub_groups += _cut(workers, name, replicas, hosts, indices)
    there = {each.name for each in sub_groups if not each.parent}
    return _Parts(least, SharedSubGroups(tuple(sub_groups)), there, cut)


def desired_replicas(workers: Fields) -> int:
    """The replicas that KubeRay makes of a worker group: ``replicas``, but no fewer than minReplicas and no more than
    maxReplicas. A group that is suspended has none. Raises GroupingError."""
    if workers.flag("suspend"):
        return 0
    least, most = workers.count("minReplicas") or 0, workers.count("maxReplicas")
    wanted = max(workers.count("replicas") or 0, least)
    return wanted if most is None else min(wanted, most)


def _replicas(workers: Fields) -> int:
    """The replicas that the worker group needs at the least: no more than KubeRay makes."""
    return min(workers.count("minReplicas") or COUNT_MAX, desired_replicas(workers))


def _hosts(workers: Fields) -> int:
    hosts = workers.count("numOfHosts")
    return 1 if hosts is None else hosts


def _indices(case: GroupingCase, cluster: Owner, group: str, workers: str) -> set[int] | None:
    """The indices of the replicas that exist; None for a worker group that is not cut into replicas.

    KubeRay before 1.6 does not number them. And where pods are in an uncut worker group, because another version made
    the PodGroup, all others join them: cut now, it would have no place for those.
    """
    there = case.view.pods(case.pod.namespace, names.RAY_CLUSTER_LABEL, cluster.name)
    pods = [pod for pod in there if pod.labels.get(names.RAY_GROUP_LABEL) == workers and pod.group in ("", group)]
    found = {index for pod in pods if (index := _replica_index(pod.labels.get(names.RAY_REPLICA_INDEX_LABEL, ""))) >= 0}
    if (pods and not found) or any(pod.sub_group == workers for pod in pods):
        return None
    return found


def _replica_index(text: str) -> int:
    """Return the index that KubeRay gives a replica; -1 for any other text."""
    index = whole_number(text)
    return -1 if index is None else index


def _cut(workers: Fields, name: str, replicas: int, hosts: int, indices: Set[int]) -> list[SubGroup]:
    """A sub-group for each replica that exists, and for those to come: KubeRay assigns the lowest free indices."""
    if replicas > SUB_GROUPS_MAX:
        message = f"{replicas:,} replicas of several hosts each, and {SUB_GROUPS_MAX:,} are the most: ask for fewer"
        raise workers.error("minReplicas" if workers.count("minReplicas") else "replicas", message)
    numbers = set(indices)
    free = (number for number in range(len(numbers) + replicas) if number not in indices)
    numbers.update(islice(free, max(0, replicas - len(numbers))))
    found = [SubGroup(name, min_sub_group=replicas, topology=_topology(workers))]
    for number in sorted(numbers):
        leaf = usable_name(workers, "groupName", _name_of_replica(name, number))
        found.append(SubGroup(leaf, parent=name, min_member=hosts))
    return found


def _name_of_replica(workers: str, number: int) -> str:
    return f"{workers}-replica-{number}"


def _topology(part: Fields) -> TopologyConstraint | None:
    metadata = part.at("template", "metadata")
    annotations = metadata.texts("annotations")
    required = annotations.get(names.TOPOLOGY_REQUIRED_ANNOTATION, "")
    preferred = annotations.get(names.TOPOLOGY_PREFERRED_ANNOTATION, "")
    if not required and not preferred:
        return None
    topology = annotations.get(names.TOPOLOGY_ANNOTATION, "")
    if not topology:
        field = f"annotations[{names.TOPOLOGY_ANNOTATION}]"
        raise metadata.error(field, "missing: name the topology that the level is one of")
    return TopologyConstraint(topology, required, preferred)


def _membership(case: GroupingCase, there: Set[str], cut: Set[str]) -> str:
    """``there`` are the head and the worker groups, ``cut`` those of them that are cut into replicas."""
    name = case.pod.labels.get(names.RAY_GROUP_LABEL, "")
    if name not in there:
        field = f"metadata.labels[{names.RAY_GROUP_LABEL}]"
        message = (
            f"{name!r} is none of {', '.join(sorted(there))}, so the pod stays out: it is not a pod of the cluster's"
        )
        case.note(case.pod.subject, field, message)
        return ""
    if name not in cut:
        return name
    # Whether there is such a replica is not asked: the pod may be gone, and its group made after it.
    text = case.pod.labels.get(names.RAY_REPLICA_INDEX_LABEL, "")
    number = _replica_index(text)
    if number >= 0:
        return _name_of_replica(name, number)
    message = f"{text!r} is not the number of a replica, which other pods of {name} have, so the pod stays out"
    field = f"metadata.labels[{names.RAY_REPLICA_INDEX_LABEL}]"
    case.note(case.pod.subject, field, f"{message}: let KubeRay make all of them with the feature RayMultiHostIndexing")
    return ""
