"""Cluster objects as the tests write them: the shortest call gives one that works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kai_sched.api import names
from tests.cluster.client import Object

GPU = "nvidia.com/gpu"
SCHEDULER = "kai-scheduler"
# For kwok on a cluster that has real nodes too: which ones are simulated.
SIMULATED = {"kwok.x-k8s.io/node": "fake"}


def meta(name: str, namespace: str | None = None, **fields: Any) -> Object:
    """Metadata; fields that are empty are left out."""
    return {"name": name} | ({"namespace": namespace} if namespace else {}) | {k: v for k, v in fields.items() if v}


def node(name: str, gpus: int = 8, cpu: str = "64", memory: str = "512Gi", pods: int = 500, **labels: str) -> Object:
    """A node that is ready at once."""
    size = {"cpu": cpu, "memory": memory, "pods": str(pods)} | ({GPU: str(gpus)} if gpus else {})
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta(name, labels={"kubernetes.io/hostname": name} | labels, annotations=SIMULATED),
        "status": {"allocatable": size, "capacity": size, "conditions": [ready], "phase": "Running"},
    }


def pod(
    name: str,
    queue: str | None = "team",
    gpus: int = 1,
    *,
    namespace: str = "default",
    group: str | None = None,
    cpu: str = "100m",
    memory: str = "64Mi",
    scheduler: str = SCHEDULER,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A pending pod of one container; `group` is the name of its PodGroup, `spec` more fields of its spec."""
    marks = dict(labels or {}) | ({names.QUEUE_LABEL: queue} if queue else {})
    notes = dict(annotations or {}) | ({names.POD_GROUP_ANNOTATION: group} if group else {})
    limits = {GPU: str(gpus)} if gpus else {}
    resources = {"requests": {"cpu": cpu, "memory": memory} | limits, "limits": limits}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(name, namespace, labels=marks, annotations=notes),
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "image": "none", "resources": resources}],
            "terminationGracePeriodSeconds": 0,
        }
        | spec,
    }


def pod_group(name: str, queue: str = "team", min_member: int = 1, namespace: str = "default", **spec: Any) -> Object:
    """A PodGroup; `spec` is more fields of its spec."""
    content = {"queue": queue, "minMember": min_member} | spec
    return {
        "apiVersion": names.POD_GROUP_VERSION,
        "kind": "PodGroup",
        "metadata": meta(name, namespace),
        "spec": content,
    }


def gang(
    name: str, size: int, queue: str = "team", gpus: int = 1, namespace: str = "default", **spec: Any
) -> Sequence[Object]:
    """A PodGroup that needs all its pods, and these: NAME-0 and on. `spec` goes to the group."""
    members = [pod(f"{name}-{n}", queue, gpus, namespace=namespace, group=name) for n in range(size)]
    return [pod_group(name, queue, size, namespace, **spec), *members]


def queue(
    name: str,
    parent: str | None = None,
    quota: float = -1,
    limit: float = -1,
    weight: float = 1,
    priority: int | None = None,
) -> Object:
    """A queue with these GPUs; CPU and memory are unlimited, -1 is unlimited."""
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    gpu = {"quota": quota, "limit": limit, "overQuotaWeight": weight}
    spec: Object = {"resources": {"cpu": free, "memory": free, "gpu": gpu}}
    spec |= {"parentQueue": parent} if parent else {}
    spec |= {"priority": priority} if priority is not None else {}
    return {"apiVersion": names.QUEUE_VERSION, "kind": "Queue", "metadata": meta(name), "spec": spec}
