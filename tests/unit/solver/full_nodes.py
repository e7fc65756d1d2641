"""Nodes that are full of pods of one-pod jobs, and a job of a higher priority: small enough to search by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Settings, Status
from kai_sched.solver.eviction.rules import losses
from kai_sched.solver.eviction.tables import Preemptor, Search
from kai_sched.solver.eviction.victims import potential as potential_victims
from kai_sched.solver.jit import entry
from kai_sched.solver.state import Context
from tests.unit.solver.searches import MINIMAL, searching
from tests.unit.solver.tables import Member, assemble, node_table

begin = entry(potential_victims.begin_accumulation)
accumulate = entry(potential_victims.accumulate)
count_kinds = entry(potential_victims.count_kinds)
keep_old_shares = entry(losses.keep_old_shares)

PREEMPT = int(Action.PREEMPT)
CEILING = 70  # the priority of the job that waits


@dataclass
class Full:
    """Task ``t`` is that of job ``t``; job ``p`` is the one that waits, the last one if it has several ``pods``."""

    ctx: Context = field(repr=False)
    search: Search = field(repr=False)
    p: int
    pods: int = 1

    @property
    def size(self) -> float:
        """How many GPUs each pod of the job asks for."""
        return self.gpus(self.p)

    @property
    def preemptor(self) -> Preemptor:
        total = self.pods * self.size
        return Preemptor(PREEMPT, self.p, self.pods, CEILING, (0.0, 0.0, total), total, False)

    def gpus(self, t: int) -> float:
        return float(self.ctx.snapshot.classes.quota[self.ctx.snapshot.tasks.cls[t], GPU])

    def home(self, t: int) -> int:
        return int(self.ctx.snapshot.tasks.node[t])

    def victims(self) -> list[int]:
        """In the order of 4.3: the lowest priority first, then the newest."""
        jobs = self.ctx.snapshot.jobs
        may_go = [
            j for j in range(jobs.queue.size) if j != self.p and jobs.preemptible[j] and jobs.priority[j] < CEILING
        ]
        return sorted(may_go, key=lambda j: (jobs.priority[j], -j))

    def nodes(self) -> range:
        return range(self.ctx.snapshot.nodes.condition.size)

    def room(self, n: int, gone: list[int]) -> float:
        """Free GPUs of a node once these have gone, if it was full."""
        return sum(self.gpus(t) for t in gone if self.home(t) == n)

    def is_enough(self, gone: list[int]) -> bool:
        """Whether all pods of the job find room once these have gone."""
        return sum(self.room(n, gone) // self.size for n in self.nodes()) >= self.pods

    def needed_on(self, n: int, victims: list[int]) -> list[int]:
        """The first of these, in their order, that have to leave the node; none if all of them are not enough."""
        there = [t for t in victims if self.home(t) == n]
        for length in range(1, len(there) + 1):
            if self.room(n, there[:length]) >= self.size:
                return there[:length]
        return []

    def accumulate_all(self) -> None:
        count_kinds(1, self.ctx, self.search)
        begin(CEILING, False, self.ctx, self.search)
        while accumulate(CEILING, self.ctx, self.search):
            pass
        found = self.search.lists.potential[: self.search.counts.potential[0]].tolist()
        assert found == self.victims()
        self.search.queues.gives_up[:] = 1


@st.composite
def full_nodes(draw: st.DrawFn, settings: Settings = MINIMAL, most_pods: int = 1) -> Full:
    """One to three nodes."""
    sizes = draw(st.lists(st.sampled_from([2, 3, 4]), min_size=1, max_size=3))
    pods: list[tuple[int, int]] = []  # node and GPUs
    for n, left in enumerate(sizes):
        while left:
            gpus = draw(st.integers(1, min(3, left)))
            left -= gpus
            pods.append((n, gpus))
    pods = draw(st.permutations(pods))
    length = draw(st.integers(1, most_pods))
    p = draw(st.integers(0, len(pods))) if length == 1 else len(pods)
    pods = [*pods[:p], (NULL, draw(st.integers(1, 4))), *pods[p:]]
    priorities = draw(st.lists(st.sampled_from([50, 50, 60, 80]), min_size=len(pods), max_size=len(pods)))
    priorities[p] = CEILING
    snapshot = assemble(
        [Member(length, [Status.PENDING] * length) if n == NULL else Member(1, [Status.RUNNING]) for n, _ in pods],
        nodes=node_table([[9.0, 9.0, gpus, 20.0, 0.0] for gpus in sizes]),
        request=[[0.0, 0.0, gpus, 1.0, 0.0] for gpus in (1.0, 2.0, 3.0, 4.0)],
        tasks={
            "node": [n for n, _ in pods] + [NULL] * (length - 1),
            "cls": [gpus - 1 for _, gpus in pods] + [pods[p][1] - 1] * (length - 1),
        },
        jobs={"priority": priorities, "preemptible": [int(priority != 80) for priority in priorities]},
    )
    ctx, search = searching(snapshot, settings)
    ctx.log.size[:] = 0
    search.pending[:length] = search.minimal.pending_in_order[:length] = range(p, p + length)
    search.counts.pending[0] = length
    keep_old_shares(ctx.state.book, search.queues)
    assert not (ctx.state.idle + ctx.state.releasing)[:, GPU].any()
    return Full(ctx, search, p, length)


def come_back(full: Full, away: list[int], kept: set[int]) -> None:
    """Those that are away come back, in this order, where they find room; ``kept``: those of whom that is true so far.

    Which of several nodes it is does not matter here: it is read from the state.
    """
    node, status = full.ctx.state.task.node, full.ctx.state.task.status
    free = np.array([full.room(n, away) for n in full.nodes()])
    free[node[full.p]] -= full.size
    for t in away:
        found = status[t] in (Status.RUNNING, Status.PIPELINED)
        assert found == bool((free >= full.gpus(t)).any()), (t, free)
        if found:
            free[node[t]] -= full.gpus(t)
            kept.add(t)
    assert (free >= 0).all()
