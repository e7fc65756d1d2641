"""Offline pods of Deployment, ReplicaSet, StatefulSet, Job and CronJob: what the controllers of Kubernetes would make.

Where the real ones use random names, the names here differ from those of the pods of a StatefulSet.
"""

from __future__ import annotations

from collections.abc import Iterator

from kai_sched.files.controllers.workload import ControlledWorkload, Manifest, count_of

BATCH = "batch.kubernetes.io"


def deployment(workload: ControlledWorkload) -> Iterator[Manifest]:
    """Its ReplicaSet."""
    spec = workload.spec
    wanted = {"replicas": count_of(spec, "replicas", 1), "template": spec.at("template").values}
    labels = spec.at("template", "metadata").texts("labels")
    yield workload.child("apps/v1", "ReplicaSet", f"{workload.name}-1", labels, spec=wanted)


def replica_set(workload: ControlledWorkload) -> Iterator[Manifest]:
    """Its pods."""
    for i in range(count_of(workload.spec, "replicas", 1)):
        yield workload.pod(f"{workload.name}-r{i}", workload.spec.at("template"))


def stateful_set(workload: ControlledWorkload) -> Iterator[Manifest]:
    """Its pods, each with claims of its own."""
    spec = workload.spec
    start = count_of(spec.at("ordinals"), "start", 0)
    template = spec.at("template")
    volumes = template.at("spec").entries("volumes")
    for i in range(start, start + count_of(spec, "replicas", 1)):
        name = f"{workload.name}-{i}"
        own = []
        for claim in spec.entries("volumeClaimTemplates"):
            volume = claim.at("metadata").text("name")
            own.append({"name": volume, "persistentVolumeClaim": {"claimName": f"{volume}-{name}"}})
            body = {"spec": claim.at("spec").values, "status": {"phase": "Pending"}}
            yield workload.child("v1", "PersistentVolumeClaim", f"{volume}-{name}", **body)
        labels = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(i)}
        taken = {each["name"] for each in own}
        kept = [each.values for each in volumes if each.text("name") not in taken]
        yield workload.pod(name, template, labels, **({"volumes": [*own, *kept]} if own else {}))


def job(workload: ControlledWorkload) -> Iterator[Manifest]:
    """The pods that it runs at a time."""
    spec = workload.spec
    if spec.flag("suspend"):
        return
    count = count_of(spec, "parallelism", 1)
    completions = spec.count("completions")
    if completions is not None:
        count = min(count, completions)
    is_indexed = spec.text("completionMode") == "Indexed"
    for i in range(count):
        labels = {f"{BATCH}/job-name": workload.name, "job-name": workload.name}
        if is_indexed:
            labels[f"{BATCH}/job-completion-index"] = str(i)
        yield workload.pod(f"{workload.name}-j{i}", spec.at("template"), labels)


def cron_job(workload: ControlledWorkload) -> Iterator[Manifest]:
    """The Job of one run."""
    if workload.spec.flag("suspend"):
        return
    template = workload.spec.at("jobTemplate")
    meta = template.at("metadata")
    yield workload.child(
        "batch/v1",
        "Job",
        f"{workload.name}-1",
        meta.texts("labels"),
        annotations=meta.texts("annotations"),
        spec=template.at("spec").values,
    )
