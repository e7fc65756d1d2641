"""Jobs like one that failed (semantics 3.8), against requests that are sorted from scratch."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Snapshot, Status
from kai_sched.solver.eviction import similar_jobs
from kai_sched.solver.eviction.allocation import make_search
from kai_sched.solver.jit import entry
from kai_sched.solver.state import Context
from tests.oracle import chunk as twin
from tests.unit.solver.searches import rows_of
from tests.unit.solver.tables import ALL_ON, Member, assemble, opened
from tests.unit.solver.twins import twin_of

is_easier = entry(similar_jobs.is_easier)
remember_failure = entry(similar_jobs.remember_failure)
sort_requests = entry(similar_jobs.sort_requests)

# Classes that can be sorted: each asks for at least as much of everything as the one before it, or for the same.
STEPS = [[0.0, 1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0, 0.0], [2.0, 1.0, 2.0, 1.0, 0.0]]
JOBS = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.integers(0, 3), min_size=1, max_size=3)), min_size=1, max_size=6
)


def asked(ctx: Context, j: int) -> list[list[float]]:
    """What each pod asks for, the least first."""
    if ctx.settings.minimal:
        tasks = [int(task.pod.name) for task in twin.next_chunk(twin_of(ctx, j))]
    else:
        tasks = [t for t in rows_of(ctx.snapshot, j) if ctx.state.task.status[t] == Status.PENDING]
    return sorted(ctx.snapshot.classes.request[ctx.snapshot.tasks.cls[t]].tolist() for t in tasks)


def twin_is_easier(mine: list[list[float]], theirs: list[list[float]]) -> bool:
    if not mine or not theirs:
        return False
    return len(mine) < len(theirs) or any(a < b for a, b in zip(mine, theirs, strict=False))


def jobs_of(facts: list[tuple[int, list[int]]], alike: bool) -> Snapshot:
    """Jobs with (minimum, the class of each pod); all alike, or those of odd and of even rows."""
    cls = [c for _, classes in facts for c in classes]
    groups = [0 if alike else j % 2 for j in range(len(facts))]
    roots = [Member(minimum, [Status.PENDING] * len(classes)) for minimum, classes in facts]
    return assemble(
        roots, request=STEPS, tasks={"cls": cls}, jobs={"equivalence": [0] * len(facts), "queue_equivalence": groups}
    )


@given(JOBS, st.booleans(), st.booleans())
def test_the_easiest_failed_job_is_remembered(
    facts: list[tuple[int, list[int]]], everywhere: bool, alike: bool
) -> None:
    """All jobs fail, one after the other; in reclaim and preempt those of each kin stand for themselves."""
    ctx = opened(jobs_of(facts, alike), ALL_ON._replace(minimal=0))
    search = make_search(ctx.snapshot)
    remembered: dict[int, int] = {}
    for j in range(len(facts)):
        row = 0 if everywhere else int(ctx.snapshot.jobs.queue_equivalence[j])
        mine = asked(ctx, j)
        expected = row not in remembered or twin_is_easier(mine, asked(ctx, remembered[row]))
        assert is_easier(j, everywhere, ctx, search) == expected
        remember_failure(j, everywhere, ctx, search)
        if row in remembered:
            theirs = asked(ctx, remembered[row])
            if len(mine) > len(theirs) or any(a > b for a, b in zip(mine, theirs, strict=False)):
                continue
        remembered[row] = j
    assert search.failed.tolist() == [remembered.get(row, NULL) for row in range(len(facts))]


AMOUNTS = st.tuples(*(st.sampled_from([0.0, 1.0, 2.0]) for _ in range(2)), st.sampled_from([0.0, 0.25, 0.5]))


@given(
    st.lists(st.tuples(AMOUNTS, st.integers(1, 3)), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 7), st.integers(1, 3)), min_size=1, max_size=8),
    st.booleans(),
)
def test_a_job_is_skipped_only_behind_one_that_asks_for_no_more(
    kinds: list[tuple[tuple[float, float, float], int]], facts: list[tuple[int, int]], everywhere: bool
) -> None:
    """Jobs of some pods of one class each, which are searched for if they are not skipped, and fail.

    Classes differ in CPU, memory, and in the part and the number of the devices that they share: each of them counts.
    """
    request = [[cpu, memory, part * devices, 1.0, 0.0] for (cpu, memory, part), devices in kinds]
    facts = [(c % len(kinds), pods) for c, pods in facts]
    snapshot = assemble(
        [Member(pods, [Status.PENDING] * pods) for _, pods in facts],
        request=request,
        tasks={"cls": [c for c, pods in facts for _ in range(pods)]},
        jobs={"equivalence": [0] * len(facts), "queue_equivalence": [0] * len(facts)},
    )
    parts = {"portion": [part for (_, _, part), _ in kinds], "shares": [(k[2] > 0) * devices for k, devices in kinds]}
    typed = {"portion": np.array(parts["portion"]), "shares": np.array(parts["shares"], np.int32)}
    snapshot = snapshot._replace(classes=snapshot.classes._replace(**typed))
    ctx = opened(snapshot, ALL_ON._replace(minimal=1))
    search = make_search(ctx.snapshot)
    tried: list[int] = []
    for j, (c, pods) in enumerate(facts):
        (cpu, memory, part), devices = kinds[c]
        skipped = False
        for other in tried:
            (its_cpu, its_memory, its_part), its_devices = kinds[facts[other][0]]
            less = its_cpu <= cpu and its_memory <= memory and its_part <= part
            fewer = its_devices <= devices or its_part == 0.0
            skipped = skipped or (less and fewer and facts[other][1] <= pods)
        assert is_easier(j, everywhere, ctx, search) == (not skipped)
        if not skipped:
            remember_failure(j, everywhere, ctx, search)
            tried.append(j)
    assert ctx.log.size.tolist() == [0, 0]


def test_fewer_or_smaller_pods_are_easier() -> None:
    """Of a gang of two that failed nothing follows for one pod, or for two of which one asks for less."""
    ctx = opened(jobs_of([(2, [1, 3]), (1, [3]), (2, [0, 3]), (2, [3, 1]), (2, [3, 3]), (0, [])], True), ALL_ON)
    search = make_search(ctx.snapshot)
    remember_failure(0, False, ctx, search)
    assert [bool(is_easier(j, False, ctx, search)) for j in range(1, 6)] == [True, True, False, False, False]


@given(
    st.lists(st.tuples(*[st.sampled_from([0.0, 1.0, 2.0])] * 3), min_size=1, max_size=6),
    st.lists(st.integers(0, 5), min_size=1, max_size=8),
    st.sampled_from([0, 1]),
)
def test_requests_are_sorted_by_the_first_resource_that_differs(
    amounts: list[tuple[float, float, float]], drawn: list[int], minimal: int
) -> None:
    request = [[*each, 1.0, 0.0] for each in amounts]
    cls = [c % len(amounts) for c in drawn]
    snapshot = assemble([Member(len(cls), [Status.PENDING] * len(cls))], request=request, tasks={"cls": cls})
    ctx = opened(snapshot, ALL_ON._replace(minimal=minimal))
    search = make_search(snapshot)
    assert sort_requests(0, ctx, search, search.chunk) == len(cls)
    assert [request[c] for c in search.chunk[: len(cls)]] == sorted(request[c] for c in cls)
    assert sorted(search.chunk[: len(cls)].tolist()) == sorted(cls)
