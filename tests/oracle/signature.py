"""Scheduling signatures (semantics 3.8): what makes a job hopeless once one like it has failed."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.oracle.chunk import task_order
from tests.oracle.world import ACTIVE, Job, PodSet, Task

Signature = tuple[object, ...]
Request = dict[str, float]


def signature(job: Job) -> Signature:
    """Equal for jobs that placement treats alike, amounts apart."""
    return (job.priority, *sorted(repr(_of_pod_set(pod_set)) for pod_set in job.pod_sets.values()))


def _of_pod_set(pod_set: PodSet) -> Signature:
    waiting = [task for task in pod_set.tasks if task.start not in ACTIVE]
    return tuple(sorted(repr(_of_task(task)) for task in waiting))


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
    )


@dataclass
class Memory:
    """The jobs that failed in one action, the easiest of each signature; ``by_queue``: of each queue for itself."""

    on: bool
    by_queue: bool
    failed: dict[tuple[str, Signature], Job] = field(default_factory=dict)

    def hopeless(self, job: Job) -> bool:
        known = self.failed.get(self._place(job))
        return self.on and known is not None and not easier(requests(job), requests(known))

    def note(self, job: Job) -> None:
        place, mine = self._place(job), requests(job)
        known = self.failed.get(place)
        theirs = requests(known) if known else []
        if known is None or (len(mine) <= len(theirs) and all(below(a, b) for a, b in zip(mine, theirs, strict=False))):
            self.failed[place] = job

    def _place(self, job: Job) -> tuple[str, Signature]:
        return (job.queue if self.by_queue else "", signature(job))


def requests(job: Job) -> list[Request]:
    """What the pending pods ask for, in their order but for those that ask for less than the ones before them."""
    found: list[Request] = []
    for task in [task for task in tasks_of(job) if task.status == "Pending"]:
        request, at = dict(task.pod.shape.request), len(found)
        while at > 0 and found[at - 1] != request and below(request, found[at - 1]):
            at -= 1
        found.insert(at, request)
    return found


def tasks_of(job: Job) -> list[Task]:
    return [task for pod_set in job.pod_sets.values() for task in task_order(pod_set.tasks)]


def below(a: Request, b: Request) -> bool:
    return all(amount <= b.get(name, 0.0) for name, amount in a.items())


def easier(mine: list[Request], known: list[Request]) -> bool:
    """Whether there is hope for a job although one of its signature failed."""
    if not mine or not known:
        return False
    if len(known) > len(mine):
        return True
    return any(below(a, b) and not below(b, a) for a, b in zip(mine, known, strict=False))
