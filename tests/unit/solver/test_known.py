"""What a solution leaves recorded (semantics 4.5): groups of which somebody leaves or waits, whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.tables import Status
from kai_sched.solver.hunt import KNOWN, N_KNOWN, RECORDED, SCENE_CLOCK, make_lineup, make_prey
from kai_sched.solver.state import STATUS
from tests.afresh import afresh
from tests.unit.solver.tables import Member, assemble, opened

known, scene = afresh("solver.kernels.known", "solver.kernels.scene")
# After a simulation a victim is home again, on its way out, or has a place elsewhere.
AFTER = st.sampled_from([Status.RUNNING, Status.BOUND, Status.EVICTED, Status.PIPELINED])
# Each victim: its job, its group within the job, how often it is named, and how it ends.
VICTIMS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(1, 2), AFTER), min_size=1, max_size=8)


@given(VICTIMS)
def test_groups_are_recorded_whole(victims: list[tuple[int, int, int, Status]]) -> None:
    """In the order of the scenario, each as often as it was named; the ones recorded before are forgotten."""
    sizes = [sum(victim[0] == j for victim in victims) for j in range(3)]
    snapshot = assemble([Member(0, statuses=[Status.RUNNING] * (size + 1)) for size in sizes])
    state, prey = opened(snapshot).state, make_prey(snapshot)
    prey.counts[SCENE_CLOCK] = 1
    scene.open_scene(snapshot, state, prey)
    prey.lists[KNOWN, 0], prey.counts[N_KNOWN] = snapshot.jobs.task_ptr[0], 1  # the first task of job 0 was recorded
    prey.task[snapshot.jobs.task_ptr[0], RECORDED] = 3
    following = [int(first) + 1 for first in snapshot.jobs.task_ptr[:-1]]
    rows = []
    for j, group, times, status in victims:
        t, following[j] = following[j], following[j] + 1
        scene.join_scene(t, 10 * j + group, times, snapshot, state, prey)
        state.task[t, STATUS] = status
        rows.append(t)
    gone = {(j, group) for j, group, _, status in victims if status in (Status.EVICTED, Status.PIPELINED)}
    expected = [(t, times) for t, (j, group, times, _) in zip(rows, victims, strict=True) if (j, group) in gone]
    assert known.all_have_gone(snapshot, state, prey) == (len(expected) == len(victims))
    known.record(snapshot, state, make_lineup(snapshot), prey)
    kept = [int(t) for t in prey.lists[KNOWN, : prey.counts[N_KNOWN]]]
    assert [(t, prey.task[t, RECORDED]) for t in kept] == expected
    assert prey.task[:, RECORDED].sum() == sum(times for _, times in expected)
