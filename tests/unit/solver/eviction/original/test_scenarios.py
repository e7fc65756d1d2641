"""Which potential victims go together (semantics 4.5, the two generators), against sets and sorted lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Snapshot, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction import scenario
from kai_sched.solver.eviction.original import scenarios
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.eviction.victims import potential as potential_victims
from kai_sched.solver.jit import entry
from kai_sched.solver.state import Context
from tests.unit.solver.searches import TAKES_ROOM, crowded, rows_of, searching
from tests.unit.solver.tables import ALL_ON, Member, assemble, node_table

begin = entry(potential_victims.begin_accumulation)
accumulate = entry(potential_victims.accumulate)
count_kinds = entry(potential_victims.count_kinds)
hosts = entry(scenario.list_nodes_of_job)
node_local_scenario = entry(scenarios.node_local_scenario)
multi_node_scenario = entry(scenarios.multi_node_scenario)
rank_nodes = entry(scenarios.rank_nodes)
free_gpus_without_recorded = entry(scenarios.free_gpus_without_recorded)

NO_CEILING = 2**62


class Accumulation:
    """Some chunks of potential victims, some tasks recorded before, and a pending chunk of two tasks or more."""

    def __init__(self, snapshot: Snapshot, data: st.DataObject) -> None:
        self.ctx, self.search = searching(snapshot, ALL_ON)
        search, status = self.search, self.ctx.state.task.status
        pending = [t for t in range(status.size) if status[t] == Status.PENDING][: search.pending.size]
        self.k = len(pending)
        search.pending[: self.k] = pending
        count_kinds(self.k, self.ctx, search)
        victims = [t for t in range(status.size) if status[t] in range(Status.PIPELINED, Status.RELEASING)]
        self.recorded = data.draw(st.lists(st.sampled_from(victims), unique=True, max_size=2)) if victims else []
        search.lists.recorded[: len(self.recorded)] = self.recorded
        search.counts.recorded[0] = len(self.recorded)
        for t in self.recorded:
            search.tasks.recorded[t], search.tasks.recorded_with[t] = 1, 100 + t
        begin(NO_CEILING, False, self.ctx, search)
        steps = data.draw(st.integers(1, 6))
        while steps and accumulate(NO_CEILING, self.ctx, search):
            steps -= 1
        self.potential = search.lists.potential[: search.counts.potential[0]].tolist()

    def node(self, t: int) -> int:
        return int(self.ctx.state.task.node[t])

    def job(self, t: int) -> int:
        return int(self.ctx.snapshot.tasks.job[t])

    def named(self) -> list[tuple[int, int]]:
        """The tasks of the scenario, in turn, and how often each is named."""
        scenario = self.search.lists.scenario[: self.search.counts.scenario[0]].tolist()
        assert all(
            self.search.nodes.scenario_mark[self.node(t)] == self.search.counts.scenario_clock[0] for t in scenario
        )
        for j in {self.job(t) for t in scenario}:
            chain, t = [], int(self.search.jobs.first_in_scenario[j])
            while t:
                chain.append(t - 1)
                t = int(self.search.tasks.next_in_scenario[t - 1])
            assert chain == [t for t in scenario if self.job(t) == j]
        return [(t, int(self.search.tasks.times[t])) for t in scenario]

    def may_suffice(self, more: list[int]) -> bool:
        """Whether each class of pending tasks has room: with those recorded gone, and again on the nodes of ``more``.

        Room that both count is there twice: the bound may be too high, never too low.
        """
        ctx, snapshot, wanted = self.ctx, self.ctx.snapshot, {}
        for t in self.search.pending[: self.k]:
            wanted[int(snapshot.tasks.cls[t])] = wanted.get(int(snapshot.tasks.cls[t]), 0) + 1
        nodes = {self.node(t) for t in more}
        for c, number in wanted.items():
            room = 0
            for n in np.flatnonzero(ctx.finder.verdicts[0] == Verdict.OK):
                for gone in [self.recorded, *([[*self.recorded, *self.potential]] if n in nodes else [])]:
                    here = [int(snapshot.tasks.cls[t]) for t in gone if self.node(t) == n]
                    free = (ctx.state.idle + ctx.state.releasing)[n] + snapshot.classes.request[here].sum(axis=0)
                    room += slots(snapshot.classes.request[c], free)
            if room < number:
                return False
        return True


def slots(request: np.ndarray, free: np.ndarray) -> int:
    """How many pods fit one after the other."""
    count = 0
    while (request <= free - count * request).all() and count < 99:
        count += 1
    return count


@given(crowded(), st.data())
def test_a_local_scenario_takes_all_of_the_jobs_on_the_node(snapshot: Snapshot, data: st.DataObject) -> None:
    """First the recorded ones, as often again where their job has more; then job by job as they became potential."""
    here = Accumulation(snapshot, data)
    if here.k < 2:
        return
    for n in range(snapshot.nodes.condition.size):
        jobs = list(dict.fromkeys(here.job(t) for t in here.potential if here.job(t) in jobs_on(here, n)))
        more = [t for j in jobs for t in here.potential if here.job(t) == j]
        found = node_local_scenario(n, here.ctx, here.search)
        if not more:
            assert not found
            continue
        assert here.named() == [(t, 2 if here.job(t) in jobs else 1) for t in here.recorded] + [(t, 1) for t in more]
        assert found == here.may_suffice(more)
        groups = [(here.search.tasks.recorded_with[t], here.job(t)) for t in [*here.recorded, *more]]
        assert len(set(groups)) == len({j for _, j in groups})


def jobs_on(here: Accumulation, n: int) -> set[int]:
    return {here.job(t) for t in here.potential if here.node(t) == n}


@given(crowded(), st.data())
def test_nodes_are_ranked_by_what_they_could_have(snapshot: Snapshot, data: st.DataObject) -> None:
    """The tightest first; too small ones are left out; the first size is the fewest that could have enough GPUs."""
    here = Accumulation(snapshot, data)
    ctx, search = here.ctx, here.search
    if not here.k or not here.potential:
        return
    quota, cls = snapshot.classes.quota[:, GPU], snapshot.tasks.cls
    own = np.maximum(0.0, gpus_with(here, here.recorded))
    assert free_gpus_without_recorded(ctx.state, search) == own.sum()
    capacity = np.maximum(0.0, gpus_with(here, [*here.recorded, *here.potential]))
    order = list(dict.fromkeys(here.node(t) for t in here.potential))
    asks = [quota[cls[t]] for t in search.pending[: here.k]]
    ranked = sorted((capacity[n], place) for place, n in enumerate(order) if not 0 < min(asks) > capacity[n])
    need = max(0.0, sum(asks) - (own.sum() - own[order].sum()))
    sizes = [size for size in range(len(ranked) + 1) if sum(room for room, _ in ranked[:size]) >= need]
    total, size = rank_nodes(here.k, own.sum(), snapshot, ctx.state, search)
    assert search.original.rank[:total].tolist() == [place for _, place in ranked]
    assert size == (sizes[0] if sizes else NULL)
    for size in range(total + 1):
        found = multi_node_scenario(size, ctx, search)
        chosen = {order[place] for _, place in ranked[:size]}
        chunks = {search.tasks.chunk_of[t] for t in here.potential if here.node(t) in chosen}
        more = [t for t in here.potential if search.tasks.chunk_of[t] in chunks]
        assert here.named() == [(t, 1) for t in [*here.recorded, *more]]
        assert found == here.may_suffice(more)


def gpus_with(here: Accumulation, gone: list[int]) -> np.ndarray:
    """Free GPUs of each node with these gone."""
    free = (here.ctx.state.idle + here.ctx.state.releasing)[:, GPU].copy()
    for t in gone:
        free[here.node(t)] += here.ctx.snapshot.classes.quota[here.ctx.snapshot.tasks.cls[t], GPU]
    return free


@given(crowded())
def test_the_nodes_of_a_job(snapshot: Snapshot) -> None:
    """By name, each once, also those of pods that leave."""
    ctx, search = searching(snapshot)
    for j in range(snapshot.jobs.queue.size):
        used = [t for t in rows_of(snapshot, j) if ctx.state.task.status[t] in {*TAKES_ROOM, Status.RELEASING}]
        length = hosts(j, snapshot, ctx.state, search)
        assert search.hosts[:length].tolist() == sorted({int(ctx.state.task.node[t]) for t in used})


def test_one_node_takes_a_gang_off_the_other_one_too() -> None:
    """Jobs 0 and 1 run on node 0, job 1 on node 1 as well: its scenario has job 0 only where that is on the node."""
    snapshot = assemble(
        [Member(1, [Status.RUNNING]), Member(2, [Status.RUNNING] * 2), Member(2, [Status.PENDING] * 2)],
        nodes=node_table([[4.0, 8.0, 2.0, 9.0, 0.0]] * 2),
        request=[[0.0, 0.0, 1.0, 1.0, 0.0]],
        tasks={"node": [0, 0, 1, NULL, NULL]},
    )
    ctx, search = scenario_of(snapshot, [3, 4])
    assert node_local_scenario(1, ctx, search)
    assert search.lists.scenario[: search.counts.scenario[0]].tolist() == [1, 2]
    assert node_local_scenario(0, ctx, search)
    assert sorted(search.lists.scenario[: search.counts.scenario[0]].tolist()) == [0, 1, 2]


def scenario_of(snapshot: Snapshot, pending: list[int]) -> tuple[Context, Search]:
    """With everybody accumulated for these pending tasks."""
    ctx, search = searching(snapshot, ALL_ON)
    search.pending[: len(pending)] = pending
    count_kinds(len(pending), ctx, search)
    begin(NO_CEILING, False, ctx, search)
    while accumulate(NO_CEILING, ctx, search):
        pass
    return ctx, search
