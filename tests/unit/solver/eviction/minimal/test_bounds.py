"""Bounds of the minimal search (semantics 4.5 to 4.7): never below what the rules let go, in whatever order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Status
from kai_sched.solver.eviction.minimal.candidate_sets import TOGETHER
from kai_sched.solver.eviction.tables import Preemptor, Search
from kai_sched.solver.state import Context
from tests.afresh import afresh
from tests.unit.solver.searches import MINIMAL, searching
from tests.unit.solver.tables import UNLIMITED, Member, assemble, node_table, queue_table

minimal_bounds, losses = afresh("solver.eviction.minimal.bounds", "solver.eviction.rules.losses")
note_who_gives = minimal_bounds.note_who_gives
shares_forbid_all = minimal_bounds.shares_forbid_all
last_chunk = minimal_bounds.last_chunk
may_supply = minimal_bounds.may_supply
lacks_relief = minimal_bounds.lacks_relief
hosts_suffice = minimal_bounds.hosts_suffice
keep_old_shares = losses.keep_old_shares

CONSOLIDATION, RECLAIM, PREEMPT = int(Action.CONSOLIDATION), int(Action.RECLAIM), int(Action.PREEMPT)
CHUNKS = st.lists(st.tuples(st.integers(1, 2), st.integers(1, 3)), min_size=1, max_size=5)
AMOUNTS = st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0, UNLIMITED]), min_size=3, max_size=3)


class Reclaim:
    """Chunks of one pod in two queues beside the reclaimer's, which asks for GPUs; CPU and memory do not matter."""

    def __init__(
        self, chunks: list[tuple[int, int]], asks: int, fair: list[float], quota: list[float], mult: float
    ) -> None:
        total = float(sum(gpus for _, gpus in chunks))
        snapshot = assemble(
            [Member(1, [Status.PENDING]), *[Member(1, [Status.RUNNING]) for _ in chunks]],
            queue_table([NULL, NULL, NULL]),
            node_table([[9.0, 9.0, max(total, asks), 99.0, 0.0]]),
            [[0.0, 0.0, gpus, 1.0, 0.0] for gpus in (1.0, 2.0, 3.0)],
            tasks={"cls": [asks - 1, *[gpus - 1 for _, gpus in chunks]], "node": [NULL, *[0] * len(chunks)]},
            jobs={"queue": [0, *[q for q, _ in chunks]]},
        )
        self.ctx: Context
        self.search: Search
        self.ctx, self.search = searching(snapshot, MINIMAL._replace(saturation=mult))
        book = self.ctx.state.book
        for column, values in ((book.fair, fair), (book.quota, quota), (book.share, np.maximum(fair, quota))):
            column[:-1] = UNLIMITED
            column[:-1, GPU] = values
        self.fair, self.quota, self.share = fair, quota, np.maximum(fair, quota)
        self.held = book.held[:-1, GPU].tolist()
        self.search.queues.is_open[0] = 0
        self.search.pending[0] = 0
        self.search.counts.scarce[:] = [0, 0, 1]
        keep_old_shares(book, self.search.queues)
        self.chunks, self.asks, self.mult = chunks, asks, mult

    def preemptor(self, lacking: float) -> Preemptor:
        return Preemptor(RECLAIM, 0, 1, 2**62, (0.0, 0.0, float(self.asks)), lacking, False)

    def allows(self, order: tuple[tuple[int, int], ...]) -> bool:
        """The rules of 4.7, chunk by chunk, and at the end."""
        left = list(self.held)
        deserved = self.held[0] + self.asks <= self.quota[0]
        for q, gpus in order:
            if not (left[q] > self.share[q] or (deserved and left[q] > self.quota[q])):
                return False
            left[q] -= gpus
        mine = ratio(left[0] + self.asks, self.fair[0])
        losers = {q for q, _ in order if self.fair[q] > 0 or self.fair[0] == 0}
        return mine <= 1 or all(mine * self.mult < ratio(left[q], self.fair[q]) for q in losers)

    def most(self) -> float:
        """The most GPUs that any chunks hold together that may go in some order."""
        best = 0.0
        for length in range(1, min(len(self.chunks), 4) + 1):
            for order in itertools.permutations(self.chunks, length):
                gpus = float(sum(size for _, size in order))
                if gpus > best and self.allows(order):
                    best = gpus
        return best


def ratio(amount: float, share: float) -> float:
    if share == UNLIMITED:
        return 0.0
    return amount / share if share else UNLIMITED if amount > 0 else 0.0


RECLAIMS = st.builds(Reclaim, CHUNKS, st.integers(1, 3), AMOUNTS, AMOUNTS, st.sampled_from([1.0, 2.0]))


