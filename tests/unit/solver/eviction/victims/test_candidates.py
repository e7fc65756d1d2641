"""Who waits and who may have to go, by leaf (semantics 4.1, 4.2), against lists that are sorted from scratch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Snapshot, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.tables import DEAD, JobOrder, Search
from kai_sched.solver.eviction.victims import candidates
from kai_sched.solver.jit import entry
from kai_sched.solver.kernels import attempt
from kai_sched.solver.state import Context
from tests.oracle import chunk as twin
from tests.unit.solver.searches import ACTIVE, REQUESTS, crowded, price, rows_of, searching
from tests.unit.solver.tables import ALL_ON, Member, assemble, node_table, queue_table
from tests.unit.solver.twins import twin_of

reinsert_job = entry(candidates.reinsert_job)
put = entry(attempt.place_on_node)

HOLDING = range(Status.ALLOCATED, Status.RELEASING)


def list_of(q: int, order: JobOrder) -> list[int]:
    base, heap = int(order.heap.base[q]), order.heap
    return [int(j) for j in order.jobs.listed[base + heap.begin[q] : base + heap.end[q]]]


def expected_lists(ctx: Context, search: Search) -> tuple[list[list[int]], list[list[int]]]:
    """By queue, those who wait, the first first, and those who may have to go, the last first."""
    snapshot, status = ctx.snapshot, ctx.state.task.status
    waiting: list[list[int]] = [[] for _ in snapshot.queues.parent]
    victims: list[list[int]] = [[] for _ in snapshot.queues.parent]
    keys = {}
    for j, q in enumerate(snapshot.jobs.queue):
        rows = rows_of(snapshot, j)
        keys[j] = (-int(snapshot.jobs.priority[j]), twin.job_key(twin_of(ctx, j))[1] * ctx.settings.elastic_order, j)
        if any(status[t] == Status.PENDING for t in rows):
            waiting[q].append(j)
        active = [t for t in rows if status[t] in ACTIVE]
        refused = [ctx.finder.refused[snapshot.tasks.cls[t]] == Verdict.NOT_SUPPORTED for t in active]
        keeps_its_place = ctx.settings.minimal and search.jobs.settled[j]
        if snapshot.jobs.preemptible[j] and active and not any(refused) and not keeps_its_place:
            victims[q].append(j)
    in_order = [sorted(jobs, key=lambda j: keys[j]) for jobs in waiting]
    return in_order, [sorted(jobs, key=lambda j: keys[j], reverse=True) for jobs in victims]


def check(ctx: Context, search: Search) -> None:
    """Both lists, what they say of each job, and the runs of those who ask for no more than the one before them."""
    snapshot, waiting, victims = ctx.snapshot, *expected_lists(ctx, search)
    n_queues = snapshot.queues.parent.size
    assert [list_of(q, search.contenders) for q in range(n_queues)] == waiting
    assert [list_of(q, search.victims) for q in range(n_queues)] == victims
    for order, lists in ((search.contenders, waiting), (search.victims, victims)):
        listed = {j for jobs in lists for j in jobs}
        assert {j for j in range(snapshot.jobs.queue.size) if order.jobs.skip[j] != DEAD} == listed
    for j in range(snapshot.jobs.queue.size):
        active = [
            t for t in rows_of(snapshot, j) if ctx.state.task.status[t] in range(Status.ALLOCATED, Status.RELEASING)
        ]
        assert search.held[j].tolist() == search.victims.held[j].tolist() == price(snapshot, active).tolist()
        asked = [int(task.pod.name) for task in twin.next_chunk(twin_of(ctx, j))]
        assert search.ask[j].tolist() == search.contenders.held[j].tolist() == price(snapshot, asked).tolist()
    for q, jobs in enumerate(waiting):
        heap = search.contenders.heap
        for place, j in enumerate(jobs):
            end = place + 1
            while end < len(jobs) and (search.ask[jobs[end]] <= search.ask[j]).all():
                end += 1
            at = heap.begin[q] + place
            assert search.contenders.jobs.run_end[heap.base[q] + at] - heap.begin[q] == end
            assert heap.first_by_size[q] <= search.contenders.jobs.place[j]


@given(crowded(), st.sampled_from([0, 1]), st.sampled_from([0, 1]), st.data())
def test_lists_stay_those_that_are_made_anew(
    snapshot: Snapshot, minimal: int, by_stage: int, data: st.DataObject
) -> None:
    """Jobs get places, wait for them or lose pods, one after the other, and are put where they belong now."""
    settings = ALL_ON._replace(minimal=minimal, elastic_order=by_stage)
    ctx, search = searching(snapshot, settings)
    check(ctx, search)
    for j in data.draw(st.permutations(range(snapshot.jobs.queue.size))):
        for t in rows_of(snapshot, j):
            status = ctx.state.task.status[t]
            fate = data.draw(st.sampled_from(["stays", "changes"]))
            if fate == "changes" and status == Status.PENDING:
                put(j, t, 0, data.draw(st.booleans()), ctx)
            elif fate == "changes" and status in ACTIVE:
                ctx.state.task.status[t] = Status.RELEASING
                ctx.state.sets.active[snapshot.tasks.set[t]] -= 1
        ctx.log.size[:] = 0
        waits = any(ctx.state.task.status[t] == Status.PIPELINED for t in rows_of(snapshot, j))
        reinsert_job(j, ctx, search)
        assert search.jobs.settled[j] == (minimal and waits)
        check(ctx, search)


@given(st.lists(st.sampled_from([50, 60, 70]), min_size=2, max_size=7), st.data())
def test_a_job_goes_back_to_its_place(priorities: list[int], data: st.DataObject) -> None:
    """Jobs of the second of two leaves lose their pod, and wait, or get one, and run, in any order."""
    n_jobs = len(priorities)
    roots = [Member(1, [Status.RUNNING if j % 2 else Status.PENDING]) for j in range(n_jobs + 1)]
    snapshot = assemble(
        roots,
        queue_table([NULL, NULL]),
        nodes=node_table([[99.0] * 5]),
        tasks={"node": [0 if j % 2 else NULL for j in range(n_jobs + 1)]},
        jobs={"queue": [0, *[1] * n_jobs], "priority": [50, *priorities]},
    )
    ctx, search = searching(snapshot, ALL_ON)
    for j in data.draw(st.lists(st.integers(1, n_jobs), min_size=n_jobs, max_size=3 * n_jobs)):
        runs = ctx.state.task.status[j] == Status.RUNNING
        ctx.state.task.status[j] = Status.PENDING if runs else Status.RUNNING
        ctx.state.task.node[j] = NULL if runs else 0
        ctx.state.sets.active[j], ctx.state.sets.pending[j] = not runs, runs
        ctx.state.sets.cursor[j] = 0
        reinsert_job(j, ctx, search)
        check(ctx, search)


def test_who_may_have_to_go() -> None:
    """Not those who are not preemptible, have nobody active, or have a pod of a kind that cannot be moved."""
    one = [Status.RUNNING]
    snapshot = assemble(
        [Member(1, one), Member(1, one), Member(1, [Status.RELEASING]), Member(1, one), Member(1, [Status.PENDING])],
        request=REQUESTS,
        tasks={"node": [0, 0, 0, 0, NULL], "cls": [0, 0, 0, 1, 0]},
        jobs={"preemptible": [1, 0, 1, 1, 1]},
    )
    refused = snapshot.classes.refused.copy()
    refused[1] = Verdict.NOT_SUPPORTED
    snapshot = snapshot._replace(classes=snapshot.classes._replace(refused=refused))
    _, search = searching(snapshot)
    assert list_of(0, search.victims) == [0]
    assert list_of(0, search.contenders) == [4]


def test_a_queue_with_others_below_it_runs_nothing() -> None:
    """A job in such a queue neither waits nor goes."""
    jobs = [Member(1, [Status.PENDING]), Member(1, [Status.RUNNING])]
    snapshot = assemble(jobs, queue_table([NULL, 0]), tasks={"node": [NULL, 0]}, jobs={"queue": [0, 0]})
    _, search = searching(snapshot)
    assert search.contenders.heap.end.sum() == search.victims.heap.end.sum() == 0
    assert search.held[1, GPU] == 1.0
