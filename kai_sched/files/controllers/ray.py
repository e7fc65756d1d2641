"""Offline pods of RayCluster, RayJob and RayService: what KubeRay with ``--batch-scheduler=kai-scheduler`` would make
(API 11.1).
"""

from __future__ import annotations

from collections.abc import Iterator

from kai_sched.api import names
from kai_sched.files.controllers.workload import ControlledWorkload, Manifest, count_of
from kai_sched.reconcile.grouping.fields import Fields
from kai_sched.reconcile.grouping.ray import HEAD_GROUP, desired_replicas

# The scheduler name that KubeRay sets in the pods, whatever the name of this scheduler is.
SCHEDULER = "kai-scheduler"
DEFAULT_MODE = "K8sJobMode"
_AUTOSCALER_AMOUNTS = {"cpu": "500m", "memory": "512Mi"}
_AUTOSCALER = {"requests": _AUTOSCALER_AMOUNTS, "limits": _AUTOSCALER_AMOUNTS}
_SUBMITTER = {"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}


def ray_cluster(workload: ControlledWorkload) -> Iterator[Manifest]:
    """The head and the workers of all groups."""
    spec = workload.spec
    if spec.flag("suspend"):
        return
    head = spec.at("headGroupSpec").at("template")
    if spec.flag("enableInTreeAutoscaling"):
        own = spec.at("autoscalerOptions", "resources").values
        head = _with_container(head, {"name": "autoscaler", "resources": own or _AUTOSCALER})
    labels = _labels(workload, "head", HEAD_GROUP)
    yield workload.pod(f"{workload.name}-head", head, labels, schedulerName=SCHEDULER)
    for index, group in enumerate(spec.entries("workerGroupSpecs")):
        name = group.text("groupName") or f"worker-group-{index}"
        hosts = count_of(group, "numOfHosts", 1)
        for i in range(desired_replicas(group) * hosts):
            pod = f"{workload.name}-{name}-worker-{i}"
            labels = _labels(workload, "worker", name) | _place(name, hosts, i)
            yield workload.pod(pod, group.at("template"), labels, schedulerName=SCHEDULER)


def _place(group: str, hosts: int, number: int) -> dict[str, str]:
    """Which replica of its group the worker of this number is of, and which of its hosts."""
    replica, host = divmod(number, hosts)
    found = {names.RAY_REPLICA_INDEX_LABEL: str(replica)}
    if hosts > 1:
        found |= {names.RAY_REPLICA_NAME_LABEL: f"{group}-{replica}", names.RAY_HOST_INDEX_LABEL: str(host)}
    return found


def _labels(workload: ControlledWorkload, node_type: str, group: str) -> dict[str, str]:
    labels = {
        names.RAY_CLUSTER_LABEL: workload.name,
        names.RAY_NODE_TYPE_LABEL: node_type,
        names.RAY_GROUP_LABEL: group,
    }
    queue = workload.owner.labels.get(names.QUEUE_LABEL)
    return {**labels, names.QUEUE_LABEL: queue} if queue else labels


def _with_container(template: Fields, container: Manifest) -> Fields:
    """The pod template with one container more."""
    containers = [*(each.values for each in template.at("spec").entries("containers")), container]
    return template.changed({"spec": {**template.at("spec").values, "containers": containers}})


def ray_job(workload: ControlledWorkload) -> Iterator[Manifest]:
    """Its cluster, and the status that names it."""
    spec = workload.spec
    if spec.flag("suspend") or spec.at("clusterSelector").values:
        return
    cluster = spec.at("rayClusterSpec")
    mode = spec.text("submissionMode") or DEFAULT_MODE
    if mode == DEFAULT_MODE and not _is_named_everywhere(cluster):
        message = f"KubeRay refuses {DEFAULT_MODE}, which is the default, with this scheduler: use HTTPMode, "
        message += f"SidecarMode or InteractiveMode, or name {SCHEDULER} as schedulerName in all pod templates"
        raise spec.error("submissionMode", message)
    if mode == "SidecarMode":
        own = spec.at("submitterPodTemplate", "spec").entries("containers")
        submitter = dict(own[0].values) if own else {"name": "ray-job-submitter", "resources": _SUBMITTER}
        head = cluster.at("headGroupSpec")
        template = _with_container(head.at("template"), submitter)
        cluster = cluster.changed({"headGroupSpec": {**head.values, "template": template.values}})
    yield from _cluster(workload, cluster, {"rayClusterName": _cluster_name(workload)})


def ray_service(workload: ControlledWorkload) -> Iterator[Manifest]:
    """Its first cluster, and the status that names it."""
    if workload.spec.flag("suspend"):
        return
    status = {"pendingServiceStatus": {"rayClusterName": _cluster_name(workload)}}
    yield from _cluster(workload, workload.spec.at("rayClusterConfig"), status)


def _cluster_name(workload: ControlledWorkload) -> str:
    return f"{workload.name}-raycluster"


def _cluster(workload: ControlledWorkload, cluster: Fields, status: Manifest) -> Iterator[Manifest]:
    owner = workload.owner
    meta: Manifest = {"name": owner.name, "namespace": owner.namespace, "uid": owner.uid}
    meta |= {"labels": dict(owner.labels), "annotations": dict(owner.annotations)}
    yield {"apiVersion": owner.api_version, "kind": owner.kind, "metadata": meta, **owner.body, "status": status}
    name = _cluster_name(workload)
    yield workload.child(
        owner.api_version, "RayCluster", name, owner.labels, annotations=owner.annotations, spec=cluster.values
    )


def _is_named_everywhere(cluster: Fields) -> bool:
    groups = (cluster.at("headGroupSpec"), *cluster.entries("workerGroupSpecs"))
    return all(group.at("template", "spec").text("schedulerName") == SCHEDULER for group in groups)
