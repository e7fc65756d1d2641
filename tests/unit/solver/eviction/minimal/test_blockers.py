"""Victims beside which a pod may not run (semantics 12.2): who they are, and that a node is free once they leave."""

from __future__ import annotations

from hypothesis import given

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Snapshot, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.tables import Preemptor
from kai_sched.solver.state import Context
from tests.afresh import afresh
from tests.unit.solver.searches import bits, crowded, searching

minimal_blockers, minimal_taking, potential_victims, losses, place, score, undo = afresh(
    "solver.eviction.minimal.blockers",
    "solver.eviction.minimal.taking",
    "solver.eviction.victims.potential",
    "solver.eviction.rules.losses",
    "solver.kernels.place",
    "solver.kernels.score",
    "solver.kernels.undo",
)

GUARDS = (Verdict.HOST_PORT, Verdict.POD_ANTI_AFFINITY, Verdict.EXISTING_ANTI_AFFINITY)
NO_CEILING = 2**62


def is_kept_off(c: int, n: int, ctx: Context) -> bool:
    """By ports or anti-affinity; affinity counts as met."""
    without_needs = ctx.snapshot.term_roles.entry.copy()
    without_needs[without_needs[:, 0] == minimal_blockers.NEED, 0] = -1
    roles = ctx.snapshot.term_roles._replace(entry=without_needs)
    plain = ctx._replace(snapshot=ctx.snapshot._replace(term_roles=roles))
    return score.judge_placed(c, n, True, plain) in GUARDS


@given(crowded(tied=True))
def test_a_pod_blocks_where_it_alone_would_be_refused(snapshot: Snapshot) -> None:
    ctx, _ = searching(snapshot)
    state = ctx.state
    for t in range(snapshot.tasks.job.size):
        if state.task.node[t] == NULL:
            continue
        for column in (*state.domains, *state.leaving_domains, state.ports, state.leaving_ports):
            column[:] = 0
        place.count_term_roles(int(snapshot.tasks.cls[t]), int(state.task.node[t]), 1, ctx)
        for c in range(snapshot.classes.signature.size):
            for n in range(snapshot.nodes.condition.size):
                assert minimal_blockers.blocks(t, c, n, ctx) == is_kept_off(c, n, ctx)


@given(crowded(tied=True))
def test_a_node_is_free_once_all_have_left_that_block_it(snapshot: Snapshot) -> None:
    ctx, search = searching(snapshot)
    losses.keep_old_shares(ctx.state.book, search.queues)
    potential_victims.begin_accumulation(NO_CEILING, False, ctx, search)
    while potential_victims.accumulate(NO_CEILING, ctx, search):
        pass
    ctx.log.size[:] = 0
    preemptor = Preemptor(int(Action.PREEMPT), 0, 1, NO_CEILING, (0.0, 0.0, 1.0), 1.0, False)
    potential = set(search.lists.potential[: search.counts.potential[0]].tolist())
    before = bits(ctx)
    for c in range(snapshot.classes.signature.size):
        for n in range(snapshot.nodes.condition.size):
            there = [t for t in range(snapshot.tasks.job.size) if minimal_blockers.blocks(t, c, n, ctx)]
            stay = [t for t in there if t not in potential and snapshot.tasks.status[t] != Status.RELEASING]
            _, refused = minimal_blockers.clear_blockers(c, n, preemptor, ctx, search)
            assert not refused
            assert is_kept_off(c, n, ctx) == bool(stay)
            gone = [t for t in there if ctx.state.task.status[t] == Status.EVICTED]
            assert set(gone) == set(there) & potential
            assert score.waits_for_leaving(c, n, ctx) == (len(there) > len(stay))
            minimal_taking.abandon(0, 0, 0, 0, ctx, search)
            assert bits(ctx) == before
