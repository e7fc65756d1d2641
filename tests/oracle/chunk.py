"""What a job asks for next (semantics 3.2), when it is complete (0.4), how members, tasks and jobs are ordered (1.3).

Two things are as this project fixes them (semantics 16): only the members that are still missing are taken, and a
member that cannot reach its minimum takes no place and gives nothing.
"""

from __future__ import annotations

from functools import cmp_to_key

from tests.oracle.world import GroupSet, Job, PodSet, Task

HEAD_LABELS = (("training.kubeflow.org/job-role", ("master", "launcher")), ("ray.io/node-type", ("head",)))
TASK_PRIORITY = "kai.scheduler/task-priority"


def next_chunk(job: Job) -> list[Task]:
    return _next(job.root) if job.chunk is None else [task for task in job.chunk if task.status == "Pending"]


def _next(group_set: GroupSet) -> list[Task]:
    members = [member for member in member_order(group_set.members) if reachable(member)]
    if satisfied(group_set):
        for member in members:
            found = _next(member) if isinstance(member, GroupSet) else _more(member)
            if found:
                return found
        return []
    missing = group_set.minimum - sum(map(satisfied, group_set.members))
    wanted = [member for member in members if not satisfied(member)]
    if len(wanted) < missing:
        return []
    return [
        task
        for member in wanted[:missing]
        for task in (_next(member) if isinstance(member, GroupSet) else _more(member))
    ]


def _more(pod_set: PodSet) -> list[Task]:
    """One more task of a pod set that has its minimum, else the ones it lacks."""
    count = 1 if satisfied(pod_set) else pod_set.minimum - pod_set.active
    return task_order(pod_set.pending)[:count]


def satisfied(member: GroupSet | PodSet) -> bool:
    return held(member) >= member.minimum


def held(member: GroupSet | PodSet) -> int:
    """What counts towards the minimum: active pods, or satisfied members."""
    return member.active if isinstance(member, PodSet) else sum(map(satisfied, member.members))


def reachable(member: GroupSet | PodSet) -> bool:
    """Whether the minimum can be had with the pods that are active or pending."""
    if isinstance(member, PodSet):
        return member.active + len(member.pending) >= member.minimum
    return sum(map(reachable, member.members)) >= member.minimum


def member_order(members: list[GroupSet | PodSet]) -> list[GroupSet | PodSet]:
    """Those below their minimum, then optional last among the rest, by how far above; names decide."""

    def key(member: GroupSet | PodSet) -> tuple[float, ...]:
        count, minimum = held(member), member.minimum
        if count < minimum:
            return (0.0,)
        return (1.0, count / minimum) if minimum > 0 else (2.0, float(count))

    return sorted(members, key=lambda member: (key(member), member.name))


def task_order(tasks: list[Task]) -> list[Task]:
    return sorted(tasks, key=cmp_to_key(_compare_tasks))


def _compare_tasks(left: Task, right: Task) -> int:
    for label, firsts in HEAD_LABELS:
        heads = (left.pod.labels.get(label) in firsts, right.pod.labels.get(label) in firsts)
        if heads[0] != heads[1]:
            return -1 if heads[0] else 1
    a, b = left.pod.labels.get(TASK_PRIORITY), right.pod.labels.get(TASK_PRIORITY)
    if (a is None) != (b is None):
        return 1 if a is None else -1
    if a is not None and b is not None:
        first, second = _integer(a), _integer(b)
        # Of two that are no numbers the original puts whichever it holds in its left hand last: a tie here.
        if (first is None) != (second is None):
            return 1 if first is None else -1
        if first is not None and second is not None and first != second:
            return -1 if first > second else 1
    return -1 if left.age < right.age else 1


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def job_key(job: Job) -> tuple[object, ...]:
    """Higher priority, then jobs below their minimum, at it, above it; then the older."""
    below = any(pod_set.active < pod_set.minimum for pod_set in job.pod_sets.values())
    above = any(pod_set.active > pod_set.minimum for pod_set in job.pod_sets.values())
    return (-job.priority, 0 if below else 2 if above else 1, job.age)
