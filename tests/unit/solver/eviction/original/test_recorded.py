"""What a solution leaves recorded (semantics 4.5): groups of which somebody leaves or waits, whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.tables import Status
from kai_sched.solver.eviction.allocation import make_search
from tests.afresh import afresh
from tests.unit.solver.tables import Member, assemble, opened

known, scene = afresh("solver.eviction.original.recorded", "solver.eviction.original.scenarios")
# After a simulation a victim is home again, on its way out, or has a place elsewhere.
AFTER = st.sampled_from([Status.RUNNING, Status.BOUND, Status.EVICTED, Status.PIPELINED])
# Each victim: its job, its group within the job, how often it is named, and how it ends.
VICTIMS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(1, 2), AFTER), min_size=1, max_size=8)


@given(VICTIMS)
def test_groups_are_recorded_whole(victims: list[tuple[int, int, int, Status]]) -> None:
    """In the order of the scenario, each as often as it was named; the ones recorded before are forgotten."""
    sizes = [sum(victim[0] == j for victim in victims) for j in range(3)]
    snapshot = assemble([Member(0, statuses=[Status.RUNNING] * (size + 1)) for size in sizes])
    ctx, search = opened(snapshot), make_search(snapshot)
    state = ctx.state
    search.counts.scenario_clock[0] = 1
    scene.begin_scenario(snapshot, state, search)
    # the first task of job 0 was recorded
    search.lists.recorded[0], search.counts.recorded[0] = snapshot.jobs.task_ptr[0], 1
    search.tasks.recorded[snapshot.jobs.task_ptr[0]] = 3
    following = [int(first) + 1 for first in snapshot.jobs.task_ptr[:-1]]
    rows = []
    for j, group, times, status in victims:
        t, following[j] = following[j], following[j] + 1
        scene.add_to_scenario(t, 10 * j + group, times, snapshot, state, search)
        state.task.status[t] = status
        rows.append(t)
    gone = {(j, group) for j, group, _, status in victims if status in (Status.EVICTED, Status.PIPELINED)}
    expected = [(t, times) for t, (j, group, times, _) in zip(rows, victims, strict=True) if (j, group) in gone]
    assert known.all_have_gone(snapshot, state, search) == (len(expected) == len(victims))
    known.record_victims(snapshot, state, search)
    kept = [int(t) for t in search.lists.recorded[: search.counts.recorded[0]]]
    assert [(t, search.tasks.recorded[t]) for t in kept] == expected
    assert search.tasks.recorded.sum() == sum(times for _, times in expected)
