"""What changes where Volcano was: its queues, its jobs, which have no rule here, and pods that name it."""

from __future__ import annotations

from collections.abc import Mapping

from kai_sched.cli.finding import Finding, Gravity
from kai_sched.cli.migration.found import (
    VOLCANO_JOBS,
    VOLCANO_QUEUES,
    FoundObjects,
    Manifest,
    count,
    name_of,
    part,
)
from kai_sched.cli.migration.product_findings import installed_finding, parts_of, pod_findings, webhook_findings
from kai_sched.cli.migration.products import VOLCANO
from kai_sched.model.problems import some_of

PAGE = "docs/from-volcano.md"
# Fields of its queues, and what they are here.
_FIELDS: Mapping[tuple[str, ...], str] = {
    ("weight",): "weight is spec.resources.*.overQuotaWeight",
    ("capability",): "capability is spec.resources.*.limit",
    ("deserved",): "deserved is spec.resources.*.quota",
    ("guarantee", "resource"): "guarantee is spec.resources.*.quota, which others may borrow",
    ("parent",): "parent is spec.parentQueue",
    ("priority",): "priority is spec.priority",
}
_NO_MEANING = ("affinity", "extendClusters", "type")


def volcano_findings(found: FoundObjects) -> list[Finding]:
    """What there is of Volcano, and what changes. Empty where there is nothing."""
    result: list[Finding] = []
    if parts := parts_of(found, VOLCANO):
        remedy = f"both may run beside each other, on nodes of their own: follow {PAGE}"
        result.append(installed_finding(parts, remedy))
    if queues := found.of(VOLCANO_QUEUES, "Queue"):
        text = f"{count(len(queues), 'queue')} ({some_of(sorted(map(name_of, queues)))})"
        result.append(Finding(Gravity.WARNING, f"{VOLCANO}: queues", text, f"write them as Queues by {PAGE}"))
        for each in queues:
            result += _queue(each)
    if jobs := found.of(VOLCANO_JOBS, "Job"):
        text = f"{count(len(jobs), 'Job')} of {VOLCANO_JOBS}: no rule is built in, so their pods are no gang"
        remedy = "use Jobs, JobSets or the jobs of Kubeflow"
        result.append(Finding(Gravity.WARNING, f"{VOLCANO}: jobs", text, remedy))
    if groups := found.of(VOLCANO_QUEUES, "PodGroup"):
        text = f"{count(len(groups), 'PodGroup')} of {VOLCANO_QUEUES}: kai-sched makes its own from the workloads"
        result.append(Finding(Gravity.OK, f"{VOLCANO}: groups", text))
    result += pod_findings(found, VOLCANO, PAGE)
    return result + webhook_findings(found, VOLCANO, "volcano-")


def _queue(manifest: Manifest) -> list[Finding]:
    what = f"{VOLCANO}: Queue {name_of(manifest)}"
    known = [text for path, text in _FIELDS.items() if part(manifest, "spec", *path)]
    result = [Finding(Gravity.OK, what, "; ".join(known))] if known else []
    unused = [field for field in _NO_MEANING if part(manifest, "spec", field)]
    result += [Finding(Gravity.WARNING, what, f"spec.{each}: has no meaning here", f"see {PAGE}") for each in unused]
    if part(manifest, "spec", "reclaimable") is False:
        text = "spec.reclaimable: false: other queues may reclaim what is over quota"
        remedy = "raise the quota to what must stay, or use classes that are not preemptible"
        result.append(Finding(Gravity.WARNING, what, text, remedy))
    if (state := part(manifest, "status", "state")) not in (None, "", "Open"):
        result.append(Finding(Gravity.WARNING, what, f"status.state: {state}: a Queue here cannot be closed"))
    return result
