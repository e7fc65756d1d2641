"""A busy cluster of 40 nodes, as ``kubectl get -o json`` has it: long names, a tree of queues, work that runs, waits,
has finished, or belongs to other schedulers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NOW = "2026-11-22T12:00:00Z"
TREE = {
    "research": {"nlp": (32, -1), "vision": (24, 40), "speech": (8, 16)},
    "product": {"search": (32, 64), "ads": (32, -1), "assistant": (24, 48)},
    "platform": {"ci": (4, 8), "evals": (12, 24), "sandbox": (0, -1)},
}
GPU_NODES = [f"ip-10-20-{number // 8}-{100 + number}.eu-central-1.compute.internal" for number in range(25)]
CPU_NODES = [f"ip-10-20-{number // 8}-{100 + number}.eu-central-1.compute.internal" for number in range(25, 40)]
LONGEST = "llama3-405b-continued-pretraining-run-17"
Manifest = dict[str, Any]


def ago(minutes: int) -> str:
    """The time so many minutes before NOW, of the last day."""
    hours, minute = divmod(24 * 60 - minutes, 60)
    day, hour = divmod(hours + 12, 24)
    return f"2026-11-{21 + day}T{hour:02}:{minute:02}:00Z"


def node(name: str, gpus: int, **spec: Any) -> Manifest:
    allocatable = {"cpu": "192", "memory": "2000Gi", "pods": "110", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec, "status": status}


def queue(name: str, parent: str, quota: int, limit: int) -> Manifest:
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    resources = {"cpu": free, "memory": free, "gpu": {"quota": quota, "limit": limit, "overQuotaWeight": 1}}
    spec = {"resources": resources, **({"parentQueue": parent} if parent else {})}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def pod(namespace: str, name: str, gpus: int, created: str, **more: Any) -> Manifest:
    """``node``, ``group``, ``queue``, ``phase`` and ``scheduler`` may be given."""
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    requests = {"cpu": "4", "memory": "16Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    meta = {
        "namespace": namespace,
        "name": name,
        "uid": f"{namespace}-{name}",
        "creationTimestamp": created,
        "labels": {"kai.scheduler/queue": more.get("queue", ""), "app": name.rpartition("-")[0]},
        "annotations": {"pod-group-name": more["group"]} if "group" in more else {},
    }
    spec = {
        "schedulerName": more.get("scheduler", "kai-scheduler"),
        "nodeName": more.get("node", ""),
        "containers": [{"name": "main", "resources": {"requests": requests, **limits}}],
    }
    phase = more.get("phase", "Running" if more.get("node") else "Pending")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": phase}}


def workload(
    owner: str, queue: str, pods: int, gpus: int, minutes: int, nodes: list[str] | None = None
) -> list[Manifest]:
    """``owner`` is "kind/name"; ``nodes`` has the node of each pod that runs."""
    kind, name = owner.split("/")
    namespace, group = f"ml-{queue}", f"pg-{name}-0a6fb154-a837-4dcd-8299-ed6e811c8fa7"
    reference = {"apiVersion": "example.com/v1", "kind": kind, "name": name, "uid": name, "controller": True}
    head = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {
            "namespace": namespace,
            "name": group,
            "uid": group,
            "creationTimestamp": ago(minutes),
            "labels": {"app": name},
            "ownerReferences": [reference],
        },
        "spec": {"queue": queue, "minMember": pods, "priorityClassName": "train"},
    }
    places = nodes or [""] * pods
    made = [
        pod(namespace, f"{name}-{number}", gpus, ago(minutes), node=place, group=group, queue=queue)
        for number, place in enumerate(places)
    ]
    return [head, *made]


def objects() -> list[Manifest]:
    """184 of 200 GPUs are used, 16 are on a node that is cordoned and on one that is not ready. 32 are taken back."""
    found = [node(name, 8) for name in GPU_NODES[:23]]
    found.append(node(GPU_NODES[23], 8, unschedulable=True))
    found.append(node(GPU_NODES[24], 8))
    found[-1]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    found += [node(name, 0) for name in CPU_NODES]
    for parent, leaves in TREE.items():
        found.append(queue(parent, "", sum(quota for quota, _ in leaves.values()), -1))
        found += [queue(name, parent, quota, limit) for name, (quota, limit) in leaves.items()]
    found.append(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "train"}, "value": 50}
    )
    found += running() + waiting()
    found += [
        pod("monitoring", f"exporter-{number}", 0, ago(900), node=name, scheduler="default-scheduler")
        for number, name in enumerate([*GPU_NODES, *CPU_NODES])
    ]
    found += [pod("default", f"other-{number}", 0, ago(5), scheduler="default-scheduler") for number in range(130)]
    return found


def running() -> list[Manifest]:
    """23 nodes full of gangs and sweeps, and 60 pods that have finished."""
    found = workload("PyTorchJob/llama3-70b-sft-20261118", "nlp", 6, 8, 700, GPU_NODES[:6])
    found += workload("PyTorchJob/vit-huge-pretraining", "vision", 3, 8, 600, GPU_NODES[6:9])
    found += workload("RayCluster/assistant-serving-llama-70b", "assistant", 4, 8, 900, GPU_NODES[9:13])
    found += workload("RayCluster/search-ranking-batch", "search", 4, 8, 800, GPU_NODES[13:17])
    found += workload("PyTorchJob/ads-two-tower-retraining", "ads", 3, 8, 500, GPU_NODES[17:20])
    for number in range(12):
        found += workload(f"Job/hpo-sweep-trial-{number:03}", "sandbox", 1, 2, 700, [GPU_NODES[20 + number // 4]])
    for number in range(60):
        found.append(
            pod("ml-evals", f"eval-{number}-0", 1, ago(300), node=GPU_NODES[20], queue="evals", phase="Succeeded")
        )
    return found


def waiting() -> list[Manifest]:
    """Gangs of several queues, twelve equal trials, and a bare pod whose queue is misspelt."""
    found = workload(f"PyTorchJob/{LONGEST}", "nlp", 8, 8, 55)
    found += workload("PyTorchJob/sam3-video-segmentation-pretrain", "vision", 4, 8, 50)
    found += workload("PyTorchJob/whisper-v4-multilingual-finetune", "speech", 2, 8, 45)
    found += workload("RayCluster/cross-encoder-distill", "search", 5, 4, 40)
    found += workload("PyTorchJob/ads-embedding-refresh", "ads", 1, 8, 25)
    for number in range(40, 52):
        found += workload(f"Job/hpo-sweep-trial-{number:03}", "sandbox", 1, 4, 15)
    found.append(pod("ml-vision", "debug-typo", 1, ago(600), queue="visoin"))
    return found


def write(folder: Path) -> str:
    """The cluster as a file; returns its path."""
    path = folder / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects()}))
    return str(path)
