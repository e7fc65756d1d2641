"""The grouping rule for JobSet: a sub-group for each job, below one for its replicated job (API 4.10)."""

from __future__ import annotations

from kai_sched.api import names
from kai_sched.api.podgroup import SUB_GROUPS_MAX
from kai_sched.model.objects import SubGroup
from kai_sched.reconcile.grouping.draft import (
    Draft,
    GroupingCase,
    SharedSubGroups,
    group_name,
    number_in,
    usable_name,
)
from kai_sched.reconcile.grouping.fields import COUNT_MAX, Fields
from kai_sched.reconcile.grouping.manifest import topology_in
from kai_sched.reconcile.grouping.owners import Owner

MINIMUM = names.BATCH_MIN_MEMBER_ANNOTATION


def job_set(case: GroupingCase) -> Draft:
    """One group for all jobs that start together; with ``startupPolicyOrder``, one replicated job is enough to begin.

    Replicated jobs that depend on others start later: those that depend on the same ones are a group of their own.
    """
    owner = case.whole(case.owner)
    spec = owner.fields.at("spec")
    jobs = spec.entries("replicatedJobs")
    if not jobs:
        raise spec.error("replicatedJobs", "empty: give the JobSet at least one")
    in_order = spec.at("startupPolicy").text("startupPolicyOrder") == "InOrder"
    minimum = number_in(owner, owner.annotations, MINIMUM, "metadata.annotations", 1)
    name = _label(case, names.REPLICATED_JOB_LABEL)
    if _has_old_shape(case, jobs):
        old = f"{group_name(owner)}-{name}" if in_order else ""
        return Draft(case.owner, name=old, min_member=1 if minimum is None else minimum)
    together = started_with(jobs, name)
    shared = _shared(owner, together)
    place = f"{name}-replica-{_label(case, names.JOB_INDEX_LABEL)}"
    if (name, place) not in shared.places:
        field = f"metadata.labels[{names.JOB_INDEX_LABEL}]"
        raise case.pod.error(field, f"{owner.subject} has no job {place!r}: correct its replicatedJobs, or the labels")
    started = len(together) if minimum is None else min(minimum, len(together))
    if minimum is None and in_order:
        started = 1
    group = f"{group_name(owner)}-{together[0].text('name')}" if dependencies(together[0]) else ""
    parts = shared.sub_groups
    return Draft(case.owner, name=group, min_sub_group=started, sub_groups=parts, shared=shared, sub_group=place)


def dependencies(job: Fields) -> dict[str, str]:
    """The replicated jobs that this one waits for, with the state that each has to reach. Raises GroupingError."""
    return {each.text("name"): each.text("status") for each in job.entries("dependsOn")}


def started_with(jobs: list[Fields], name: str) -> list[Fields]:
    """The replicated jobs that start together with that one, which wait for the same; without it, all."""
    wanted = next((dependencies(job) for job in jobs if job.text("name") == name), None)
    return jobs if wanted is None else [job for job in jobs if dependencies(job) == wanted]


def _shared(owner: Owner, together: list[Fields]) -> SharedSubGroups:
    """The sub-groups of these replicated jobs, which start together. Each of their pods needs them."""
    key = "jobset", tuple(job.text("name") for job in together)
    found: SharedSubGroups | None = owner.derived.get(key)
    if found is not None:
        return found
    statuses = owner.fields.at("status").entries("replicatedJobsStatus")
    done = {each.text("name"): each.count("succeeded") or 0 for each in statuses}
    parts: list[SubGroup] = []
    for job in together:
        parts += _sub_groups(owner, job, done.get(job.text("name"), 0))
        if len(parts) > SUB_GROUPS_MAX:
            message = f"more than {SUB_GROUPS_MAX:,} jobs in total: use fewer jobs with more pods each"
            raise job.error("replicas", message)
    found = owner.derived[key] = SharedSubGroups(tuple(parts))
    return found


def _sub_groups(owner: Owner, job: Fields, done: int) -> list[SubGroup]:
    """The sub-groups of a replicated job. If all its jobs are ``done``, none is needed: their pods may be gone."""
    name = usable_name(job, "name", job.text("name"))
    replicas = job.count("replicas")
    replicas = 1 if replicas is None else replicas
    if replicas > SUB_GROUPS_MAX:
        raise job.error("replicas", f"{replicas:,} jobs, and {SUB_GROUPS_MAX:,} are the most: give their pods to fewer")
    if not replicas:
        return [SubGroup(name, min_member=0)]
    template = job.at("template")
    annotations = template.at("metadata").texts("annotations")
    place = template.path("metadata.annotations")
    size = number_in(owner, annotations, MINIMUM, place, 1)
    if size is None:
        size = template.at("spec").count("parallelism")
    completions = template.at("spec").count("completions")
    size = min(1 if size is None else size, COUNT_MAX if completions is None else completions)
    topology = topology_in(annotations)
    if topology is not None and not topology.required_level and not topology.preferred_level:
        topology = None
    found = [SubGroup(name, min_sub_group=0 if done >= replicas else replicas)]
    for i in range(replicas):
        leaf = usable_name(job, "name", f"{name}-replica-{i}")
        found.append(SubGroup(leaf, parent=name, min_member=size, topology=topology))
    return found


def _label(case: GroupingCase, key: str) -> str:
    value = case.pod.labels.get(key)
    if not value:
        raise case.pod.error(f"metadata.labels[{key}]", "missing: let the pod be made by the JobSet's own controller")
    return value


def _has_old_shape(case: GroupingCase, jobs: list[Fields]) -> bool:
    """Whether an older version without sub-groups has created the groups of this JobSet."""
    name = group_name(case.owner)
    candidates = [name, *(f"{name}-{job.text('name')}" for job in jobs)]
    groups = (case.view.group(case.pod.namespace, each) for each in candidates)
    return any(group is not None and not group.sub_groups for group in groups)
