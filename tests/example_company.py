"""The dumps in examples/company, on which the documents ask, made by `make docs`: a company with two departments and 18
GPU nodes, as ``kai-sched dump`` writes it at nine o'clock, and at noon.

Nothing in them is random: uids are made of names, and times are minutes before NOW.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from kai_sched.files.dump import DumpMetadata, dump_chunks, dump_document
from kai_sched.model.config import Config
from kai_sched.model.times import format_time
from tests.tree import ROOT

Manifest = dict[str, Any]

NOW_NS = 1_795_424_400 * 10**9  # 2026-11-23 09:00 UTC
MINUTE_NS = 60 * 10**9
DAY = 24 * 60
CONTEXT = "company"
MORNING, NOON = 0, 3 * 60  # minutes after NOW
ENDED_BY_NOON = frozenset({"dpo-sweep-01", "dpo-sweep-02", "ocr-eval", "tokenize-corpus"})

# Department, its teams with quota and limit in GPUs; -1 is unlimited.
DEPARTMENTS: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "research": {"nlp": (40, -1), "vision": (24, 32), "speech": (8, 16)},
    "product": {"chat": (32, -1), "search": (20, -1)},
}
CLASSES = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
CORDONED, NOT_READY = "h100-07", "h100-12"
# Kinds of owners, by apiVersion.
PYTORCH, RAY = ("kubeflow.org/v1", "PyTorchJob"), ("ray.io/v1", "RayCluster")
JOB, SET = ("batch/v1", "Job"), ("apps/v1", "ReplicaSet")
NOTEBOOK, GROUP = ("kubeflow.org/v1", "Notebook"), ("scheduling.run.ai/v2alpha2", "PodGroup")


@dataclass(frozen=True, slots=True)
class Asked:
    """What each pod of a workload asks for: GPUs, CPU cores and Gi of memory; and whether it tolerates GPU nodes."""

    gpus: int = 0
    cpus: int = 4
    memory: int = 16
    tolerates: bool = True

    @property
    def resources(self) -> Manifest:
        """The resources of its container."""
        request = {"cpu": str(self.cpus), "memory": f"{self.memory}Gi"}
        limits = {"nvidia.com/gpu": str(self.gpus)} if self.gpus else {}
        return {"requests": request | limits, "limits": limits}


@dataclass(frozen=True, slots=True)
class Work:
    """A workload of a team: who it is, where its pods run, and since how many minutes it is there.

    ``nodes`` has the node of each pod, "" for one that waits. ``deadline`` is in seconds, 0 for none.
    """

    name: str
    team: str
    kind: tuple[str, str]
    asked: Asked
    nodes: tuple[str, ...]
    minutes: int
    priority: str = "train"
    deadline: int = 0


def gpu_node(number: int) -> str:
    """The name of a node with H100 GPUs."""
    return f"h100-{number:02}"


def whole(gpus: int) -> Asked:
    """A part of a GPU node that goes with so many GPUs."""
    return Asked(gpus, gpus * 20, gpus * 200)


def workloads() -> list[Work]:
    """All workloads with a group, those that run and those that wait."""
    eight, four, one = whole(8), whole(4), whole(1)
    nodes = [gpu_node(number) for number in range(1, 19) if gpu_node(number) not in (CORDONED, NOT_READY)]
    sweep = [Work(f"dpo-sweep-{n:02}", "chat", JOB, four, (nodes[15],), 90 - n, deadline=4 * 3600) for n in range(1, 3)]
    more = [Work(f"dpo-sweep-{n:02}", "chat", JOB, four, ("",), 26 - n, deadline=4 * 3600) for n in range(3, 6)]
    return [
        Work("llama3-70b-sft", "nlp", PYTORCH, eight, tuple(nodes[:6]), 2 * DAY + 125),
        Work("tokenize-corpus", "nlp", JOB, Asked(0, 16, 64), ("cpu-01", "cpu-01", "cpu-02"), 190, deadline=6 * 3600),
        Work("dinov3-pretrain", "vision", PYTORCH, eight, tuple(nodes[6:9]), DAY + 410),
        Work("ocr-eval", "vision", JOB, four, (nodes[14],), 95, deadline=3 * 3600),
        Work("reward-model", "chat", PYTORCH, eight, tuple(nodes[9:11]), 700),
        Work("assistant-vllm", "chat", RAY, four, (nodes[13], nodes[13]), 9 * DAY, priority="inference"),
        *sweep,
        Work("two-tower-nightly", "search", PYTORCH, eight, tuple(nodes[11:13]), 460),
        Work("ranker-api", "search", SET, one, (nodes[14],) * 4, 12 * DAY, priority="inference"),
        Work("feature-sync", "search", SET, Asked(0, 8, 32), ("cpu-03", "cpu-04"), 30 * DAY, priority="inference"),
        Work("anna", "speech", NOTEBOOK, Asked(0, 8, 32), ("cpu-05",), 75, priority="build"),
        Work("llama3-405b-pretrain", "nlp", PYTORCH, eight, ("",) * 8, 55),
        Work("sam3-pretrain", "vision", PYTORCH, eight, ("",), 50),
        Work("whisper-v4-finetune", "speech", PYTORCH, eight, ("",) * 2, 45),
        *more,
    ]


class Company:
    """The objects of the cluster."""

    def __init__(self, not_ready: frozenset[str]) -> None:
        self.objects: list[Manifest] = []
        self._not_ready = not_ready

    def add(self, api: tuple[str, str], name: str, minutes: int, namespace: str = "", **parts: Any) -> None:
        """Add an object that was created so many minutes before NOW; ``metadata`` of the parts is added to its own."""
        meta = {"name": name, "uid": uid(api[1], name), "resourceVersion": "1", "creationTimestamp": ago(minutes)}
        scope = {"namespace": namespace} if namespace else {}
        whole = {**scope, **meta, **parts.pop("metadata", {})}
        self.objects.append({"apiVersion": api[0], "kind": api[1], "metadata": whole, **parts})

    def add_node(self, name: str, gpus: int, cpus: int, memory: int) -> None:
        """A node with so many GPUs, CPU cores and Gi of memory."""
        room = {"cpu": str(cpus), "memory": f"{memory}Gi", "pods": "110"}
        labels = {"kubernetes.io/hostname": name, "node.kubernetes.io/instance-type": "h100-8" if gpus else "cpu-64"}
        spec: Manifest = {"unschedulable": True} if name == CORDONED else {}
        if gpus:
            room["nvidia.com/gpu"] = str(gpus)
            labels["nvidia.com/gpu.product"] = "NVIDIA-H100-80GB-HBM3"
            spec["taints"] = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
        ready = {"type": "Ready", "status": "Unknown" if name in self._not_ready else "True"}
        status = {"allocatable": room, "capacity": room, "conditions": [ready]}
        self.add(("v1", "Node"), name, 90 * DAY, metadata={"labels": labels}, spec=spec, status=status)

    def add_queue(self, name: str, parent: str, quota: int, limit: int) -> None:
        """A queue with these GPUs, and any amount of CPU and memory."""
        unlimited = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        resources = {
            "cpu": unlimited,
            "memory": unlimited,
            "gpu": {"quota": quota, "limit": limit, "overQuotaWeight": 1},
        }
        spec = {"resources": resources} | ({"parentQueue": parent} if parent else {})
        self.add(("scheduling.run.ai/v2", "Queue"), name, 60 * DAY - len(self.objects), spec=spec)

    def add_workload(self, work: Work) -> None:
        """A workload with its group and its pods; each replica of a Deployment has a group of its own."""
        owner = reference(work.kind, work.name)
        if work.kind == SET:
            for place, node in enumerate(work.nodes):
                pod = f"{work.name}-{place}"
                self._add_pod(work, pod, node, owner, self._add_group(work, pod, reference(("v1", "Pod"), pod), 1))
            return
        if work.deadline:
            self._add_job(work)
        minimum = len(work.nodes) if work.kind in (PYTORCH, RAY) else 1
        group = self._add_group(work, work.name, owner, minimum)
        for place, node in enumerate(work.nodes):
            self._add_pod(work, f"{work.name}-{_role(work, place)}", node, owner, group)

    def _add_job(self, work: Work) -> None:
        """The Job itself: it has the deadline."""
        spec = {"activeDeadlineSeconds": work.deadline, "parallelism": len(work.nodes)}
        status = {"startTime": ago(work.minutes)} if any(work.nodes) else {}
        self.add(JOB, work.name, work.minutes, work.team, spec=spec, status=status)

    def _add_group(self, work: Work, name: str, owner: Manifest, minimum: int) -> str:
        group = f"pg-{name}-{owner['uid']}"
        spec = {"queue": work.team, "priorityClassName": work.priority, "minMember": minimum}
        metadata = {"ownerReferences": [owner]}
        self.add(GROUP, group, work.minutes, work.team, metadata=metadata, spec=spec)
        return group

    def _add_pod(self, work: Work, name: str, node: str, owner: Manifest, group: str) -> None:
        metadata = {
            "labels": {"kai.scheduler/queue": work.team},
            "annotations": {"pod-group-name": group},
            "ownerReferences": [owner],
        }
        self.add_pod(name, work.team, work.asked, node, work.minutes, metadata, priority=work.priority)

    def add_pod(
        self,
        name: str,
        namespace: str,
        asked: Asked,
        node: str,
        minutes: int,
        metadata: Manifest,
        priority: str = "train",
        phase: str = "",
    ) -> None:
        """A pod of the scheduler; it runs where it has a node, unless ``phase`` says otherwise."""
        spec: Manifest = {"schedulerName": "kai-scheduler", "priorityClassName": priority}
        spec["containers"] = [{"name": "main", "image": "registry/main:1", "resources": asked.resources}]
        if asked.tolerates:
            spec["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
        if node:
            spec["nodeName"] = node
        status = {"phase": phase or ("Running" if node else "Pending")}
        self.add(("v1", "Pod"), name, minutes, namespace, metadata=metadata, spec=spec, status=status)


def _role(work: Work, place: int) -> str:
    if work.kind == PYTORCH:
        return f"worker-{place - 1}" if place else "master-0"
    return f"gpu-worker-{place}" if work.kind == RAY else f"{place}"


def uid(kind: str, name: str) -> str:
    """That of the object: the same in both dumps."""
    return str(uuid5(NAMESPACE_DNS, f"{kind}.{name}"))


def reference(kind: tuple[str, str], name: str) -> Manifest:
    """The reference to an owner."""
    return {"apiVersion": kind[0], "kind": kind[1], "name": name, "uid": uid(kind[1], name), "controller": True}


def ago(minutes: int) -> str:
    """The time so many minutes before NOW."""
    return format_time(NOW_NS - minutes * MINUTE_NS)


def objects(at: int = MORNING) -> list[Manifest]:
    """All objects of the cluster: at noon some workloads have ended, and the node that was not ready is back."""
    company = Company(frozenset({NOT_READY}) if at == MORNING else frozenset())
    ended = ENDED_BY_NOON if at == NOON else frozenset()
    for number in range(1, 19):
        company.add_node(gpu_node(number), gpus=8, cpus=192, memory=2000)
    for number in range(1, 7):
        company.add_node(f"cpu-{number:02}", gpus=0, cpus=64, memory=256)
    for department, teams in DEPARTMENTS.items():
        company.add_queue(department, "", sum(quota for quota, _ in teams.values()), -1)
        for team, (quota, limit) in teams.items():
            company.add_queue(team, department, quota, limit)
            company.add(("v1", "Namespace"), team, 60 * DAY)
    for name, value in CLASSES.items():
        company.add(("scheduling.k8s.io/v1", "PriorityClass"), name, 60 * DAY, value=value)
    for work in workloads():
        if work.name not in ended:
            company.add_workload(work)
    _add_bare_pods(company)
    return company.objects


def _add_bare_pods(company: Company) -> None:
    """Pods without a workload: two that cannot start, and those that have ended."""
    of_queue = {queue: {"labels": {"kai.scheduler/queue": queue}} for queue in ("search", "visoin", "chat")}
    company.add_pod("debug-reranker", "search", Asked(1, 8, 64, tolerates=False), "", 600, of_queue["search"])
    company.add_pod("debug-ocr", "vision", whole(1), "", 580, of_queue["visoin"])
    for place, phase in enumerate(("Succeeded",) * 6 + ("Failed",) * 2):
        company.add_pod(f"eval-{place}", "chat", whole(1), "h100-01", 3 * DAY, of_queue["chat"], phase=phase)


def dumped(at: int) -> Manifest:
    """The dump of that time."""
    return dump_document(objects(at), Config(), DumpMetadata(NOW_NS + at * MINUTE_NS, CONTEXT))


FOLDER = Path("examples/company")
# Each dump in the folder, and the time of it.
DUMPS = {"cluster.json.gz": MORNING, "noon.json.gz": NOON}


def main() -> None:
    """Write the dumps."""
    for name, at in DUMPS.items():
        (ROOT / FOLDER / name).write_bytes(b"".join(dump_chunks(dumped(at))))


if __name__ == "__main__":
    main()
