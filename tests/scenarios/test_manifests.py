"""Scenarios of features that begin with manifests (API 2.4, 4.4, 4.12): how they are read and grouped, and what the
scheduler and its twin then decide. Each case says why.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kai_sched import run_cycle
from kai_sched.files.load import load
from tests.oracle.actions import decide
from tests.tree import ROOT

EXAMPLES = ROOT / "examples"
MANY = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
QUEUES = ("team", "team-a", "vision")


def cluster(**gpus: int) -> list[object]:
    """Queues without bounds, and nodes of 24 GiB a GPU with so many GPUs."""
    found: list[object] = []
    for name in QUEUES:
        spec = {"resources": {"cpu": MANY, "memory": MANY, "gpu": MANY}}
        found.append({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec})
    for name, count in gpus.items():
        meta = {"name": name, "labels": {"nvidia.com/gpu.memory": "24576"}}
        has = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(count)}
        found.append({"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": has}})
    settings = {"apiVersion": "kai.scheduler/v1", "kind": "Config", "metadata": {"name": "kai-config"}}
    return [*found, {**settings, "spec": {"global": {"gpuSharing": True}}}]


def workloads(path: str) -> list[object]:
    """The objects of an example that are no part of the cluster."""
    every = yaml.safe_load_all((EXAMPLES / path).read_text())
    return [each for each in every if each and each["kind"] not in ("Node", "Queue")]


def with_memory(name: str, mib: int) -> object:
    """A pod of one container with so much memory of a GPU, younger than all others."""
    notes = {"nvidia.com/container.main.gpu-memory.request": f"{mib}Mi"}
    meta: dict[str, object] = {
        "name": name,
        "namespace": "ml",
        "labels": {"kai.scheduler/queue": "team-a"},
        "annotations": notes,
    }
    meta |= {"creationTimestamp": "2026-01-01T00:00:00Z"}
    spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "main", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


CASES = [
    # API 4.12: minCount is 4, and a node of 8 GPUs has room for two pods of 4.
    ("a gang of Kubernetes waits whole", cluster(a=8), workloads("kubernetes-groups/gang.yaml"), {"Pending": 4}),
    ("a gang of Kubernetes starts whole", cluster(a=8, b=8), workloads("kubernetes-groups/gang.yaml"), {"Binding": 4}),
    # API 4.4: three pods of 2 GPUs by batch-min-member; 4 GPUs hold two of them.
    ("a StatefulSet waits whole", cluster(a=4), workloads("stateful-set/gang.yaml"), {"Pending": 3}),
    ("a StatefulSet starts whole", cluster(a=4, b=2), workloads("stateful-set/gang.yaml"), {"Binding": 3}),
    # API 2.4: the requests are 6 GiB and, as a limit alone is the request, 18 GiB: together the 24 GiB of one GPU.
    ("memory of containers fills a GPU", cluster(a=1), workloads("gpu-sharing/containers.yaml"), {"Binding": 2}),
    # 100 MiB more do not fit; a second GPU has room.
    (
        "and no more",
        cluster(a=1),
        [*workloads("gpu-sharing/containers.yaml"), with_memory("z-late", 100)],
        {"Binding": 2, "Pending": 1},
    ),
    (
        "but on another GPU",
        cluster(a=2),
        [*workloads("gpu-sharing/containers.yaml"), with_memory("z-late", 100)],
        {"Binding": 3},
    ),
]


@pytest.mark.parametrize(
    ("objects", "asked", "expected"),
    [case[1:] for case in CASES],
    ids=[f"{n}: {case[0]}" for n, case in enumerate(CASES)],
)
def test_both_decide_what_the_manifests_ask_for(
    tmp_path: Path, objects: list[object], asked: list[object], expected: dict[str, int]
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump_all([*objects, *asked]))
    (case,) = load([str(path)]).cases
    now_ns = 1_800_000_000 * 10**9
    found = case.store.cluster()
    ours = {key: (state.status, state.node) for key, state in run_cycle(found, case.config, now_ns).pods.items()}
    assert decide(found, case.config, now_ns).pods == ours
    counts: dict[str, int] = {}
    for status, _ in ours.values():
        counts[status] = counts.get(status, 0) + 1
    assert counts == expected
