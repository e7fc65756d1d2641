"""The MiniCluster of the Flux Operator as a workload kind: its pods start together, or none does."""

from __future__ import annotations

from collections.abc import Iterator

from kai_sched.files.controllers.workload import ControlledWorkload, Manifest, count_of
from kai_sched.reconcile.grouping.draft import Draft, GroupingCase
from kai_sched.workload_kinds import WorkloadKind


def group(case: GroupingCase) -> Draft:
    """A gang of ``spec.minSize`` pods, or of all of them where there is no minimum."""
    spec = case.whole(case.owner).fields.at("spec")
    size = spec.count("size")
    minimum = spec.count("minSize")
    return Draft(case.owner, min_member=minimum or (1 if size is None else size))


def controller(workload: ControlledWorkload) -> Iterator[Manifest]:
    """The Job that the Flux Operator makes, for `kai-sched simulate`; its pods follow from it."""
    spec = workload.spec
    size = count_of(spec, "size", 1)
    pod = spec.at("pod")
    names = ("nodeSelector", "schedulerName", "serviceAccountName")
    template = {
        "metadata": {"labels": pod.texts("labels"), "annotations": pod.texts("annotations")},
        "spec": {
            **{name: pod.values[name] for name in names if name in pod.values},
            "containers": [
                {"name": each.text("name") or workload.name, "resources": each.at("resources").values}
                for each in spec.entries("containers")
            ],
        },
    }
    job = {"completionMode": "Indexed", "completions": size, "parallelism": size, "template": template}
    yield workload.child("batch/v1", "Job", workload.name, spec.texts("jobLabels"), spec=job)


MINI_CLUSTER = WorkloadKind("flux-framework.org/v1alpha2", "MiniCluster", group, controller)
