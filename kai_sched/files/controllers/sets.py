"""Offline pods of JobSet and LeaderWorkerSet: what their controllers would make at first, and what waits for what."""

from __future__ import annotations

from collections.abc import Iterator

from kai_sched.api import names
from kai_sched.files.controllers.workload import ControlledWorkload, Manifest, count_of, with_labels
from kai_sched.reconcile.grouping.jobset import dependencies
from kai_sched.reconcile.grouping.owners import Owner


def job_set(workload: ControlledWorkload) -> Iterator[Manifest]:
    """The Jobs that start at once. Those that wait for others are told."""
    if workload.spec.flag("suspend"):
        return
    parts = workload.spec.entries("replicatedJobs")
    in_order = workload.spec.at("startupPolicy").text("startupPolicyOrder") == "InOrder"
    there = {part.text("name"): count_of(part, "replicas", 1) for part in parts}
    before: dict[str, str] = {}  # those that come earlier in the order
    for index, part in enumerate(parts):
        waits = {name: status for name, status in {**dependencies(part), **before}.items() if there.get(name, 1)}
        if in_order:
            before[part.text("name")] = "Ready"
        if waits:
            what = ", ".join(f"{name} is {status}" for name, status in waits.items())
            workload.warn(
                f"spec.replicatedJobs[{index}]", f"{part.text('name')} starts once {what}, so its pods are left out"
            )
            continue
        template = part.at("template")
        meta, spec = template.at("metadata"), template.at("spec")
        for i in range(count_of(part, "replicas", 1)):
            labels = {
                names.JOBSET_NAME_LABEL: workload.name,
                names.REPLICATED_JOB_LABEL: part.text("name"),
                names.JOB_INDEX_LABEL: str(i),
            }
            yield workload.child(
                "batch/v1",
                "Job",
                f"{workload.name}-{part.text('name')}-{i}",
                {**meta.texts("labels"), **labels},
                annotations=meta.texts("annotations"),
                spec={**spec.values, "template": with_labels(spec.at("template"), labels)},
            )


def leader_worker_set(workload: ControlledWorkload) -> Iterator[Manifest]:
    """Leaders and workers. Its StatefulSets have no replicas here: its webhook gives each pod labels of its own."""
    spec = workload.spec
    template = spec.at("leaderWorkerTemplate")
    size = count_of(template, "size", 1)
    leader = template.at("leaderTemplate" if template.has("leaderTemplate") else "workerTemplate")
    waits = spec.text("startupPolicy") == "LeaderReady" and size > 1
    if waits:
        workload.warn("spec.startupPolicy", "workers start once their leader is ready, so only leaders are scheduled")
    leaders = workload.child("apps/v1", "StatefulSet", workload.name, spec={"replicas": 0})
    yield leaders
    of_leaders = _owned(workload, leaders)
    annotations = {names.LWS_SIZE_ANNOTATION: str(size)}
    for group in range(count_of(spec, "replicas", 1)):
        name = f"{workload.name}-{group}"
        pod = of_leaders.pod(name, leader, _labels(workload, group, 0), annotations=annotations)
        yield pod
        if size == 1 or waits:
            continue
        workers = _owned(workload, pod).child("apps/v1", "StatefulSet", name, spec={"replicas": 0})
        yield workers
        of_workers = _owned(workload, workers)
        for i in range(1, size):
            labels = _labels(workload, group, i)
            yield of_workers.pod(f"{name}-{i}", template.at("workerTemplate"), labels, annotations=annotations)


def _owned(workload: ControlledWorkload, manifest: Manifest) -> ControlledWorkload:
    """A new object as the owner of others."""
    meta = manifest["metadata"]
    owner = Owner(manifest["apiVersion"], manifest["kind"], meta["namespace"], meta["name"], meta["uid"])
    return ControlledWorkload(owner, workload.warn, workload.find)


def _labels(workload: ControlledWorkload, group: int, index: int) -> dict[str, str]:
    return {
        names.LWS_NAME_LABEL: workload.name,
        names.LWS_GROUP_INDEX_LABEL: str(group),
        names.LWS_WORKER_INDEX_LABEL: str(index),
    }
