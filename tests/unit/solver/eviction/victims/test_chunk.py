"""Which pods of a job would go first, against a recursive twin."""

from __future__ import annotations

from hypothesis import given

from kai_sched.snapshot.tables import Sets
from kai_sched.solver.eviction.allocation import make_search
from kai_sched.solver.eviction.victims import chunk as victim_chunk
from kai_sched.solver.jit import entry
from tests.unit.solver.searches import ACTIVE
from tests.unit.solver.tables import Member, assemble, members, opened
from tests.unit.solver.twins import pod_sets, twin_chunk

next_victim_chunk = entry(victim_chunk.victim_chunk)


@given(members())
def test_chunks_are_those_of_the_recursive_twin(root: Member) -> None:
    """Taken one after the other until nothing is left, as the accumulation does."""
    books = opened(assemble([root]))
    snapshot, search = books.snapshot, make_search(books.snapshot)
    sets: Sets = snapshot.sets
    search.sets.left[:], search.sets.tail[:] = books.state.sets.active, sets.task_ptr[1:]
    tasks: dict[int, list[int]] = {}
    base = 0
    for pod_set in pod_sets(root):
        statuses = pod_set.statuses or []
        tasks[id(pod_set)] = [base + t for t, status in enumerate(statuses) if status in ACTIVE]
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
