"""The grouping rules for TFJob, PyTorchJob, XGBoostJob, JAXJob and MPIJob: roles, minimums and segments (API 4.4 to
4.6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kai_sched.api import names
from kai_sched.model.objects import Phase, SubGroup
from kai_sched.reconcile.grouping.draft import Draft, GroupingCase, Rule, number_in
from kai_sched.reconcile.grouping.fields import Fields, whole_number
from kai_sched.reconcile.grouping.owners import Owner
from kai_sched.reconcile.grouping.segments import check_segments, topology_of_segments
from kai_sched.reconcile.grouping.workload_errors import GroupingError

# Where each kind keeps its replicas, and which roles it cannot do without.
REPLICA_SPECS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "TFJob": ("tfReplicaSpecs", ()),
    "PyTorchJob": ("pytorchReplicaSpecs", ()),
    "XGBoostJob": ("xgbReplicaSpecs", ("Master", "Worker")),
    "JAXJob": ("jaxReplicaSpecs", ("Worker",)),
    "MPIJob": ("mpiReplicaSpecs", ("Launcher", "Worker")),
}
MASTER, WORKER = "master", "worker"
_SEGMENT_SIZE = f"annotations[{names.SEGMENT_SIZE_ANNOTATION}]"
_FINISHED = frozenset({Phase.SUCCEEDED, Phase.FAILED})


def training_job(kind: str) -> Rule:
    """All replicas of all roles start together, unless the job names a smaller minimum."""

    def group(case: GroupingCase) -> Draft:
        return Draft(case.owner, min_member=_size(case.whole(case.owner).fields.at("spec"), kind))

    return group


def mpi_job(case: GroupingCase) -> Draft:
    """As the others, but a launcher that waits for its workers does not count until it exists."""
    spec = case.whole(case.owner).fields.at("spec")
    size = _size(spec, "MPIJob")
    if spec.text("launcherCreationPolicy") == "WaitForWorkersReady" and not _has_launcher(case):
        size -= _replicas(_roles(spec, "MPIJob"), "Launcher")
    return Draft(case.owner, min_member=max(0, size))


def _has_launcher(case: GroupingCase) -> bool:
    pods = case.view.pods(case.pod.namespace, names.JOB_NAME_LABEL, case.owner.name)
    return any(
        pod.labels.get(names.JOB_ROLE_LABEL) == "launcher" and pod.phase not in _FINISHED and not pod.deleted_ns
        for pod in pods
    )


def pytorch_job(case: GroupingCase) -> Draft:
    """Master and workers are sub-groups; the workers may be cut into segments. Elastic jobs start with the minimum."""
    owner = case.whole(case.owner)
    spec = owner.fields.at("spec")
    size = _size(spec, "PyTorchJob")
    if not _has_minimum(spec):
        least = spec.at("elasticPolicy").count("minReplicas")
        size = size if least is None else least
    roles = _roles(spec, "PyTorchJob")
    masters = roles.at("Master").count("replicas") or 0
    sub_groups = [SubGroup(MASTER, min_member=masters)] if masters else []
    draft = Draft(case.owner, min_member=size)
    role = case.pod.labels.get(names.REPLICA_TYPE_LABEL, "").lower()
    if not roles.has("Worker"):
        return replace(draft, sub_groups=tuple(sub_groups), sub_group=_one_of(case, role, sub_groups))
    workers = SubGroup(WORKER, min_member=max(0, size - masters))
    segments, index = _segments(case, owner, roles, workers.min_member or 0)
    if not segments:
        sub_groups.append(workers)
        return replace(draft, sub_groups=tuple(sub_groups), sub_group=_one_of(case, role, sub_groups))
    sub_groups += segments
    place = f"{WORKER}-{index}" if role == WORKER else _one_of(case, role, sub_groups)
    return replace(draft, sub_groups=tuple(sub_groups), sub_group=place)


def _one_of(case: GroupingCase, role: str, there: list[SubGroup]) -> str:
    if any(each.name == role for each in there):
        return role
    field = f"metadata.labels[{names.REPLICA_TYPE_LABEL}]"
    known = " or ".join(each.name for each in there if not each.parent)
    case.note(case.pod.subject, field, f"{role!r} is not {known}, so the pod stays out: correct it")
    return ""


def _segments(case: GroupingCase, owner: Owner, roles: Fields, least: int) -> tuple[list[SubGroup], int]:
    """The segments of the workers below their parent, and the index of that of the pod; none without segments."""
    worker = roles.at("Worker")
    metadata = worker.at("template", "metadata")
    template = metadata.texts("annotations")
    key = names.SEGMENT_SIZE_ANNOTATION
    size = number_in(case.pod, case.pod.annotations, key, "metadata.annotations", 1)
    subject, field = case.pod.subject, f"metadata.{_SEGMENT_SIZE}"
    if size is None:
        size = number_in(owner, template, key, metadata.path("annotations"), 1)
        subject, field = owner.subject, metadata.path(_SEGMENT_SIZE)
    replicas = worker.count("replicas")
    replicas = 1 if replicas is None else replicas
    if size is None or not replicas:
        return [], 0
    count = -(-replicas // size)
    check_segments(count, size, subject, field)
    topology = topology_of_segments(case.pod, template, owner, metadata.path("annotations"))
    found = [SubGroup(WORKER, min_sub_group=count)]
    for i in range(count):
        members = min(size, replicas - i * size) if i * size < least else 0
        found.append(SubGroup(f"{WORKER}-{i}", parent=WORKER, min_member=members, topology=topology))
    return found, _index(case, count * size) // size if _is_worker(case) else 0


def _is_worker(case: GroupingCase) -> bool:
    return case.pod.labels.get(names.REPLICA_TYPE_LABEL, "").lower() == WORKER


def _index(case: GroupingCase, end: int) -> int:
    text = case.pod.labels.get(names.REPLICA_INDEX_LABEL, "")
    value = whole_number(text)
    field = f"metadata.labels[{names.REPLICA_INDEX_LABEL}]"
    if value is None or value < 0:
        raise case.pod.error(field, f"{text!r} is not the number of a replica: its segment cannot be told; correct it")
    if value >= end:
        raise case.pod.error(field, f"{value} is beyond the job's workers: it belongs to no segment; delete the pod")
    return value


def _has_minimum(spec: Fields) -> bool:
    return spec.at("runPolicy", "schedulingPolicy").has("minAvailable")


def _size(spec: Fields, kind: str) -> int:
    """How many pods start together (4.4). Raises GroupingError for roles that are missing or empty (4.5)."""
    if _has_minimum(spec):
        return spec.at("runPolicy", "schedulingPolicy").count("minAvailable") or 0
    roles = _roles(spec, kind)
    for role in REPLICA_SPECS[kind][1]:
        if not roles.has(role):
            raise roles.error(role, "missing: the job cannot run without this role; add it")
    total = sum(_replicas(roles, role) for role, _ in roles.each())
    if not total:
        raise roles.error("", "holds no role: give it one with its replicas")
    return total


def _roles(spec: Fields, kind: str) -> Fields:
    name = REPLICA_SPECS[kind][0]
    if not spec.has(name):
        raise spec.error(name, "missing: give the job its roles, each with its replicas")
    return spec.at(name)


def _replicas(roles: Fields, role: str) -> int:
    part = roles.at(role)
    count = part.count("replicas")
    if not count:
        found: GroupingError = part.error("replicas", "missing or 0: give the number of pods of the role")
        raise found
    return count
