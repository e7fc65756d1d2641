"""A minimal scenario simulated (semantics 4.5, step 4): who comes back, against room counted pod by pod."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Snapshot, Status, TermKind, TermRole
from kai_sched.solver.state import Context
from tests.afresh import afresh
from tests.unit.solver.full_nodes import PREEMPT, Full, come_back, full_nodes
from tests.unit.solver.neighbours import entries_of
from tests.unit.solver.searches import ACTIVE, bits, check_books, crowded, searching
from tests.unit.solver.tables import Member, assemble, conflicts

(minimal_simulation,) = afresh("solver.eviction.minimal.simulation")
simulate_choice = minimal_simulation.simulate_choice
return_job = minimal_simulation.return_job
evict_victim = minimal_simulation.evict_victim
restore_victim = minimal_simulation.restore_victim
takes = minimal_simulation.node_takes
INVALID, VALID = minimal_simulation.INVALID, minimal_simulation.VALID


@given(full_nodes(), st.data())
def test_a_scenario_is_simulated_or_leaves_nothing(full: Full, data: st.DataObject) -> None:
    """Any victims, any node: the job waits on that one, else on another one; then victims return, the last first."""
    ctx, search = full.ctx, full.search
    full.accumulate_all()
    victims, before = full.victims(), bits(ctx)
    chosen = data.draw(st.lists(st.integers(0, len(victims) - 1), unique=True)) if victims else []
    search.minimal.chosen[: len(chosen)], search.minimal.n_chosen[0] = chosen, len(chosen)
    search.minimal.place[0] = data.draw(st.sampled_from(full.nodes()))
    gone = [victims[g] for g in chosen]
    fitting = [n for n in full.nodes() if full.room(n, gone) >= full.size]
    assert simulate_choice(PREEMPT, full.p, 1, ctx, search) == (VALID if fitting else INVALID)
    if not fitting:
        assert bits(ctx) == before
        return
    node, status = ctx.state.task.node, ctx.state.task.status
    assert status[full.p] == Status.PIPELINED
    assert node[full.p] == search.minimal.place[0] if search.minimal.place[0] in fitting else node[full.p] in fitting
    check_books(ctx)
    at_home: set[int] = set()
    free = {n: full.room(n, gone) - (full.size if node[full.p] == n else 0.0) for n in full.nodes()}
    for t in reversed(gone):
        if free[full.home(t)] >= full.gpus(t):
            free[full.home(t)] -= full.gpus(t)
            at_home.add(t)
    assert {t for t in gone if status[t] == Status.RUNNING} == at_home
    away = [t for t in reversed(gone) if t not in at_home]
    come_back(full, away, at_home)
    placed = search.lists.placed[: search.counts.placed[0]].tolist()
    assert sorted(placed) == sorted([full.p, *(t for t in away if status[t] == Status.PIPELINED)])
    assert search.lists.jobs[: search.counts.jobs[0]].tolist() == [*gone, full.p]


@given(st.integers(0, 3), st.lists(st.booleans(), min_size=1, max_size=4), st.integers(0, 4))
def test_a_gang_returns_whole_and_its_surplus_one_by_one(minimum: int, evicted: list[bool], free: int) -> None:
    """A job of pods with a GPU each, some of them evicted, and room for so many of those."""
    n_pods = len(evicted)
    snapshot = assemble(
        [Member(minimum, [Status.RUNNING] * n_pods)], request=[[0.0, 0.0, 1.0, 1.0, 0.0]], tasks={"node": [0] * n_pods}
    )
    ctx, search = searching(snapshot)
    away = [t for t in range(n_pods) if evicted[t]]
    for t in away:
        evict_victim(t, ctx, search)
    left = n_pods - len(away)
    ctx.state.idle[0, GPU] += free - (ctx.state.idle + ctx.state.releasing)[0, GPU]
    return_job(0, False, ctx, search)
    needed = max(0, minimum - left)
    returned = min(free, len(away)) if needed <= min(free, len(away)) else 0
    back = [t for t in away if ctx.state.task.status[t] == Status.RUNNING]
    assert back == away[:returned]


def test_what_waited_before_gets_nothing() -> None:
    """That others leave is not for it."""
    snapshot = assemble([Member(0, [Status.PENDING, Status.RUNNING])], tasks={"node": [NULL, 0]})
    ctx, search = searching(snapshot)
    evict_victim(1, ctx, search)
    return_job(0, True, ctx, search)
    assert ctx.state.task.status.tolist() == [Status.PENDING, Status.RUNNING]


def allowed(ctx: Context, c: int, n: int) -> bool:
    """Host ports, and the inter-pod terms of the class and of those that are there (12.2)."""
    snapshot, domains = ctx.snapshot, ctx.state.domains
    entries = entries_of(snapshot, c)
    needs = [row for role, row, _ in entries if role == TermRole.NEED]
    near = [[d for d in snapshot.terms.domain[row] if d != NULL and domains.matched[d] > 0] for row in needs]
    first = bool(snapshot.term_roles.self_match[c]) and not any(near)
    for role, row, _ in entries:
        if role == TermRole.PORT and ctx.state.ports[n, conflicts(snapshot, row)].any():
            return False
        d = NULL if role == TermRole.PORT else int(snapshot.terms.domain[row, n])
        if role == TermRole.NEED and (d == NULL or (not domains.matched[d] and not first)):
            return False
        against = {TermRole.CARRY: domains.matched, TermRole.MATCH: domains.carried}.get(TermRole(role))
        if against is not None and d != NULL and snapshot.terms.kind[row] == TermKind.ANTI and against[d] > 0:
            return False
    return True


def count_near(ctx: Context) -> list[int]:
    """By domain, who matches its term: evicted pods do not for those who have to be near them."""
    snapshot, near = ctx.snapshot, [0] * ctx.snapshot.n_domains
    gone = {
        TermKind.REQUIRED: [Status.EVICTED],
        TermKind.ANTI: [Status.EVICTED, Status.RELEASING],
        TermKind.PREFERRED: [],
    }
    for t, n in enumerate(snapshot.tasks.node):
        entries = entries_of(snapshot, int(snapshot.tasks.cls[t])) if n != NULL else []
        for row in [
            row for role, row, _ in entries if role == TermRole.MATCH and snapshot.terms.domain[row, n] != NULL
        ]:
            if ctx.state.task.status[t] not in gone[TermKind(snapshot.terms.kind[row])]:
                near[snapshot.terms.domain[row, n]] += 1
    return near


@given(crowded(tied=True), st.data())
def test_nobody_can_be_near_who_is_evicted(snapshot: Snapshot, data: st.DataObject) -> None:
    """Which nodes take a pod then; those who are taken back count again, and everything is as before."""
    ctx, search = searching(snapshot)
    before, status, first = bits(ctx), ctx.state.task.status, ctx.state.sets.cursor.copy()
    active = [t for t in range(status.size) if status[t] in ACTIVE]
    victims = data.draw(st.lists(st.sampled_from(active), unique=True)) if active else []
    for t in victims:
        evict_victim(t, ctx, search)
        assert ctx.state.domains.matched.tolist() == count_near(ctx)
    for c, request in enumerate(snapshot.classes.request):
        for n in range(snapshot.nodes.condition.size):
            fits = bool((request <= (ctx.state.idle + ctx.state.releasing)[n]).all())
            refused = bool((request > snapshot.nodes.allocatable.max(axis=0)).any())
            assert takes(n, c, ctx) == (fits and not refused and allowed(ctx, c, n))
    for t in victims:
        restore_victim(t, ctx, search)
    # Places that the evicted ones moved back may stay there: no pending task is before them.
    assert (ctx.state.sets.cursor <= first).all()
    ctx.state.sets.cursor[:] = first
    assert bits(ctx) == before
