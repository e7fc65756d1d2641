"""What fields and kinds of Kueue have no meaning in a Queue, and what to do instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kai_sched.model.problems import some_of

Notes = list[tuple[str, str]]
_CONVERTED = frozenset({"resourceGroups", "cohort", "cohortName", "parent", "parentName", "fairSharing"})
# The defaults that the API server writes into each ClusterQueue say nothing.
_FUNGIBILITY: tuple[dict[str, str], ...] = (
    {},
    {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"},
    {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
)
_CHECKS = "no check is asked before a workload starts: let an admission policy or its controller do it"


def fields_of_queue(spec: Mapping[str, Any], kind: str) -> Notes:
    """What the spec of a ClusterQueue or Cohort says beyond quotas."""
    notes: Notes = []
    if kind == "ClusterQueue":
        for name, judge in _FIELDS.items():
            if text := judge(spec.get(name)):
                notes.append((f"spec.{name}", text))
        notes += _preemption(spec.get("preemption"))
    known = _CONVERTED | (_FIELDS.keys() | {"preemption"} if kind == "ClusterQueue" else set())
    return notes + [
        (f"spec.{name}", "not converted: this version does not know it") for name in sorted(spec.keys() - known)
    ]


def _strategy(value: Any) -> str:
    if value != "StrictFIFO":
        return ""
    return "StrictFIFO: a workload that does not fit lets later ones of its queue start: give it a higher priority"


def _namespaces(value: Any) -> str:
    policy = "an admission policy says which namespace may use which queue (docs/tenancy.md)"
    if value is None:
        return f"missing, so Kueue admits nothing; here every namespace may use the queue: {policy}"
    return f"every namespace may use the queue: {policy}" if value else ""


def _fungibility(value: Any) -> str:
    if value is None or value in _FUNGIBILITY:
        return ""
    return "workloads choose nodes by nodeSelector or affinity, and there is no order of flavors: prefer by affinity"


def _stop(value: Any) -> str:
    if value in (None, "None"):
        return ""
    return f"{value}: the queue is converted as if it were open: set its limits to 0, so that nothing new starts"


def _scope(value: Any) -> str:
    if not value or value.get("admissionMode") == "NoAdmissionFairSharing":
        return ""
    return "shares by past usage are not supported: weights and priorities divide what is over quota"


_FIELDS: Mapping[str, Callable[[Any], str]] = {
    "queueingStrategy": _strategy,
    "namespaceSelector": _namespaces,
    "flavorFungibility": _fungibility,
    "admissionChecks": lambda value: _CHECKS if value else "",
    "admissionChecksStrategy": lambda value: _CHECKS if value else "",
    "stopPolicy": _stop,
    "admissionScope": _scope,
    "concurrentAdmissionPolicy": lambda value: "one try at a time: pods do not move to better nodes" if value else "",
}


def _preemption(value: Any) -> Notes:
    """Where Kueue would evict less, or more, than kai-sched."""
    value = value if isinstance(value, dict) else {}
    protect = "protect what runs by reclaimMinRuntime and preemptMinRuntime, or by classes that are not preemptible"
    notes: Notes = []
    within = value.get("withinClusterQueue") or "Never"
    cohort = value.get("reclaimWithinCohort") or "Never"
    if cohort != "Any":
        text = f"{cohort}: a queue takes its quota back from every queue that is over its own"
        notes.append(("spec.preemption.reclaimWithinCohort", f"{text}: {protect}"))
    if within != "LowerPriority":
        text = f"{within}: a workload preempts those of its queue that have a lower priority"
        notes.append(("spec.preemption.withinClusterQueue", f"{text}: {protect}"))
    borrow = value.get("borrowWithinCohort")
    if isinstance(borrow, dict) and borrow.get("policy") not in (None, "Never"):
        text = "over its quota a queue takes from others by fair shares, not by priority: use weights"
        notes.append(("spec.preemption.borrowWithinCohort", text))
    return notes


def fields_of_flavor(spec: Mapping[str, Any]) -> Notes:
    """What a ResourceFlavor does to pods."""
    notes: Notes = []
    if labels := spec.get("nodeLabels"):
        chosen = (
            some_of([f"{key}={value}" for key, value in sorted(labels.items())]) if isinstance(labels, dict) else ""
        )
        notes.append(("spec.nodeLabels", f"pods do not get them: give them the nodeSelector {chosen} where it matters"))
    if spec.get("tolerations"):
        notes.append(("spec.tolerations", "pods do not get them: write them into the workloads"))
    if spec.get("topologyName"):
        notes.append(("spec.topologyName", "topology is not supported yet: such workloads are placed without it"))
    if spec.get("resourceWeights"):
        notes.append(("spec.resourceWeights", "each resource is divided by itself: give queues weights"))
    return notes


def fields_of_local_queue(name: str, namespace: str, spec: Mapping[str, Any], known: Mapping[str, str]) -> Notes:
    """Which queue its workloads name. ``known`` has the Queue of each ClusterQueue."""
    above = str(spec.get("clusterQueue") or "")
    if above not in known:
        return [("spec.clusterQueue", f"there is no ClusterQueue {above!r} in the input: name the file that has it")]
    text = f"workloads of namespace {namespace} with kueue.x-k8s.io/queue-name: {name}"
    notes = [("spec.clusterQueue", f"{text}: label them kai.scheduler/queue: {known[above]}")]
    if spec.get("fairSharing"):
        notes.append(
            ("spec.fairSharing", "namespaces of a queue have no shares: make a Queue for each below its parent")
        )
    if stopped := _stop(spec.get("stopPolicy")):
        notes.append(("spec.stopPolicy", stopped))
    if spec.get("wallTimePolicy"):
        notes.append(("spec.wallTimePolicy", "hours are not counted: give workloads a deadline"))
    return notes


# Other kinds, each with what to do.
KINDS: Mapping[str, str] = {
    "AdmissionCheck": _CHECKS,
    "MultiKueueCluster": "one scheduler serves one cluster: install it in each",
    "MultiKueueConfig": "one scheduler serves one cluster: install it in each",
    "ProvisioningRequestConfig": "autoscalers see pending pods, of parts of GPUs as well (docs/gpu-sharing.md)",
    "Topology": "topology is not supported yet: such workloads are placed without it",
    "Workload": "PodGroups take their place, and are made of the workloads: nothing to do",
}


def priority_class(manifest: Mapping[str, Any]) -> str:
    """What becomes of a WorkloadPriorityClass."""
    value = manifest.get("value")
    meta = manifest.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    protects = isinstance(value, int) and value >= PREEMPTIBLE_BELOW
    end = f"{value} would not be preemptible: choose one below {PREEMPTIBLE_BELOW}" if protects else f"{value} will do"
    return f"make a PriorityClass {name}, and name it by the label priorityClassName of workloads; of its value, {end}"


# Classes from this value on are not preemptible (API 3.2).
PREEMPTIBLE_BELOW = 100
