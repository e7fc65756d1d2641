"""Jobs as the oracle knows them, and which of their pods would go first, for the tests of the kernels."""

from __future__ import annotations

from kai_sched.model.objects import Pod, PodGroup, Queue, Shape, Share
from kai_sched.snapshot.tables import Status
from kai_sched.solver.state import Context
from tests.oracle.fair_share import UNLIMITED as UNLIMITED_SHARE
from tests.oracle.world import Account, GroupSet, Job, PodSet, Task
from tests.unit.solver.stands import Stand
from tests.unit.solver.tables import UNLIMITED, Member

NAMES = {status: status.name.title().replace("_", "") for status in Status}


def account_of(q: int, stand: Stand) -> Account:
    """The queue as the oracle knows it: -1 is unlimited, the allocatable share follows from quota and fair share."""
    shares = [Share(UNLIMITED_SHARE if quota == UNLIMITED else quota, UNLIMITED_SHARE, 1.0) for quota in stand.quota]
    queue = Queue(f"{q}", f"{q:03}", cpu=shares[0], memory=shares[1], gpu=shares[2], priority=stand.priority)
    return Account(queue, fair=list(stand.fair))


def twin_of(books: Context, j: int) -> Job:
    """The job as the oracle knows it. Names and ages are row numbers."""
    snapshot, sets, status = books.snapshot, books.snapshot.sets, books.state.task.status
    pod_sets = {}

    def grow(s: int) -> GroupSet | PodSet:
        if sets.child_ptr[s] < sets.child_end[s]:
            below = [grow(member) for member in range(sets.child_ptr[s], sets.child_end[s])]
            return GroupSet(f"{s:03}", int(sets.minimum[s]), below)
        tasks = [
            Task(Pod("ns", str(t), Shape(), f"{t:03}"), NAMES[Status(status[t])], "")
            for t in range(sets.task_ptr[s], sets.task_ptr[s + 1])
        ]
        pod_sets[f"{s:03}"] = PodSet(f"{s:03}", int(sets.minimum[s]), tasks)
        return pod_sets[f"{s:03}"]

    root = grow(int(snapshot.jobs.set_ptr[j]))
    whole = root if isinstance(root, GroupSet) else GroupSet("", None, [root])
    return Job(PodGroup("ns", str(j)), str(j), "q", 0, True, (0, ""), whole, pod_sets)


def twin_chunk(member: Member, tasks: dict[int, list[int]]) -> list[int]:
    """Semantics 4.4, as it is written there; ``tasks`` gives the active tasks of each pod set by identity."""
    return twin_surplus(member, tasks) or twin_all(member, tasks)


def twin_all(member: Member, tasks: dict[int, list[int]]) -> list[int]:
    if member.members is None:
        return list(tasks[id(member)])
    return [task for below in member.members for task in twin_all(below, tasks)]


def twin_count(member: Member, tasks: dict[int, list[int]]) -> int:
    if member.members is None:
        return len(tasks[id(member)])
    return sum(twin_count(below, tasks) >= below.minimum for below in member.members)


def twin_exceeds(member: Member, tasks: dict[int, list[int]]) -> bool:
    if twin_count(member, tasks) > member.minimum:
        return True
    return any(twin_exceeds(below, tasks) for below in member.members or [])


def twin_order(member: Member, tasks: dict[int, list[int]]) -> list[Member]:
    """The members, in inverse member order (1.3)."""

    def key(entry: tuple[int, Member]) -> tuple[int, int, float, int]:
        place, below = entry
        count = twin_count(below, tasks)
        if count < below.minimum:
            return 0, 0, 0.0, place
        return 1, below.minimum == 0, count / max(below.minimum, 1), place

    return [below for _, below in sorted(enumerate(member.members or []), key=key, reverse=True)]


def twin_surplus(member: Member, tasks: dict[int, list[int]]) -> list[int]:
    if member.members is None:
        active = tasks[id(member)]
        return active[-1:] if len(active) > member.minimum else []
    count = twin_count(member, tasks)
    if count == 0:
        return []
    ordered = twin_order(member, tasks)
    if twin_exceeds(member, tasks):
        for below in ordered:
            if found := twin_surplus(below, tasks):
                return found
    if count > member.minimum:
        for below in ordered:
            if found := twin_all(below, tasks):
                return found
    return []


def pod_sets(member: Member) -> list[Member]:
    """The pod sets in the order of their rows: level by level."""
    rows = [member]
    for each in rows:
        rows += each.members or []
    return [each for each in rows if each.members is None]
