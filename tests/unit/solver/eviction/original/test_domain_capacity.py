"""Whether domains have GPUs for sets that require a level, as v0.17.0 counts them (semantics 4.6)."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Snapshot, Status
from kai_sched.solver.eviction.allocation import make_search
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.state import Context
from tests.afresh import afresh
from tests.unit.solver.racks import RACK, ZONE, in_racks, nodes_in
from tests.unit.solver.tables import Member, opened

(capacity,) = afresh("solver.eviction.original.domain_capacity")
PLACES = ["a1", "a2", "b1", "b2", ""]


def asked(snapshot: Snapshot, leaving: list[float] | None = None) -> tuple[Context, Search, bool]:
    """For the pending pods of job 0, with so many GPUs of potential victims on each node."""
    ctx, search = opened(snapshot), make_search(snapshot)
    pending = [t for t in range(snapshot.tasks.job.size) if ctx.state.task.status[t] == Status.PENDING]
    search.pending[: len(pending)] = pending
    if leaving:
        search.rooms.potential_gpus[:] = leaving
    capacity.sum_needs(0, len(pending), snapshot, ctx.state, search)
    return ctx, search, bool(capacity.domains_have_gpus(0, ctx, search))


def test_a_set_needs_a_domain_with_all_of_its_gpus() -> None:
    gang = [Member(3, [Status.PENDING] * 3)]
    assert asked(in_racks(PLACES, gang, [2.0, 1.0, 3.0, 0.0, 0.0], {0: (RACK, 0)}))[2]
    assert not asked(in_racks(PLACES, gang, [2.0, 1.0, 2.0, 0.0, 9.0], {0: (RACK, 0)}))[2]
    assert asked(in_racks(PLACES, gang, [2.0, 1.0, 2.0, 0.0, 0.0], {0: (ZONE, 0)}))[2]


def test_what_victims_leave_counts() -> None:
    snapshot = in_racks(PLACES, [Member(3, [Status.PENDING] * 3)], [2.0, 0.0, 0.0, 0.0, 0.0], {0: (RACK, 0)})
    assert not asked(snapshot)[2]
    assert asked(snapshot, [1.0, 0.0, 0.0, 0.0, 0.0])[2]


def test_pods_that_run_are_counted_with_those_that_wait() -> None:
    """Each rack has one GPU left, for the pod that waits; v0.17.0 asks for two, as if the other one moved, too."""
    half_running = in_racks(PLACES, [Member(2, [Status.RUNNING, Status.PENDING])], [1.0] * 5, {0: (RACK, 0)})
    ctx, _, found = asked(half_running)
    assert ctx.state.idle[:, 2].tolist() == [1.0] * 5
    assert not found


def test_constraints_of_pod_sets_do_not_count() -> None:
    tree = [Member(1, members=[Member(3, [Status.PENDING] * 3)])]
    assert asked(in_racks(PLACES, tree, [1.0, 1.0, 1.0, 1.0, 1.0], {1: (RACK, 0)}))[2]


def test_the_largest_set_takes_the_domain_with_the_most_gpus() -> None:
    """4, 3 and 3 GPUs for racks of 6 and 4: 4 go to the first, 3 to the second, and no rack has the last 3."""
    sets = [Member(1, members=[Member(n, [Status.PENDING] * n)]) for n in (4, 3, 3)]
    constraints = {1: (RACK, 0), 2: (RACK, 0), 3: (RACK, 0)}
    assert not asked(in_racks(PLACES, [Member(3, members=sets)], [6.0, 4.0, 0.0, 0.0, 0.0], constraints))[2]
    assert asked(in_racks(PLACES, [Member(3, members=sets)], [6.0, 7.0, 0.0, 0.0, 0.0], constraints))[2]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from([0, ZONE, RACK])), min_size=1, max_size=4),
    st.sampled_from([0, ZONE, RACK]),
    st.lists(st.integers(0, 8), min_size=5, max_size=5),
)
def test_it_is_as_counted_slowly(sets: list[tuple[int, int, int]], of_root: int, gpus: list[int]) -> None:
    inner = [Member(1, members=[Member(1, [Status.RUNNING] * m + [Status.PENDING] * n)]) for m, n, _ in sets]
    levels = {0: of_root} | {1 + s: level for s, (_, _, level) in enumerate(sets)}
    constraints = {s: (level, 0) for s, level in levels.items() if level}
    snapshot = in_racks(PLACES, [Member(1, members=inner)], [float(n) for n in gpus], constraints)
    ctx, _, found = asked(snapshot)
    table, free = snapshot.topologies, np.maximum(0.0, (ctx.state.idle + ctx.state.releasing)[:, 2])
    room = {h: sum(free[n] for n in nodes_in(snapshot, h)) for h in range(table.level.size)}
    sizes = [sum(m + n for m, n, _ in sets), *(m + n for m, n, _ in sets)]
    fits = True
    for level in (ZONE, RACK):
        holders = sorted((h for h in room if table.level[h] == level), key=lambda h: -room[h])
        left = dict(room)
        for need in sorted((sizes[s] for s in levels if levels[s] == level), reverse=True):
            holder = next((h for h in holders if left[h] >= need), NULL)
            fits = fits and (need == 0 or holder != NULL)
            if holder != NULL:
                left[holder] -= need
    assert found == fits
