"""The node for a pod (semantics 3.5, 9, 12.2 step 6): remembered blocks, full scores and a plain sort agree on it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.choices import Placement
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import CPU, GPU, Settings, Snapshot, Status, TermKind, TermRole, TermRoles, freeze
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.jit import entry
from kai_sched.solver.kernels import attempt, find, score, undo
from kai_sched.solver.state import Context, State
from tests.unit.solver.neighbours import carried, entries_of, matching, refused
from tests.unit.solver.tables import (
    ALL_ON,
    Member,
    assemble,
    node_table,
    opened,
    pointers,
    snapshots,
    table,
    term_table,
)

put = entry(attempt.place_on_node)
best_node = entry(attempt.best_node)
find_node = entry(find.find_node)
placement_score = entry(score.placement_score)
score_nodes = entry(score.score_nodes)
rollback = entry(undo.rollback)
touch = entry(undo.touch)

OFF, BINPACK, SPREAD = (int(each) for each in Placement)
PLACEMENTS = st.sampled_from([OFF, BINPACK, SPREAD])
SETTINGS = st.builds(
    ALL_ON._replace,
    nominated_points=st.sampled_from([0.0, 500.0, 1e7]),
    affinity_points=st.sampled_from([0.0, 1e6]),
    available_points=st.sampled_from([0.0, 1000.0]),
    cpu_node_points=st.sampled_from([0.0, 10.0]),
    gpu_placement=PLACEMENTS,
    cpu_placement=PLACEMENTS,
    elastic_order=st.just(1),
    priority_order=st.just(1),
    allocate_depth=st.just(9),
)


class Pods:
    """Who is on which node, counted anew from the tasks: what inter-pod terms and host ports look at."""

    def __init__(self, snapshot: Snapshot, state: State) -> None:
        self.snapshot = snapshot
        placed = [
            (int(snapshot.tasks.cls[t]), int(state.task.node[t]), state.task.status[t] == Status.RELEASING)
            for t in range(snapshot.tasks.job.size)
            if state.task.node[t] != NULL and state.task.status[t] >= Status.PIPELINED
        ]
        self.placed = [(c, n) for c, n, _ in placed]
        self.staying = [(c, n) for c, n, leaves in placed if not leaves]
        self.leaving = [(c, n) for c, n, leaves in placed if leaves]

    def accept(self, c: int, n: int) -> bool:
        """Required affinity, and nobody who stays is an obstacle."""
        needs = [row for role, row, _ in entries_of(self.snapshot, c) if role == TermRole.NEED]
        first = self.first_of_kind(c)
        near = all(
            self.snapshot.terms.domain[row, n] != NULL and (matching(self.snapshot, row, n, self.placed) or first)
            for row in needs
        )
        return near and not refused(self.snapshot, c, n, self.staying)

    def waits(self, c: int, n: int) -> bool:
        """Whether somebody has to be gone first."""
        return refused(self.snapshot, c, n, self.leaving)

    def first_of_kind(self, c: int) -> bool:
        """Nobody on a node with the label matches a required term of the class, and its own pods match all of them."""
        entries = entries_of(self.snapshot, c)
        needs = [row for role, row, _ in entries if role == TermRole.NEED]
        own = [row for role, row, _ in entries if role == TermRole.MATCH]
        nodes = range(self.snapshot.nodes.condition.size)
        somebody = any(matching(self.snapshot, a, n, self.placed) for a in needs for n in nodes)
        return set(needs) <= set(own) and not somebody

    def liking(self, c: int, n: int) -> float:
        """The raw sum of preferred terms: its own by who matches, those of others that it matches."""
        liked = 0
        for role, row, weight in entries_of(self.snapshot, c):
            if role != TermRole.PORT and self.snapshot.terms.kind[row] == TermKind.PREFERRED:
                if role == TermRole.CARRY:
                    liked += weight * matching(self.snapshot, row, n, self.placed)
                else:
                    liked += carried(self.snapshot, row, n, self.placed)
        return float(liked)


def literal_best(books: Context, settings: Settings, c: int, nominated: int = NULL) -> int:
    """Every node scored (semantics 9), sorted by (score descending, row); the first that takes the pod."""
    snapshot, state = books.snapshot, books.state
    nodes, request, cpu_only = snapshot.nodes, snapshot.classes.request[c], bool(snapshot.classes.cpu_only[c])
    r = CPU if cpu_only else GPU
    placement = settings.cpu_placement if cpu_only else settings.gpu_placement
    room = state.idle + state.releasing
    rooms = [room[n, r] for n in range(len(room)) if nodes.allocatable[n, r] != 0]
    pods = Pods(snapshot, state)

    def packed(n: int) -> float:
        size = nodes.allocatable[n, r] if cpu_only else nodes.devices[n]
        if placement == SPREAD:
            return float(room[n, r] / size) if size else 0.0
        if placement == OFF or nodes.allocatable[n, r] == 0 or max(rooms) == 0:
            return 0.0
        return (
            9.0 if min(rooms) == max(rooms) else float(9 * (1 - (room[n, r] - min(rooms)) / (max(rooms) - min(rooms))))
        )

    def score(n: int) -> float:
        total = settings.nominated_points if n == nominated else 0.0
        total += settings.affinity_points * pods.liking(c, n)
        total += settings.available_points if (request <= state.idle[n]).all() and not pods.waits(c, n) else 0.0
        total += settings.cpu_node_points if cpu_only and nodes.cpu_only[n] else 0.0
        return total + packed(n)

    for n in sorted(range(len(room)), key=lambda n: (-score(n), n)):
        if books.finder.verdicts[0, n] == Verdict.OK and (request <= room[n]).all() and pods.accept(c, n):
            return n
    return NULL


def asked_for(books: Context, settings: Settings, c: int, nominated: int) -> Context:
    """Where task 0 is of class ``c`` and has this nominated node."""
    row = freeze(tuple(np.array([each], np.int32) for each in (c, nominated)))
    tasks = books.snapshot.tasks._replace(cls=row[0], nominated=row[1])
    return books._replace(settings=settings, snapshot=books.snapshot._replace(tasks=tasks))


def full_best(books: Context, settings: Settings, c: int, nominated: int = NULL) -> int:
    return int(score_nodes(0, asked_for(books, settings, c, nominated), books.finder.verdicts[0]))


def quick_best(books: Context, settings: Settings, c: int, nominated: int = NULL) -> int:
    """With the memory of all earlier questions."""
    return int(best_node(0, asked_for(books, settings, c, nominated)))


def act(books: Context, settings: Settings, data: st.DataObject) -> None:
    """Something happens: a pod is placed where it fits best, all since the last commit is undone, or a pod leaves."""
    snapshot, state, finder, log = books.snapshot, books.state, books.finder, books.log
    pending = [t for t in range(snapshot.tasks.job.size) if state.task.status[t] == Status.PENDING]
    what = data.draw(st.sampled_from(["place", "place", "place", "undo", "leave"]))
    if what == "place" and pending:
        t = data.draw(st.sampled_from(pending))
        n = full_best(books, settings, int(snapshot.tasks.cls[t]))
        log.size[:] = 0  # what came before is committed
        if n != NULL:
            put(int(snapshot.tasks.job[t]), t, n, data.draw(st.booleans()), books)
    elif what == "undo":
        rollback(0, 0, books)
    elif what == "leave":
        n = data.draw(st.integers(0, snapshot.nodes.condition.size - 1))
        state.releasing[n, data.draw(st.sampled_from([CPU, GPU]))] += 1.0
        log.size[:] = 0
        touch(finder.block, finder.stamp, n)


@given(snapshots(tied=False), SETTINGS, st.data())
def test_remembered_blocks_give_the_best_node(snapshot: Snapshot, settings: Settings, data: st.DataObject) -> None:
    """After each of a row of placements, rollbacks and departures, for every class of pods."""
    books = opened(snapshot, settings)
    for _ in range(6):
        for c in range(snapshot.classes.signature.size):
            nominated = data.draw(st.sampled_from([NULL, 0]))
            best = quick_best(books, settings, c, nominated)
            assert best == full_best(books, settings, c, nominated)
            assert best == literal_best(books, settings, c, nominated)
            assert nominated != NULL or best == find_node(c, books._replace(settings=settings))
        act(books, settings, data)


@pytest.mark.slow
@given(snapshots(most_nodes=8), SETTINGS, st.data())
def test_full_scores_are_those_of_the_literal_twin(snapshot: Snapshot, settings: Settings, data: st.DataObject) -> None:
    """With inter-pod terms, host ports and nominated nodes; the twin counts the pods anew each time."""
    books = opened(snapshot, settings)
    for _ in range(4):
        for c in range(snapshot.classes.signature.size):
            nominated = data.draw(st.sampled_from([NULL, 0]))
            assert full_best(books, settings, c, nominated) == literal_best(books, settings, c, nominated)
        act(books, settings, data)


def gpu_nodes(free: list[float]) -> Context:
    """Nodes of 8 GPUs with so many idle, and pods of one GPU."""
    books = opened(assemble([Member(1, [Status.PENDING])], nodes=node_table([[9.0, 9.0, 8.0, 99.0, 0.0]] * len(free))))
    books.state.idle[:, GPU] = free
    return books


@pytest.mark.parametrize(
    ("free", "expected"),
    [
        ([8.0, 4.0, 1.0], 2),  # binpack: the fullest node that takes it
        ([8.0, 0.0, 4.0], 2),  # a full node does not
        ([4.0, 4.0], 0),  # by name
        ([0.0, 0.0], NULL),
    ],
)
def test_worked_binpack(free: list[float], expected: int) -> None:
    books = gpu_nodes(free)
    assert quick_best(books, ALL_ON, 0) == full_best(books, ALL_ON, 0) == expected


def test_idle_room_beats_a_tighter_node_that_is_being_left() -> None:
    """Availability outranks packing (9)."""
    books = gpu_nodes([8.0, 0.0])
    books.state.releasing[1, GPU] = 1.0
    assert quick_best(books, ALL_ON, 0) == full_best(books, ALL_ON, 0) == 0
    books.state.idle[0, GPU] = 0.0
    touch(books.finder.block, books.finder.stamp, 0)
    assert quick_best(books, ALL_ON, 0) == full_best(books, ALL_ON, 0) == 1


def test_spread_takes_the_node_with_the_larger_free_part() -> None:
    settings = ALL_ON._replace(gpu_placement=SPREAD)
    books = gpu_nodes([2.0, 6.0, 4.0])
    assert quick_best(books, settings, 0) == full_best(books, settings, 0) == 1


def test_the_nominated_node_wins_if_it_takes_the_pod() -> None:
    books = gpu_nodes([1.0, 8.0, 0.0])
    assert quick_best(books, ALL_ON, 0, 1) == full_best(books, ALL_ON, 0, 1) == 1
    assert quick_best(books, ALL_ON, 0, 2) == full_best(books, ALL_ON, 0, 2) == 0
    books.state.releasing[2, GPU] = 1.0
    assert quick_best(books, ALL_ON, 0, 2) == full_best(books, ALL_ON, 0, 2) == 2


def test_settings_may_let_other_points_outweigh_a_nomination() -> None:
    """Here those for room that is there already."""
    books, settings = gpu_nodes([1.0, 0.0]), ALL_ON._replace(nominated_points=500.0)
    books.state.releasing[1, GPU] = 1.0
    assert quick_best(books, settings, 0, 1) == full_best(books, settings, 0, 1) == 0


def tied(kind: TermKind, mine: list[TermRole], theirs: list[TermRole], weight: int = 1) -> Context:
    """Four alike nodes in two zones, 0 and 1 in the first. A pending pod of class 0, one of class 1 runs on node 3.

    ``mine``, ``theirs``: how each class is tied to the one term, by zone.
    """
    terms = term_table([kind], [[0, 0, 1, 1]])
    entries = [(role, 0, weight if role == TermRole.CARRY else 1) for role in [*mine, *theirs]]
    self_match = [TermRole.NEED not in term_roles or TermRole.MATCH in term_roles for term_roles in (mine, theirs)]
    term_roles = table(TermRoles, ptr=pointers([len(mine), len(theirs)]), entry=entries, self_match=self_match)
    return opened(
        assemble(
            [Member(1, [Status.PENDING]), Member(1, [Status.RUNNING])],
            nodes=node_table([[9.0, 9.0, 8.0, 99.0, 0.0]] * 4),
            request=[[0.0, 0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0]],
            ties=(terms, term_roles, 2, 0),
            tasks={"cls": [0, 1], "node": [NULL, 3]},
        )
    )


@pytest.mark.parametrize(
    ("kind", "mine", "theirs", "weight", "expected"),
    [
        # required affinity: where a pod that matches is; nowhere without one; anywhere for the first of a kind
        (TermKind.REQUIRED, [TermRole.NEED], [TermRole.MATCH], 1, 2),
        (TermKind.REQUIRED, [TermRole.NEED], [], 1, NULL),
        (TermKind.REQUIRED, [TermRole.NEED, TermRole.MATCH], [], 1, 0),
        # anti-affinity of the pod, and of the one that runs
        (TermKind.ANTI, [TermRole.CARRY], [TermRole.MATCH], 1, 0),
        (TermKind.ANTI, [TermRole.MATCH], [TermRole.CARRY], 1, 0),
        # preferences, by weight: towards, away, and those of the one that runs
        (TermKind.PREFERRED, [TermRole.CARRY], [TermRole.MATCH], 5, 2),
        (TermKind.PREFERRED, [TermRole.CARRY], [TermRole.MATCH], -5, 0),
        (TermKind.PREFERRED, [TermRole.MATCH], [TermRole.CARRY], 5, 2),
        (TermKind.PREFERRED, [TermRole.MATCH], [TermRole.CARRY], -5, 0),
        (TermKind.PREFERRED, [TermRole.MATCH], [TermRole.MATCH], 5, 0),
    ],
)
def test_worked_inter_pod_terms(
    kind: TermKind, mine: list[TermRole], theirs: list[TermRole], weight: int, expected: int
) -> None:
    books = tied(kind, mine, theirs, weight)
    assert full_best(books, ALL_ON, 0) == literal_best(books, ALL_ON, 0) == expected


@pytest.mark.parametrize(("held", "expected"), [([0, 0], 0), ([1, 0], 1), ([1, 1], NULL)])
def test_a_host_port_is_held_once_on_a_node(held: list[int], expected: int) -> None:
    books = opened(
        assemble(
            [Member(1, [Status.PENDING])],
            nodes=node_table([[9.0, 9.0, 8.0, 99.0, 0.0]] * 2),
            ties=(
                term_table([], np.zeros((0, 2))),
                table(TermRoles, ptr=[0, 1], entry=[(TermRole.PORT, 0, 1)], self_match=[1]),
                0,
                1,
            ),
        )
    )
    books.state.ports[:, 0] = held
    assert full_best(books, ALL_ON, 0) == expected


@pytest.mark.parametrize(("free", "expected"), [(1.0, 9.0), (4.0, 9 * (1 - 3 / 7)), (8.0, 0.0)])
def test_worked_binpack_scores(free: float, expected: float) -> None:
    """The example of semantics 9: free 1, 4, 8 give 9, 5.14, 0."""
    assert math.isclose(placement_score(free, 8.0, 8.0, BINPACK, 1.0, 8.0), expected)


def test_a_changed_node_is_seen_only_once_it_is_told() -> None:
    """The memory is what makes a placement cheap: a block is looked through again only after a touch."""
    books = gpu_nodes([1.0, 4.0])
    assert quick_best(books, ALL_ON, 0) == 0
    books.state.idle[0, GPU] = 0.0
    assert quick_best(books, ALL_ON, 0) == 0
    touch(books.finder.block, books.finder.stamp, 0)
    assert quick_best(books, ALL_ON, 0) == 1
    assert np.array_equal(books.finder.seen[0], books.finder.stamp)
