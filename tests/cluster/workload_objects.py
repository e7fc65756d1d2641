"""Workloads as people write them, and the groups that they get: in the cluster, and from `simulate`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from kai_sched.api import names
from kai_sched.files.items import Item
from kai_sched.files.workloads import expand_workloads
from kai_sched.model.config import Config
from kai_sched.model.problems import Problem
from tests.cluster import objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.processes import wait_until

# What the API server, the controllers and the status of the group add.
ADDED = frozenset(
    {
        names.LAST_START_ANNOTATION,
        names.STALE_ANNOTATION,
        "deployment.kubernetes.io/revision",
        "kubectl.kubernetes.io/last-applied-configuration",
    }
)


def template(gpus: int = 1, scheduler: str = objects.SCHEDULER, **metadata: Any) -> Object:
    """A pod template of one container."""
    pod = objects.pod("unnamed", None, gpus, scheduler=scheduler)
    return {"metadata": metadata, "spec": pod["spec"]}


def workload(api_version: str, kind: str, name: str, spec: Object, queue: str | None = "team", **labels: str) -> Object:
    """A workload with the label of its queue."""
    marks = ({names.QUEUE_LABEL: queue} if queue else {}) | labels
    meta = objects.meta(name, "default", labels=marks)
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec}


def ray_spec(
    replicas: int, least: int, most: int | None = None, head_gpus: int = 0, gpus: int = 1, hosts: int = 1
) -> Object:
    """A RayCluster's: a head, and a group of workers."""
    workers = {
        "groupName": "workers",
        "replicas": replicas,
        "minReplicas": least,
        "maxReplicas": replicas if most is None else most,
        "numOfHosts": hosts,
        "rayStartParams": {},
        "template": template(gpus, "default-scheduler"),
    }
    head = {"rayStartParams": {}, "template": template(head_gpus, "default-scheduler")}
    return {"headGroupSpec": head, "workerGroupSpecs": [workers]}


def ray_cluster(name: str, replicas: int, least: int, queue: str | None = "team", **more: Any) -> Object:
    """A RayCluster; ``more`` goes to ``ray_spec``."""
    return workload("ray.io/v1", "RayCluster", name, ray_spec(replicas, least, **more), queue)


def ray_job(name: str, replicas: int, mode: str = "HTTPMode", **labels: str) -> Object:
    """A RayJob that is given to its cluster in that mode."""
    spec = {"rayClusterSpec": ray_spec(replicas, replicas), "submissionMode": mode}
    spec |= {"entrypoint": "python -c pass"} if mode != "InteractiveMode" else {}
    return workload("ray.io/v1", "RayJob", name, spec, **labels)


def ray_service(name: str, replicas: int, **labels: str) -> Object:
    """A RayService."""
    serve = "applications: [{name: app, import_path: app.main, route_prefix: /}]"
    spec: Object = {"serveConfigV2": serve, "rayClusterConfig": ray_spec(replicas, replicas)}
    spec["rayClusterDeletionDelaySeconds"] = 0
    return workload("ray.io/v1", "RayService", name, spec, **labels)


def job(
    name: str, pods: int, queue: str | None = "team", gpus: int = 1, indexed: bool = False, least: int = 0
) -> Object:
    """A Job whose pods run side by side; with ``least`` so many of them together or not at all."""
    spec: Object = {"parallelism": pods, "completions": pods, "template": template(gpus)}
    spec["template"]["spec"]["restartPolicy"] = "Never"
    spec |= {"completionMode": "Indexed"} if indexed else {}
    found = workload("batch/v1", "Job", name, spec, queue)
    if least:
        found["metadata"]["annotations"] = {names.BATCH_MIN_MEMBER_ANNOTATION: str(least)}
    return found


def groups_of(cluster: Cluster, namespace: str = "default") -> list[Object]:
    """The PodGroups of a namespace, in the order of their names."""
    return sorted(cluster.list("PodGroup", namespace), key=lambda group: str(group["metadata"]["name"]))


def live_groups(cluster: Cluster) -> list[Object]:
    """What is decided of each group, with how many pods are in each of its sub-groups."""
    return _compared(groups_of(cluster), cluster.list("Pod", "default"))


def simulated_groups(manifests: Sequence[Object], warnings: Sequence[str] = ()) -> list[Object]:
    """As ``live_groups``, as `simulate` has them of the manifests, of which it warns so."""
    made = simulated(manifests, warnings)
    kinds = {kind: [one for one in made if one["kind"] == kind] for kind in ("Pod", "PodGroup")}
    return _compared(kinds["PodGroup"], kinds["Pod"])


def simulated(manifests: Sequence[Object], warnings: Sequence[str] = ()) -> list[Object]:
    """What `simulate` makes of the manifests, of which it warns so: pods and PodGroups."""
    items = [Item(Path("test"), (one["apiVersion"], one["kind"]), json.dumps(one).encode()) for one in manifests]
    problems: list[Problem] = []
    made = [json.loads(item.raw) for item in expand_workloads(items, Config(), problems).items]
    assert [problem.message for problem in problems] == list(warnings)
    return made


def _compared(groups: Sequence[Object], pods: Sequence[Object]) -> list[Object]:
    """Without what is there by chance: uids, and the names of pods and runs."""
    found = []
    for group in groups:
        meta = group["metadata"]
        (owner,) = meta["ownerReferences"]
        members = [pod["metadata"] for pod in pods if _group_of(pod) == meta["name"]]
        places = [member.get("labels", {}).get(names.SUB_GROUP_LABEL, "") for member in members]
        annotations = {key: value for key, value in meta.get("annotations", {}).items() if key not in ADDED}
        of_owner = yaml.safe_load(annotations.pop(names.TOP_OWNER_ANNOTATION))
        del of_owner["uid"]
        rest = meta["name"].removeprefix(f"pg-{owner['name']}-{owner['uid']}")
        found.append(
            {
                "name": f"pg-OWNER-UID{rest}",
                "owner": f"{owner['apiVersion']} {owner['kind']}",
                "top": of_owner,
                "labels": meta.get("labels", {}),
                "annotations": annotations,
                "spec": group["spec"],
                "pods": {place: places.count(place) for place in sorted(set(places))},
            }
        )
    return sorted(found, key=lambda each: json.dumps(each, sort_keys=True))


def _group_of(pod: Object) -> str:
    return str(pod["metadata"].get("annotations", {}).get(names.POD_GROUP_ANNOTATION, ""))


def apply(cluster: Cluster, *manifests: Object) -> None:
    """As people do."""
    cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(manifests))


def pods_of(cluster: Cluster) -> list[Object]:
    """The pods that are there and not leaving."""
    return [pod for pod in cluster.list("Pod", "default") if "deletionTimestamp" not in pod["metadata"]]


def wait_running(cluster: Cluster, count: int, timeout_s: float = 60.0) -> list[Object]:
    """Wait until there are so many pods, and all run."""

    def running() -> list[Object]:
        pods = pods_of(cluster)
        phases = {pod["metadata"]["name"]: pod["status"].get("phase") for pod in pods}
        assert (len(pods), set(phases.values())) == (count, {"Running"}), f"{phases}"
        return pods

    return wait_until(running, f"{count} running pods", timeout_s)


def wait_one_group(cluster: Cluster) -> Object:
    """Wait until there is one PodGroup, and return it."""

    def one() -> Object:
        found = groups_of(cluster)
        assert len(found) == 1, f"{len(found)}"
        return found[0]

    return wait_until(one, "one PodGroup")
