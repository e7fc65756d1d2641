"""What makes a scenario valid (semantics 4.7, 6, 11.1), against a twin that follows the text loss by loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Floats, Settings, Snapshot, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction import evict, scenario
from kai_sched.solver.eviction.original import scenarios, simulation
from kai_sched.solver.eviction.rules import losses, runtimes, shares, validate
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import entry
from kai_sched.solver.kernels import undo
from kai_sched.solver.state import Context
from tests.unit.solver.searches import ACTIVE, TAKES_ROOM, crowded, lineage, price, rows_of, searching
from tests.unit.solver.tables import ALL_ON, UNLIMITED, Member, assemble, queue_table

is_valid = entry(validate.is_valid)
keep_old_shares = entry(losses.keep_old_shares)
note_scarce = entry(shares.note_scarce)
is_elastic = entry(runtimes.is_elastic)
is_protected = entry(runtimes.is_protected)
any_runtime = entry(runtimes.any_runtime)
begin_scenario = entry(scenarios.begin_scenario)
add_to_scenario = entry(scenario.add_to_scenario)
evict_task = entry(evict.evict)
place_in_search = entry(simulation.place_in_search)
undo_all = entry(undo.undo_all)

CONSOLIDATION, RECLAIM, PREEMPT = int(Action.CONSOLIDATION), int(Action.RECLAIM), int(Action.PREEMPT)
GONE, HOME, ELSEWHERE = range(3)


@dataclass
class Trial:
    """A simulated scenario: victims in their order, how often each is named, and where each ended."""

    ctx: Context = field(repr=False)
    search: Search = field(repr=False)
    p: int
    k: int
    victims: list[int] = field(default_factory=list)
    times: dict[int, int] = field(default_factory=dict)
    fate: dict[int, int] = field(default_factory=dict)

    def simulate(self) -> None:
        """Evict all, and place those again that are not gone."""
        ctx, search, snapshot = self.ctx, self.search, self.ctx.snapshot
        keep_old_shares(ctx.state.book, search.queues)
        begin_scenario(snapshot, ctx.state, search)
        for t in self.victims:
            add_to_scenario(t, -1, self.times[t], snapshot, ctx.state, search)
            evict_task(int(snapshot.tasks.job[t]), t, self.times[t], ctx, search)
        for t in self.victims:
            home = int(snapshot.tasks.node[t])
            if self.fate[t] != GONE:
                n = home if self.fate[t] == HOME else (home + 1) % snapshot.nodes.condition.size
                place_in_search(int(snapshot.tasks.job[t]), t, n, ctx, search)
        jobs = self.jobs()
        search.lists.jobs[: len(jobs)] = jobs
        search.lists.jobs[len(jobs)] = self.p
        search.counts.jobs[0] = len(jobs) + 1

    def jobs(self) -> list[int]:
        return list(dict.fromkeys(int(self.ctx.snapshot.tasks.job[t]) for t in self.victims))

    def of(self, j: int) -> list[int]:
        return [t for t in self.victims if self.ctx.snapshot.tasks.job[t] == j]

    def moved(self, t: int) -> bool:
        return self.fate[t] != HOME


@dataclass
class Stage:
    """A cluster on which scenarios are tried, one after the other, each with shares and settings of its own."""

    ctx: Context = field(repr=False)
    search: Search = field(repr=False)
    rng: np.random.Generator

    def trials(self, minimal: tuple[int, ...] = (0, 1)) -> Iterator[Trial]:
        """Twelve random ones; what each simulates is undone before the next. None where nobody waits."""
        snapshot, rng = self.ctx.snapshot, self.rng
        waiting = [j for j in range(snapshot.jobs.queue.size) if self.pending(j)]
        for _ in range(12 if waiting else 0):
            ctx = self.ctx._replace(settings=self.settings(int(rng.choice(minimal))))
            self.search.counts.runtimes[0] = rng.choice([0, 1, 1])
            for column in (ctx.state.book.fair, ctx.state.book.share, ctx.state.book.quota):
                column[:-1] = rng.choice([0.0, 1.0, 2.0, 3.0, 4.0, UNLIMITED], (snapshot.queues.parent.size, 3))
            p = int(rng.choice(waiting))
            self.search.pending[: len(self.pending(p))] = self.pending(p)
            trial = Trial(ctx, self.search, p, int(rng.integers(1, len(self.pending(p)) + 1)))
            note_scarce(trial.k, ctx, self.search)
            self.choose_victims(trial)
            yield trial
            undo_all(ctx)

    def settings(self, minimal: int) -> Settings:
        choice = self.rng.choice
        return ALL_ON._replace(
            minimal=minimal,
            consolidating_reclaim=int(choice([0, 1])),
            saturation=float(choice([1.0, 2.0])),
            most_moved=int(choice([0, 1, 2, 99])),
            now=100,
            preempt_runtime=int(choice([0, 60, 200])),
            reclaim_runtime=int(choice([0, 60, 200])),
            reclaim_by_ancestor=int(choice([0, 1])),
        )

    def pending(self, j: int) -> list[int]:
        status = self.ctx.state.task.status
        return [t for t in rows_of(self.ctx.snapshot, j) if status[t] == Status.PENDING]

    def choose_victims(self, trial: Trial) -> None:
        """Some active tasks of each other job; they may be gone, at home again or elsewhere."""
        rng, snapshot, status = self.rng, trial.ctx.snapshot, trial.ctx.state.task.status
        for j in rng.permutation(snapshot.jobs.queue.size):
            active = [t for t in rows_of(snapshot, j) if j != trial.p and status[t] in ACTIVE]
            trial.victims += [int(t) for t in rng.permutation(active)[: rng.integers(0, len(active) + 1)]]
        fates = [GONE, GONE, HOME, ELSEWHERE] if snapshot.nodes.condition.size > 1 else [GONE, HOME]
        trial.times = {t: 1 if trial.ctx.settings.minimal else int(rng.choice([1, 1, 2])) for t in trial.victims}
        trial.fate = {t: int(rng.choice(fates)) for t in trial.victims}


@st.composite
def stages(draw: st.DrawFn) -> Stage:
    """Jobs that started at different times, in queues with and without minimum runtimes, in any order of uids."""
    snapshot: Snapshot = draw(crowded())
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_jobs, n_queues = snapshot.jobs.queue.size, snapshot.queues.parent.size
    runtimes = rng.choice([NULL, NULL, 0, 20, 200], (2, n_queues))
    by_uid = rng.permutation(n_queues).astype(np.int32)
    snapshot = snapshot._replace(
        jobs=snapshot.jobs._replace(last_start=rng.choice([0, 5, 50], n_jobs)),
        queues=snapshot.queues._replace(preempt_runtime=runtimes[0], reclaim_runtime=runtimes[1], by_uid=by_uid),
    )
    return Stage(*searching(snapshot, ALL_ON), rng)


def paths_part(snapshot: Snapshot, a: int, b: int) -> tuple[int, int]:
    """The first queues, from the roots, in which the paths to two leaves differ."""
    one, other = lineage(snapshot, a)[::-1], lineage(snapshot, b)[::-1]
    return next((x, y) for x, y in zip(one, other, strict=False) if x != y)


def used(amount: float, share: float) -> float:
    if share == UNLIMITED:
        return 0.0
    return amount / share if share else UNLIMITED if amount > 0 else 0.0


def losses(trial: Trial, j: int) -> list[Floats]:
    """What job ``j`` loses: surplus pods one by one, then the core."""
    snapshot, settings = trial.ctx.snapshot, trial.ctx.settings
    found, core, in_core = [], [], dict.fromkeys(range(snapshot.sets.parent.size), 0)
    for t in trial.of(j):
        counts = trial.fate[t] == GONE or (trial.fate[t] == ELSEWHERE and not settings.consolidating_reclaim)
        if not settings.minimal and not settings.consolidating_reclaim:
            counts = True
        for _ in range(trial.times[t] if counts else 0):
            s = int(snapshot.tasks.set[t])
            if in_core[s] < snapshot.sets.minimum[s]:
                in_core[s] += 1
                core.append(t)
            else:
                found.append(price(snapshot, [t]))
    return [*found, price(snapshot, core)] if core else found


def twin_keeps_shares(trial: Trial, held: Floats, fixed: Floats, room: Floats) -> bool:
    ctx, snapshot = trial.ctx, trial.ctx.snapshot
    book, settings = ctx.state.book, ctx.settings
    own = int(snapshot.jobs.queue[trial.p])
    need = price(snapshot, trial.search.pending[: trial.k].tolist())
    left, lost = held.copy(), {}
    for q in snapshot.queues.by_uid:
        for j in trial.jobs():
            for loss in losses(trial, j) if snapshot.jobs.queue[j] == q else []:
                if q == own:
                    return True  # not a victim of a reclaim: the test leaves these out
                mine, theirs = paths_part(snapshot, own, int(q))
                by_share = any(left[theirs] > book.share[theirs])
                counts = [not settings.minimal or (need[r] > 0 and any(room[:, r] < need[r])) for r in range(3)]
                above = [counts[r] and left[theirs, r] > book.quota[theirs, r] for r in range(3)]
                if not (by_share or (all(held[mine] + need <= book.quota[mine]) and any(above))):
                    return False
                for above_it in lineage(snapshot, int(q)):
                    left[above_it] -= loss
                    lost[above_it] = lost.get(above_it, 0.0) + loss
    for u in lineage(snapshot, own):
        if not snapshot.jobs.preemptible[trial.p] and any(fixed[u] + need > book.quota[u]):
            return False
        for s in [s for s in lost if s != u and snapshot.queues.parent[s] == snapshot.queues.parent[u]]:
            for r in range(3):
                if not need[r] and not lost[s][r]:
                    continue
                mine, theirs = used(left[u, r] + need[r], book.fair[u, r]), used(left[s, r], book.fair[s, r])
                compared = book.fair[s, r] > 0 or (settings.minimal and book.fair[u, r] == 0)
                if mine > 1 and compared and mine * settings.saturation >= theirs:
                    return False
    return True


def twin_is_protected(trial: Trial, action: int, j: int) -> bool:
    snapshot, settings, queues = trial.ctx.snapshot, trial.ctx.settings, trial.ctx.snapshot.queues
    if not trial.search.counts.runtimes[0] or not snapshot.jobs.last_start[j]:
        return False
    q, own = int(snapshot.jobs.queue[j]), int(snapshot.jobs.queue[trial.p])
    path, values, otherwise = lineage(snapshot, q), queues.preempt_runtime, settings.preempt_runtime
    if action == RECLAIM:
        values, otherwise = queues.reclaim_runtime, settings.reclaim_runtime
        if settings.reclaim_by_ancestor:
            path = lineage(snapshot, paths_part(snapshot, own, q)[1])
    value = next((values[above] for above in path if values[above] != NULL), otherwise)
    return bool(settings.now < snapshot.jobs.last_start[j] + value)


def twin_keeps_runtimes(trial: Trial, action: int) -> bool:
    snapshot, settings = trial.ctx.snapshot, trial.ctx.settings
    for j in trial.jobs():
        gone = [t for t in trial.of(j) if trial.moved(t) or not settings.minimal]
        for s in {int(snapshot.tasks.set[t]) for t in gone} if twin_is_protected(trial, action, j) else set():
            rows = [t for t in rows_of(snapshot, j) if snapshot.tasks.set[t] == s]
            used_before = [t for t in rows if snapshot.tasks.status[t] in {*TAKES_ROOM, Status.RELEASING}]
            if len(used_before) - sum(t in rows for t in gone) < snapshot.sets.minimum[s]:
                return False
    return True


def check(trial: Trial, action: int) -> None:
    ctx = trial.ctx
    held, fixed = ctx.state.book.held[:-1].copy(), ctx.state.book.held_fixed[:-1].copy()
    room = (ctx.state.idle + ctx.state.releasing)[ctx.snapshot.nodes.condition == Verdict.OK]
    trial.simulate()
    expected = twin_keeps_runtimes(trial, action)
    if action == RECLAIM:
        expected = expected and twin_keeps_shares(trial, held, fixed, room)
    assert is_valid(action, trial.p, trial.k, ctx, trial.search) == expected


@given(stages())
def test_a_reclaim_is_fair(stage: Stage) -> None:
    jobs, tasks = stage.ctx.snapshot.jobs, stage.ctx.snapshot.tasks
    for trial in stage.trials():
        trial.victims = [t for t in trial.victims if jobs.queue[tasks.job[t]] != jobs.queue[trial.p]]
        check(trial, RECLAIM)


@given(stages())
def test_a_preempt_keeps_minimum_runtimes(stage: Stage) -> None:
    for trial in stage.trials():
        check(trial, PREEMPT)


@given(stages())
def test_a_consolidation_moves_few_and_loses_nobody(stage: Stage) -> None:
    for trial in stage.trials(minimal=(1,)):
        if trial.ctx.snapshot.nodes.condition.size > 1:
            trial.fate = {t: ELSEWHERE if fate == GONE and t % 3 else fate for t, fate in trial.fate.items()}
        trial.simulate()
        everybody = all(trial.fate[t] != GONE for t in trial.victims)
        moved = {int(trial.ctx.snapshot.tasks.job[t]) for t in trial.victims if trial.moved(t)}
        expected = everybody and len(moved) <= trial.ctx.settings.most_moved
        assert is_valid(CONSOLIDATION, trial.p, trial.k, trial.ctx, trial.search) == expected


@given(stages())
def test_who_is_no_victim_for_its_minimum_runtime(stage: Stage) -> None:
    """Those that are protected and not elastic: they have no pod set with more pods than its minimum."""
    snapshot, sets = stage.ctx.snapshot, stage.ctx.snapshot.sets
    for trial in stage.trials():
        for j in range(snapshot.jobs.queue.size):
            rows = range(snapshot.jobs.set_ptr[j], snapshot.jobs.set_ptr[j + 1])
            pods = {s: [t for t in rows_of(snapshot, j) if snapshot.tasks.set[t] == s] for s in rows}
            elastic = any(len(pods[s]) > sets.minimum[s] for s in rows if sets.child_ptr[s] == sets.child_end[s])
            assert is_elastic(j, snapshot) == elastic
            for action in (RECLAIM, PREEMPT) if snapshot.jobs.queue[j] != snapshot.jobs.queue[trial.p] else (PREEMPT,):
                expected = twin_is_protected(trial, action, j)
                assert is_protected(action, trial.p, j, trial.ctx, trial.search) == expected
        queues, settings = snapshot.queues, trial.ctx.settings
        values = [*queues.preempt_runtime, *queues.reclaim_runtime, settings.preempt_runtime, settings.reclaim_runtime]
        assert any_runtime(settings._replace(min_runtime=1), queues) == (max(values) > 0)
        assert not any_runtime(settings._replace(min_runtime=0), queues)


@pytest.mark.parametrize(("asks", "sizes", "losses", "valid"), [(2, [1] * 6, 2, True), (3, [3, 1, 1, 1], 1, False)])
def test_worked_examples(asks: int, sizes: list[int], losses: int, valid: bool) -> None:
    """Those of semantics 4.7: departments with a fair share of 4, A holds 2 and asks for more, B holds 6."""
    roots = [Member(asks, [Status.PENDING] * asks), Member(2, [Status.RUNNING] * 2)]
    roots += [Member(size, [Status.RUNNING] * size) for size in sizes]
    n_running = 2 + sum(sizes)
    snapshot = assemble(
        roots,
        queue_table([NULL, NULL, 0, 1], quota=np.zeros((4, 3))),
        request=[[0.0, 0.0, 1.0, 1.0, 0.0]],
        tasks={"node": [NULL] * asks + [0] * n_running},
        jobs={"queue": [2, 2] + [3] * len(sizes)},
    )
    ctx, search = searching(snapshot)
    for column in (ctx.state.book.fair, ctx.state.book.share):
        column[:-1] = [UNLIMITED, UNLIMITED, 4.0]
    assert ctx.state.book.held[:-1, GPU].tolist() == [2.0, 6.0, 2.0, 6.0]
    search.pending[:asks] = range(asks)
    trial = Trial(ctx, search, 0, asks, [t for j in range(2, 2 + losses) for t in rows_of(snapshot, j)])
    trial.times, trial.fate = dict.fromkeys(trial.victims, 1), dict.fromkeys(trial.victims, GONE)
    trial.simulate()
    assert is_valid(RECLAIM, 0, asks, ctx, search) == valid