@given(RECLAIMS)
def test_what_shares_let_go_is_never_called_impossible(case: Reclaim) -> None:
    """Before anybody has come, and after all have."""
    most, (ctx, search) = case.most(), (case.ctx, case.search)
    if most > 0:
        assert not shares_forbid_all(case.preemptor(most), ctx, search)
    note_who_gives(TOGETHER, case.preemptor(most), ctx, search)
    givers = {q for q, _ in case.chunks if search.queues.gives_up[q]}
    assert givers == {q for q, _ in case.chunks if gives_by_the_rules(case, q)}
    gone = 0.0
    for g, (q, gpus) in enumerate(case.chunks):
        search.lists.potential[g], search.lists.chunk_start[g] = g + 1, g
        search.counts.potential[0] = search.counts.n_chunks[0] = g + 1
        amount, gives, alone = last_chunk(case.preemptor(most), ctx, search)
        assert (amount, gives) == (gpus, q in givers)
        assert alone == (gives and case.allows(((q, gpus),)))
        gone += gpus if gives else 0.0
    assert may_supply(gone, case.preemptor(most), ctx, search)
    assert not may_supply(gone, case.preemptor(gone + 1.0), ctx, search)


def gives_by_the_rules(case: Reclaim, q: int) -> bool:
    """One more chunk may be taken from the queue, whatever the rule on siblings says at the end."""
    deserved = case.held[0] + case.asks <= case.quota[0]
    return bool(case.held[q] > case.share[q] or (deserved and case.held[q] > case.quota[q]))


@pytest.mark.parametrize(("lacking", "forbidden"), [(4.0, False), (5.0, True)])
def test_less_than_the_excess_and_one_chunk_goes(lacking: float, forbidden: bool) -> None:
    """Queue 1 holds 4 GPUs in chunks of 2, with a share of 1: both may go. Queue 2 is within its share."""
    case = Reclaim([(1, 2), (1, 2), (2, 1)], 3, [9.0, 1.0, 1.0], [0.0, 0.0, 0.0], 1.0)
    note_who_gives(TOGETHER, case.preemptor(lacking), case.ctx, case.search)
    for g in range(2):
        case.search.lists.potential[g], case.search.lists.chunk_start[g] = g + 1, g
        case.search.counts.potential[0] = case.search.counts.n_chunks[0] = g + 1
        last_chunk(case.preemptor(lacking), case.ctx, case.search)
    assert case.most() == 4.0
    assert may_supply(9.0, case.preemptor(lacking), case.ctx, case.search) == (not forbidden)


def test_a_reclaimer_above_its_share_stays_behind() -> None:
    """It ends at 1 of a fair share of 0: nobody who has one may lose anything for it."""
    case = Reclaim([(1, 2)], 1, [0.0, 1.0, 1.0], [9.0, 0.0, 0.0], 1.0)
    assert case.most() == 0.0
    assert shares_forbid_all(case.preemptor(1.0), case.ctx, case.search)
    case = Reclaim([(1, 2)], 1, [1.0, 1.0, 1.0], [9.0, 0.0, 0.0], 1.0)
    assert not shares_forbid_all(case.preemptor(1.0), case.ctx, case.search)


@given(st.lists(st.tuples(*[st.sampled_from([-1.0, 0.0, 1.0, 2.0])] * 3), min_size=1, max_size=4))
def test_a_pod_fits_some_node_that_is_left(rooms: list[tuple[float, float, float]]) -> None:
    """(idle, releasing, what leaves) of each node; the pod asks for 2."""
    n_nodes = len(rooms)
    snapshot = assemble(
        [Member(1, [Status.PENDING])], nodes=node_table([[9.0] * 5] * n_nodes), request=[[0.0, 0.0, 2.0, 1.0, 0.0]]
    )
    ctx, search = searching(snapshot)
    ctx.state.idle[:, GPU], ctx.state.releasing[:, GPU], search.rooms.requests[:, GPU] = zip(*rooms, strict=True)
    search.pending[0] = 0
    for length in range(n_nodes + 1):
        search.hosts.resize(max(n_nodes, 1), refcheck=False)
        search.hosts[:length] = range(length)
        assert hosts_suffice(length, snapshot, ctx.state, search) == any(sum(room) >= 2 for room in rooms[:length])


@pytest.mark.parametrize(
    ("limit", "quota", "fixed", "expected"), [(2.0, 9.0, 0, True), (3.0, 0.0, 0, False), (3.0, 2.0, 1, True)]
)
def test_limits_and_quotas_in_the_way(limit: float, quota: float, fixed: int, expected: bool) -> None:
    """The queue holds 2 GPUs of jobs like this one, which asks for 1."""
    snapshot = assemble([Member(1, [Status.PENDING])], jobs={"preemptible": [1 - fixed]})
    ctx, _ = searching(snapshot)
    book = ctx.state.book
    book.held[0, GPU] = book.held_fixed[0, GPU] = 2.0
    book.limit[0, GPU], book.quota[0, GPU] = limit, quota
    assert lacks_relief(0, (0.0, 0.0, 1.0), ctx) == expected
