"""Workloads as people write them, and the groups that a case has of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kai_sched.files.load import SimulationCase, load
from tests.unit.files.inputs import Write, listing, queue, told

Thing = dict[str, Any]
QUEUE = {"kai.scheduler/queue": "team-a"}
OURS: Thing = {"spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "main"}]}}
# KubeRay names the scheduler itself.
RAY: Thing = {"spec": {"containers": [{"name": "ray"}]}}
RAY_SPEC: Thing = {
    "headGroupSpec": {"template": RAY},
    "workerGroupSpecs": [
        # KubeRay makes replicas, kept between the least and the most, of numOfHosts pods each
        {"groupName": "a", "replicas": 5, "minReplicas": 2, "maxReplicas": 4, "template": RAY},
        {"groupName": "b", "replicas": 2, "numOfHosts": 2, "template": RAY},
        {"groupName": "c", "replicas": 2, "minReplicas": 1, "numOfHosts": 2, "template": RAY},
        {"groupName": "off", "replicas": 3, "suspend": True, "template": RAY},
    ],
}
CLASSES = tuple(
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    for name, value in (("train", 50), ("build-preemptible", 75), ("build", 100), ("inference", 125))
)


def new(kind: str, name: str, spec: Thing, **meta: Any) -> Thing:
    """A manifest as people write it: without a uid."""
    version, _, kind = kind.rpartition(" ")
    labels = {**QUEUE, **meta.pop("labels", {})}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "ml", "labels": labels, **meta},
        "spec": spec,
    }


def roles(template: Thing = OURS, **replicas: int) -> Thing:
    return {role: {"replicas": count, "template": template} for role, count in replicas.items()}


def described(case: SimulationCase) -> list[str]:
    """Each group: its minimum, queue and class, its sub-groups, and how many pods there are in each."""
    cluster = case.store.cluster()
    found = []
    for key, group in sorted(cluster.pod_groups.items()):
        least = f"{group.min_member}" if group.min_sub_group is None else f"{group.min_sub_group} parts"
        parts = ", ".join(
            f"{each.name} {each.min_member if each.min_sub_group is None else f'{each.min_sub_group} parts'}"
            for each in group.sub_groups
        )
        pods = Counter(each.sub_group for each in cluster.pods.values() if f"{each.namespace}/{each.group}" == key)
        counts = ", ".join(f"{name or 'pods'} {count}" for name, count in sorted(pods.items()))
        found.append(f"{key} | {least} | {group.queue} {group.priority_class} | {parts} | {counts}")
    return found


def only(write: Write, *things: Thing) -> SimulationCase:
    loaded = load([write("in.json", listing(queue("team-a"), *things))])
    assert told(loaded) == []
    return loaded.cases[0]
