"""Frames of sets with topology constraints: which domains are entered in which order, and what a retreat undoes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Status
from tests.afresh import afresh
from tests.unit.solver.racks import RACK, ZONE, in_racks, nodes_in
from tests.unit.solver.searches import MINIMAL, bits
from tests.unit.solver.tables import Member, opened

topology, sizes, attempt = afresh("solver.kernels.topology", "solver.kernels.domain_sizes", "solver.kernels.attempt")
PENDING = Status.PENDING
PLACES = ["a1", "a2", "b1", "b2", ""]


def test_an_inner_set_tries_its_domains_within_that_of_the_outer_one() -> None:
    """Zone a is fuller, so it comes first; its racks, both alike, by name. Then the racks of zone b, and no more."""
    tree = Member(1, members=[Member(2, [PENDING] * 2)])
    ctx = opened(in_racks(PLACES, [tree], [2.0, 2.0, 4.0, 4.0, 9.0], {0: (ZONE, 0), 1: (RACK, 0)}), MINIMAL)
    ctx.scratch.chunk[:2] = (0, 1)
    topology.begin_domains(ctx)
    seen = []
    entered = topology.enter_domains(0, 2, ctx)
    while entered == 0:
        seen.append([n for n in range(5) if topology.allows(n, ctx)])
        if topology.retreat(ctx) == NULL:
            break
        entered = topology.enter_domains(0, 2, ctx)
    assert seen == [[0], [1], [2], [3]]
    assert not topology.has_frames(ctx)
    assert all(topology.allows(n, ctx) for n in range(5))


def test_a_retreat_takes_back_what_was_placed_in_the_domain() -> None:
    ctx = opened(in_racks(PLACES, [Member(3, [PENDING] * 3)], [2.0, 2.0, 4.0, 4.0, 0.0], {0: (RACK, 0)}), MINIMAL)
    ctx.scratch.chunk[:3] = range(3)
    before = bits(ctx)
    topology.begin_domains(ctx)
    assert topology.enter_domains(0, 3, ctx) == 0
    assert attempt.place_task(0, 0, ctx) == 0
    assert bits(ctx) != before
    assert topology.retreat(ctx) == 0
    assert bits(ctx) == before


def test_suspended_frames_restrict_nothing_and_come_back() -> None:
    ctx = opened(in_racks(PLACES, [Member(1, [PENDING])], [1.0, 2.0, 4.0, 4.0, 0.0], {0: (RACK, 0)}), MINIMAL)
    ctx.scratch.chunk[0] = 0
    topology.begin_domains(ctx)
    topology.enter_domains(0, 1, ctx)
    allowed = [topology.allows(n, ctx) for n in range(5)]
    suspended = topology.suspend_domains(ctx)
    assert not topology.has_frames(ctx)
    assert all(topology.allows(n, ctx) for n in range(5))
    topology.resume_domains(suspended, ctx)
    assert [topology.allows(n, ctx) for n in range(5)] == allowed


def test_the_innermost_set_that_prefers_a_level_gives_the_points() -> None:
    """The roomier rack of the zone gets the most."""
    ctx = opened(in_racks(PLACES, [Member(3, [PENDING] * 3)], [1.0, 2.0, 0.0, 0.0, 0.0], {0: (ZONE, RACK)}), MINIMAL)
    ctx.scratch.chunk[:3] = range(3)
    topology.begin_domains(ctx)
    assert topology.enter_domains(0, 3, ctx) == 0
    points = [topology.preferred_points(n, ctx) for n in range(2)]
    assert points == [700_000.0, 1_000_000.0]  # b1 and b2 with nothing free come first: 200,000 and 500,000


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0, 7.0]), min_size=5, max_size=5), st.integers(1, 3))
def test_what_domains_have_is_the_sum_of_their_nodes(gpus: list[float], n_tasks: int) -> None:
    snapshot = in_racks(PLACES, [Member(n_tasks, [PENDING] * n_tasks)], gpus, {0: (ZONE, 0)})
    ctx = opened(snapshot, MINIMAL)
    topo = ctx.scratch.topology
    ctx.scratch.chunk[:n_tasks] = range(n_tasks)
    topo.set[0], topo.first[0], topo.end[0] = 0, 0, n_tasks
    assert sizes.sum_requests(0, ctx)
    root = int(snapshot.topologies.ptr[0])
    sizes.measure_domains(0, root, ctx)
    sizes.rate_domains(root, RACK, True, n_tasks, ctx)
    for h in range(snapshot.topologies.level.size):
        free = [gpus[n] for n in nodes_in(snapshot, h)]
        assert topo.free[h, GPU] == sum(free)
        assert topo.pods[h] == sum(np.floor(each) for each in free)
        assert bool(topo.fits[h]) == (topo.pods[h] >= n_tasks)
        assert topo.ratio[h] == (n_tasks / sum(free) if sum(free) else 1000.0)
