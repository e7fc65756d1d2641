"""RayCluster, RayJob and RayService (API contract 4.7): the head and the minimum of every worker group start together.

Workers beyond the minimum join the same group one by one, as the autoscaler asks for them.
"""

from __future__ import annotations

from kai_sched.api import names
from kai_sched.model.objects import SubGroup, TopologyConstraint
from kai_sched.reconcile.grouping.draft import Case, Draft, Rule, group_name, usable_name
from kai_sched.reconcile.grouping.fields import Fields
from kai_sched.reconcile.grouping.owners import Owner

HEAD_GROUP = "headgroup"


def ray_cluster(case: Case) -> Draft:
    """The cluster's own pods."""
    return _group(case, case.whole(case.owner))


def _of_cluster(*places: tuple[str, ...]) -> Rule:
    """For owners that have KubeRay make a cluster, whose name stands at the first of ``places`` that has one."""

    def group(case: Case) -> Draft:
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
        return _group(case, cluster)

    return group


ray_job = _of_cluster(("rayClusterName",))
ray_service = _of_cluster(("activeServiceStatus", "rayClusterName"), ("pendingServiceStatus", "rayClusterName"))


def _group(case: Case, cluster: Owner) -> Draft:
    spec = cluster.fields.at("spec")
    sub_groups = [SubGroup(HEAD_GROUP, min_member=1, topology=_topology(spec.at("headGroupSpec")))]
    for index, workers in enumerate(spec.entries("workerGroupSpecs")):
        size = _least(workers, index)
        if size:
            name = usable_name(workers, "groupName", workers.text("groupName") or f"worker-group-{index}")
            sub_groups.append(SubGroup(name, min_member=size, topology=_topology(workers)))
    least = sum(each.min_member or 0 for each in sub_groups)
    priority = case.owner.labels.get(names.RAY_PRIORITY_CLASS_LABEL, "")
    old = case.view.group(case.pod.namespace, group_name(case.owner))
    if old is not None and not old.sub_groups:
        return Draft(case.owner, min_member=least, fixed_class=priority)
    return Draft(
        case.owner,
        min_member=least,
        sub_groups=tuple(sub_groups),
        sub_group=_membership(case, {each.name for each in sub_groups}),
        fixed_class=priority,
    )


def _least(workers: Fields, index: int) -> int:
    """The pods that the worker group needs at the least. A group that is suspended needs none."""
    if workers.flag("suspend"):
        return 0
    replicas, least = workers.count("replicas") or 0, workers.count("minReplicas") or 0
    if least > replicas:
        message = f"{least}, but replicas is {replicas} (worker group {index}): raise replicas, or lower minReplicas"
        raise workers.error("minReplicas", message)
    hosts = workers.count("numOfHosts")
    return (least or replicas) * (1 if hosts is None else hosts)


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


def _membership(case: Case, there: set[str]) -> str:
    name = case.pod.labels.get(names.RAY_GROUP_LABEL, "")
    if name in there:
        return name
    field = f"metadata.labels[{names.RAY_GROUP_LABEL}]"
    message = f"{name!r} is none of {', '.join(sorted(there))}, so the pod stays out: it is not a pod of the cluster's"
    case.note(case.pod.subject, field, message)
    return ""
