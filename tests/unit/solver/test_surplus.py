"""Which pods of a job would go first, against a recursive twin."""

from __future__ import annotations

from hypothesis import given

from kai_sched.snapshot.tables import Sets, Status
from kai_sched.solver.eviction import victim_chunk
from kai_sched.solver.eviction.tables import make_search
from kai_sched.solver.jit import entry
from tests.unit.solver.tables import Member, assemble, members, opened

next_victim_chunk = entry(victim_chunk.victim_chunk)

ACTIVE_STATUSES = range(Status.PIPELINED, Status.RELEASING)


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


@given(members())
def test_chunks_are_those_of_the_recursive_twin(root: Member) -> None:
    """Taken one after the other until nothing is left, as the accumulation does."""
    books = opened(assemble([root]))
    snapshot, search = books.snapshot, make_search(books.snapshot)
    sets: Sets = snapshot.sets
    search.sets.left[:] = books.state.sets.active
    tasks: dict[int, list[int]] = {}
    base = 0
    for pod_set in pod_sets(root):
        statuses = pod_set.statuses or []
        tasks[id(pod_set)] = [base + t for t, status in enumerate(statuses) if status in ACTIVE_STATUSES]
        base += len(statuses)
    while any(tasks.values()):
        expected = twin_chunk(root, tasks)
        length, _ = next_victim_chunk(0, sets.parent.size, books, search, search.chunk)
        found = search.chunk[:length].tolist()
        assert sorted(found) == sorted(expected)
        for t in found:
            search.tasks.taken[t] = 1
            search.sets.left[snapshot.tasks.set[t]] -= 1
        tasks = {key: [t for t in left if t not in found] for key, left in tasks.items()}
