"""Scheduling signatures (semantics 3.8): what makes a job hopeless once one like it has failed."""

from __future__ import annotations

from dataclasses import dataclass, field

from kai_sched import Config
from tests.oracle.chunk import next_chunk, task_order
from tests.oracle.devices import kind_of
from tests.oracle.world import ACTIVE, GroupSet, Job, PodSet, Task

Signature = tuple[object, ...]
Request = dict[str, float]
KEPT = 16


def signature(job: Job, minimal: bool) -> Signature:
    """Equal for jobs that placement treats alike, amounts apart."""
    return (
        job.priority,
        job.preemptible or not minimal,
        *sorted(map(repr, _of_pod_sets(job.root, ()))),
        *([job.group.key] if minimal and _is_bound_to_domains(job) else []),
    )


def _of_pod_sets(member: GroupSet | PodSet, above: Signature) -> list[Signature]:
    """Of each pod set the tasks, and the topology constraints of the sets that it is in."""
    constraints = (*above, member.constraint) if member.constraint else above
    if isinstance(member, GroupSet):
        return [found for each in member.members for found in _of_pod_sets(each, constraints)]
    waiting = [task for task in member.tasks if task.start not in ACTIVE]
    return [(constraints, tuple(sorted(repr(_of_task(task)) for task in waiting)))]


def _is_bound_to_domains(job: Job) -> bool:
    """Whether where its pods are decides where others of it may go (10.4)."""

    def requires(member: GroupSet | PodSet) -> bool:
        inner = member.members if isinstance(member, GroupSet) else []
        return bool(member.constraint and member.constraint.required_level) or any(map(requires, inner))

    return any(task.status in ACTIVE for task in job.tasks) and requires(job.root)


def _of_task(task: Task) -> Signature:
    shape = task.pod.shape
    return (
        shape.claims,
        shape.node_selector,
        shape.node_affinity,
        shape.tolerations,
        shape.affinity,
        shape.anti_affinity,
        shape.preferred_affinity,
        shape.host_ports,
        shape.numa,
        kind_of(task.pod),
    )


@dataclass
class Memory:
    """The jobs that failed in one action, the easiest of each signature; ``by_queue``: of each queue for itself.

    With minimal victims jobs are compared by what a search would be for, not by all that waits, and all that failed
    count, the last few.
    """

    config: Config
    by_queue: bool
    failed: dict[tuple[str, Signature], list[Job]] = field(default_factory=dict)

    def hopeless(self, job: Job) -> bool:
        known, mine = self.failed.get(self._place(job), []), self._requests(job)
        return self.config.use_scheduling_signatures and not all(self._easier(mine, self._requests(k)) for k in known)

    def note(self, job: Job) -> None:
        place, mine = self._place(job), self._requests(job)
        known = self.failed.get(place, [])
        harder = [each for each in known if self._as_much(self._requests(each), mine)]
        if self._minimal:
            self.failed[place] = [job, *(each for each in known if each not in harder)][:KEPT]
        elif harder or not known:
            self.failed[place] = [job]

    def _place(self, job: Job) -> tuple[str, Signature]:
        return (job.queue if self.by_queue else "", signature(job, self._minimal))

    @property
    def _minimal(self) -> bool:
        return self.config.victims == "minimal"

    def _requests(self, job: Job) -> list[Request]:
        return requests(next_chunk(job) if self._minimal else pending_of(job), self._minimal)

    def _easier(self, mine: list[Request], known: list[Request]) -> bool:
        if not self._minimal or not mine or not known:
            return easier(mine, known)
        return not self._as_much(mine, known)

    def _as_much(self, theirs: list[Request], mine: list[Request]) -> bool:
        return len(mine) <= len(theirs) and all(below(a, b) for a, b in zip(mine, theirs, strict=False))


def requests(tasks: list[Task], by_device: bool) -> list[Request]:
    """What these ask for, in their order but for those that ask for less than the ones before them.

    ``by_device``: of a share how many devices and how much of each, instead of the sum, once they are in order.
    """
    found: list[tuple[Request, Request]] = []
    for task in tasks:
        share, at = task.pod.shape.share, len(found)
        request = {**dict(task.pod.shape.request), "gpu": task.part}
        while at > 0 and found[at - 1][0] != request and below(request, found[at - 1][0]):
            at -= 1
        parts = {**dict(task.pod.shape.request)}
        if share:
            parts |= {"devices": float(share.devices), "each": share.portion or float(share.memory_mib)}
        found.insert(at, (request, parts if share and by_device else request))
    return [parts for _, parts in found]


def pending_of(job: Job) -> list[Task]:
    tasks = [task for pod_set in job.pod_sets.values() for task in task_order(pod_set.tasks)]
    return [task for task in tasks if task.status == "Pending"]


def below(a: Request, b: Request) -> bool:
    return all(amount <= b.get(name, 0.0) for name, amount in a.items())


def easier(mine: list[Request], known: list[Request]) -> bool:
    """Whether there is hope for a job although one of its signature failed."""
    if not mine or not known:
        return False
    if len(known) > len(mine):
        return True
    return any(below(a, b) and not below(b, a) for a, b in zip(mine, known, strict=False))
