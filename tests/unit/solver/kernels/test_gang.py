"""Gangs (semantics 0.4, 1.3, 3.2): what a job asks for next, whether it can be started, where it stands."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.tables import Snapshot, Status
from kai_sched.solver.jit import entry
from kai_sched.solver.kernels import gang, place
from kai_sched.solver.kernels.gang import ABOVE_MINIMUM, AT_MINIMUM, BELOW_MINIMUM
from kai_sched.solver.state import Context, Survey
from tests.afresh import afresh
from tests.oracle import chunk as twin
from tests.oracle.world import USED, GroupSet, PodSet
from tests.unit.solver.tables import Member, assemble, opened, snapshots
from tests.unit.solver.twins import twin_of

goes_before = entry(gang.goes_before)
next_chunk = entry(gang.next_chunk)
stage_of = entry(gang.stage_of)
place_task = entry(place.place)

(stale,) = afresh("solver.stages.stale")
P, R, G = Status.PENDING, Status.RUNNING, Status.GATED


def chunk_of(books: Context, j: int) -> list[int]:
    """What the kernel asks for next."""
    length = next_chunk(j, books)
    books.log.size[:] = 0
    return books.scratch.chunk[:length].tolist()


def set_off(books: Context, tasks: list[int]) -> None:
    """Place the tasks, on any node."""
    for t in tasks:
        place_task(t, 0, False, books)
    books.log.size[:] = 0


@given(snapshots(tied=False, most_nodes=1))
def test_chunks_are_those_of_the_recursive_twin(snapshot: Snapshot) -> None:
    """One after the other, each placed before the next is asked for, until the job has had all it can."""
    books = opened(snapshot)
    for j in range(snapshot.jobs.queue.size):
        while True:
            expected = [int(task.pod.name) for task in twin.next_chunk(twin_of(books, j))]
            assert chunk_of(books, j) == expected
            assert chunk_of(books, j) == expected, "asking changes nothing"
            if not expected:
                break
            set_off(books, expected)


def has_enough(member: GroupSet | PodSet) -> bool:
    """Whether what is there of the set, pods that are leaving included, is what it needs."""
    if isinstance(member, PodSet):
        return sum(task.status in USED for task in member.tasks) >= member.minimum
    return sum(map(has_enough, member.members)) >= member.minimum


@given(snapshots(tied=False, most_nodes=1))
def test_a_job_is_whole_with_its_chunk(snapshot: Snapshot) -> None:
    """A chunk is all that a job lacks: no search that finds places for it leaves a gang torn (4.5)."""
    books = opened(snapshot)
    for j in range(snapshot.jobs.queue.size):
        assert stale.is_whole(j, books) == has_enough(twin_of(books, j).root)
        chunk = chunk_of(books, j)
        set_off(books, chunk)
        assert not chunk or stale.is_whole(j, books)


@given(snapshots(tied=False, most_nodes=1))
def test_readiness_is_that_of_the_recursive_twin(snapshot: Snapshot) -> None:
    """A job is ready when enough of it is alive and not gated, on every level (0.4)."""
    books = opened(snapshot)
    for j in range(snapshot.jobs.queue.size):
        root = int(snapshot.jobs.set_ptr[j])
        chunk_of(books, j)
        found = books.scratch.survey
        ready = found.met[root] >= snapshot.sets.minimum[root] or found.able[root] == 1
        assert ready == twin.reachable(twin_of(books, j).root)


@given(snapshots(tied=False, most_nodes=1))
def test_stages_are_those_of_the_twin(snapshot: Snapshot) -> None:
    """Below the minimum somewhere, else above it somewhere, else at it."""
    books = opened(snapshot)
    set_ptr = snapshot.jobs.set_ptr
    for j in range(snapshot.jobs.queue.size):
        stage = stage_of(set_ptr[j], set_ptr[j + 1], snapshot.sets, books.state.sets)
        assert stage == twin.job_key(twin_of(books, j))[1]


@pytest.mark.parametrize(
    ("statuses", "minimum", "stage"),
    [
        ([P, P], 2, BELOW_MINIMUM),
        ([R, P], 2, BELOW_MINIMUM),
        ([R, R], 2, AT_MINIMUM),
        ([R, R, P], 1, ABOVE_MINIMUM),
        ([P], 0, AT_MINIMUM),
        ([R, Status.RELEASING], 2, BELOW_MINIMUM),
    ],
)
def test_stage_of_one_pod_set(statuses: list[Status], minimum: int, stage: int) -> None:
    books = opened(assemble([Member(minimum, statuses)]))
    assert stage_of(0, 1, books.snapshot.sets, books.state.sets) == stage


@pytest.mark.parametrize(
    ("root", "chunks"),
    [
        # a fresh gang is one chunk; after that one pod at a time
        (Member(2, [P, P, P, P]), [[0, 1], [2], [3]]),
        # a running gang that lost a pod asks for the missing number
        (Member(3, [R, P, R, P]), [[1], [3]]),
        # too few pods for the minimum: nothing
        (Member(3, [P, P, G]), []),
        # no gang: one at a time
        (Member(0, [P, P]), [[0], [1]]),
        # two of three members, in member order; then the third at its own minimum
        (Member(2, members=[Member(1, [P]), Member(2, [P, P]), Member(1, [P])]), [[0, 1, 2], [3]]),
        # one of two is running: only one more is asked for, not both that are not satisfied (16)
        (Member(2, members=[Member(1, [R]), Member(1, [P]), Member(1, [P])]), [[1], [2]]),
        # a member without pods takes up no place (16)
        (Member(1, members=[Member(1, []), Member(1, [P])]), [[0]]),
        # more members wanted than there are: nothing ever
        (Member(3, members=[Member(1, [P]), Member(1, [P])]), []),
        # nested: an inner set at its own minimum; the other one, being unsatisfied, goes before the first has more
        (
            Member(
                1, members=[Member(1, members=[Member(2, [P, P]), Member(1, [P])]), Member(1, members=[Member(1, [P])])]
            ),
            [[0, 1], [3], [2]],
        ),
    ],
)
def test_worked_chunks(root: Member, chunks: list[list[int]]) -> None:
    """Task rows are counted over the pod sets in breadth-first order, so inner pod sets come after outer ones."""
    books = opened(assemble([root]))
    found = []
    while chunk := chunk_of(books, 0):
        found.append(chunk)
        set_off(books, chunk)
    assert found == chunks


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=3, max_size=3))
def test_member_order_is_strict_and_total(members: list[tuple[int, int]]) -> None:
    """(satisfied or placed, minimum) of three members, in any combination."""
    survey_of = Survey(np.array([count for count, _ in members], np.int32), np.ones(len(members), np.int32))
    minimum = np.array([least for _, least in members], np.int32)
    before = [[bool(goes_before(a, b, minimum, survey_of)) for b in range(3)] for a in range(3)]
    for a in range(3):
        assert not before[a][a]
        for b in range(3):
            assert a == b or before[a][b] != before[b][a]
            for c in range(3):
                assert before[a][c] or not (before[a][b] and before[b][c])
