"""Offline JobSets of TrainJob: what Kubeflow Trainer would make from the runtime that a TrainJob names."""

from __future__ import annotations

from collections.abc import Iterator

from kai_sched.files.controllers.workload import ControlledWorkload, Manifest
from kai_sched.model.read.meta import DEFAULT_NAMESPACE
from kai_sched.reconcile.grouping.fields import Fields
from kai_sched.reconcile.grouping.owners import ObjectReference, Owner

STEP_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
CLUSTER_RUNTIME = "ClusterTrainingRuntime"
# The step whose size and resources the TrainJob sets, and the container that has them.
TRAINER, NODE = "trainer", "node"


def train_job(workload: ControlledWorkload) -> Iterator[Manifest]:
    """Its JobSet. Raises GroupingError if the runtime is not in the input."""
    if workload.spec.flag("suspend"):
        return
    runtime = _runtime(workload).fields.at("spec")
    template = runtime.at("template")
    jobs = [_job(workload, runtime, job) for job in template.at("spec").entries("replicatedJobs")]
    yield workload.child(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        workload.name,
        {**template.at("metadata").texts("labels"), **workload.spec.texts("labels")},
        annotations={**template.at("metadata").texts("annotations"), **workload.spec.texts("annotations")},
        spec={**template.at("spec").values, "replicatedJobs": jobs},
    )


def _runtime(workload: ControlledWorkload) -> Owner:
    reference = workload.spec.at("runtimeRef")
    kind, name = reference.text("kind") or CLUSTER_RUNTIME, reference.text("name")
    namespace = DEFAULT_NAMESPACE if kind == CLUSTER_RUNTIME else workload.owner.namespace
    found = workload.find(ObjectReference(workload.owner.api_version, kind, namespace, name, whole=True))
    if found is None:
        raise reference.error("name", f"there is no {kind} {name!r} in the input: add it, its template makes the pods")
    return found


def _job(workload: ControlledWorkload, runtime: Fields, job: Fields) -> Manifest:
    """The replicated job of the runtime, changed as the TrainJob says."""
    template = job.at("template")
    if template.at("metadata").texts("labels").get(STEP_LABEL) != TRAINER:
        return dict(job.values)
    trainer, spec = workload.spec.at("trainer"), template.at("spec")
    nodes = trainer.count("numNodes")
    if nodes is None:
        nodes = runtime.at("mlPolicy").count("numNodes")
    pod = spec.at("template")
    own = dict(trainer.at("resourcesPerNode").values)
    containers = [
        {**each.values, "resources": own} if own and each.text("name") == NODE else each.values
        for each in pod.at("spec").entries("containers")
    ]
    sized = {} if nodes is None else {"parallelism": nodes, "completions": nodes}
    changed = pod.changed({"spec": {**pod.at("spec").values, "containers": containers}}).values
    return {**job.values, "template": {**template.values, "spec": {**spec.values, **sized, "template": changed}}}
