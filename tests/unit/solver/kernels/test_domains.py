"""Which topology domains are tried, in which order, and their points (semantics 10.1, 10.3), beside a twin on lists."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Snapshot, Status, Topologies
from kai_sched.solver.state import Context
from tests.afresh import afresh
from tests.unit.solver.tables import ALL_ON, Member, assemble, node_table, opened, pointers, table

(domains,) = afresh("solver.kernels.domains")

Path = tuple[str, ...]
MINIMAL = ALL_ON._replace(minimal=1)
ORIGINAL = ALL_ON._replace(minimal=0)
WIDE = 100.0


@dataclass
class Case:
    """Nodes with free amounts (CPU, GPUs, pod slots) in domains, or in none, and pods that ask for CPU and GPUs."""

    paths: list[Path | None]
    free: list[tuple[float, float, float]]
    pods: list[tuple[float, float]]
    required: int = 0
    preferred: int = 0
    depth: int = 2
    running: list[int] = field(default_factory=list)  # nodes on which pods of the set run
    nominated: int = NULL


def topology_table(paths: list[Path | None], depth: int) -> tuple[Topologies, list[Path]]:
    """One topology with the nodes at these paths, and the domains of its rows."""
    there = sorted((path, n) for n, path in enumerate(paths) if path is not None)
    rows: list[Path] = [()]
    for level in range(1, depth + 1):
        rows += sorted({path[:level] for path, _ in there})
    children = [[h for h, row in enumerate(rows) if row and row[:-1] == above] for above in rows]
    inside = [[at for at, (path, _) in enumerate(there) if path[: len(row)] == row] for row in rows]
    columns: dict[str, Any] = {
        "ptr": [0, len(rows)],
        "level": [len(row) for row in rows],
        "parent": [rows.index(row[:-1]) if row else NULL for row in rows],
        "child_ptr": [min(below, default=0) for below in children],
        "child_end": [max(below, default=-1) + 1 for below in children],
        "first": [min(places, default=0) for places in inside],
        "end": [max(places, default=-1) + 1 for places in inside],
        "node": [n for _, n in there],
        "leaf": np.array([[NULL if path is None else rows.index(path) for path in paths]]),
    }
    return table(Topologies, **columns), rows


def snapshot_of(case: Case) -> tuple[Snapshot, list[Path]]:
    """The pods of the case as one set with its constraint, on nodes that have what is free."""
    statuses = [Status.PENDING] * len(case.pods) + [Status.RUNNING] * len(case.running)
    request = [[cpu, 0.0, gpu, 1.0, 0.0] for cpu, gpu in case.pods] + [[0.0] * 5]
    tasks = {
        "cls": [*range(len(case.pods)), *[len(case.pods)] * len(case.running)],
        "node": [*[NULL] * len(case.pods), *case.running],
        "nominated": [case.nominated] * len(statuses),
    }
    nodes = node_table([[WIDE, WIDE, WIDE, WIDE, 0.0] for _ in case.paths])
    made = assemble([Member(1, statuses=statuses)], nodes=nodes, request=request, tasks=tasks)
    topologies, rows = topology_table(case.paths, case.depth)
    levels = {"topology": [0], "required": [case.required], "preferred": [case.preferred]}
    sets = made.sets._replace(**{name: np.array(value, np.int32) for name, value in levels.items()})
    return made._replace(sets=sets, topologies=topologies), rows


def context_of(case: Case, settings: Any = MINIMAL) -> tuple[Context, list[Path]]:
    """What the kernel gets for the first task of the set."""
    snapshot, rows = snapshot_of(case)
    ctx = opened(snapshot, settings)
    for n, (cpu, gpu, slots) in enumerate(case.free):
        ctx.state.idle[n, 0], ctx.state.idle[n, 2], ctx.state.idle[n, 3] = cpu, gpu, slots
    topo = ctx.scratch.topology
    topo.set[0], topo.first[0], topo.end[0] = 0, 0, len(case.pods)
    ctx.scratch.chunk[: len(case.pods)] = range(len(case.pods))
    return ctx, rows


def tried(case: Case, settings: Any = MINIMAL) -> list[Path]:
    """The domains that the kernel lists."""
    ctx, rows = context_of(case, settings)
    domains.list_domains(0, ctx)
    topo = ctx.scratch.topology
    return [rows[h] for h in topo.candidate[0, : topo.n_candidates[0]]]


class Twin:
    """The same on lists."""

    def __init__(self, case: Case, original: bool) -> None:
        self.case, self.first = case, case.preferred or case.required
        self.at = {n: path for n, path in enumerate(case.paths) if path is not None}
        lowest = case.depth if original and not case.preferred else self.first
        shared = [next(iter(self.at.values()))[:n] for n in range(lowest + 1)] if self.at else [()]
        self.start = [path for path in shared if all(other[: len(path)] == path for other in self.at.values())][-1]
        self.original = original

    def nodes(self, domain: Path) -> list[int]:
        return [n for n, path in self.at.items() if path[: len(domain)] == domain]

    def ratio(self, domain: Path) -> float:
        parts = [0.0]
        for r in range(2):
            asked, free = sum(pod[r] for pod in self.case.pods), sum(self.case.free[n][r] for n in self.nodes(domain))
            parts += [asked / free if free > 0 else 1000.0] if asked else []
        return max(parts)

    def holds(self, domain: Path) -> bool:
        asking = [pod[1] > 0 for pod in self.case.pods]
        if any(asking) != all(asking) or (not self.original and len(set(self.case.pods)) > 1):
            return self.ratio(domain) <= 1
        return sum(map(self.room, self.nodes(domain))) >= len(self.case.pods)

    def room(self, n: int) -> int:
        largest = [max(pod[r] for pod in self.case.pods) for r in range(2)] + [1.0]
        if any(free < 0 for free in self.case.free[n]):
            return 0
        counted = [int(free // most) for free, most in zip(self.case.free[n], largest, strict=True) if most]
        return 10**6 if largest[:2] == [0.0, 0.0] and counted[0] > 0 else min(counted)

    def level(self, level: int) -> list[Path]:
        if level <= len(self.start):
            return [] if self.original and level < len(self.start) else [self.start[:level]]
        below = range(len(self.start) + 1, level + 1)
        found = {path[:level] for path in self.at.values()}
        return sorted(found, key=lambda path: [(-self.ratio(path[:n]), path[:n]) for n in below])

    def tried(self) -> list[Path]:
        if not self.at:
            return []
        case = self.case
        found = [path for level in range(self.first, case.required - 1, -1) for path in self.level(level)]
        found = [path for path in found if self.holds(path)]
        if case.required and case.running:
            kept = {self.at[n][: case.required] for n in case.running if n in self.at}
            found = [path for path in found if path[: case.required] in kept]
        home = self.at.get(case.nominated)
        liked = [path for path in found if home and home[: len(path)] == path and not self.original][:1]
        return liked + [path for path in found if path not in liked]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Few nodes and values: ties, full nodes and nodes that hold more than they have are frequent."""
    depth = draw(st.integers(1, 3))
    path = st.tuples(*[st.sampled_from("ab")] * depth)
    paths = draw(st.lists(st.one_of(path, path, path, st.none()), min_size=1, max_size=8))
    amounts = st.tuples(*(st.sampled_from(values) for values in ((1.0, 4.0), (-1.0, 0.0, 1.0, 2.0, 4.0), (1.0, 9.0))))
    free = draw(st.lists(amounts, min_size=len(paths), max_size=len(paths)))
    pod = st.tuples(st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 1.0, 1.0, 2.0]))
    pods = draw(st.one_of(st.lists(pod, min_size=1, max_size=4), st.tuples(pod, st.integers(1, 4)).map(_repeated)))
    levels = draw(
        st.sampled_from([(r, p) for r in range(depth + 1) for p in range(depth + 1) if (r or p) and not 0 < p < r])
    )
    node = st.integers(0, len(paths) - 1)
    running = draw(st.one_of(st.just([]), st.just([]), st.lists(node, max_size=2)))
    return Case(paths, free, pods, *levels, depth, running, draw(st.one_of(st.just(NULL), node)))


def _repeated(drawn: tuple[tuple[float, float], int]) -> list[tuple[float, float]]:
    return [drawn[0]] * drawn[1]


@given(cases(), st.booleans())
def test_domains_are_those_of_the_twin(case: Case, original: bool) -> None:
    assert tried(case, ORIGINAL if original else MINIMAL) == Twin(case, original).tried()


@given(cases())
def test_nothing_but_scratch_is_written(case: Case) -> None:
    ctx, _ = context_of(case)
    before = (ctx.state.floats.tobytes(), ctx.state.integers.tobytes())
    domains.list_domains(0, ctx)
    assert (ctx.state.floats.tobytes(), ctx.state.integers.tobytes()) == before


@given(cases())
def test_the_roomiest_domain_has_the_most_points(case: Case) -> None:
    ctx, rows = context_of(case)
    domains.list_domains(0, ctx)
    twin = Twin(case, original=False)
    if not case.preferred or not twin.at:
        return
    ordered = twin.level(case.preferred)
    for place, path in enumerate(ordered, 1):
        points = ctx.scratch.topology.points[0, rows.index(path)]
        assert points == 10 * place // len(ordered) * 100_000


FREE = (WIDE, 2.0, WIDE)
TWO = [(1.0, 1.0)] * 2


def test_a_topology_without_nodes_has_no_domain_to_try() -> None:
    assert tried(Case([None, None], [FREE, FREE], TWO, required=1)) == []


def test_a_single_node_is_in_all_its_domains() -> None:
    case = Case([("a", "r")], [FREE], TWO, preferred=2)
    assert tried(case) == [("a", "r"), ("a",), ()]
    assert tried(case, ORIGINAL) == [("a", "r")]


def test_a_wider_required_level_never_fits_in_the_original() -> None:
    case = Case([("a", "r")], [FREE], TWO, required=1)
    assert tried(case) == [("a",)]
    assert tried(case, ORIGINAL) == []


def test_nodes_without_labels_hold_nobody() -> None:
    full = (WIDE, 1.0, WIDE)
    assert tried(Case([("a", "r"), None], [full, FREE], TWO, required=1)) == []


def test_equal_domains_go_by_value() -> None:
    assert tried(Case([("b", "r"), ("a", "r")], [FREE, FREE], TWO, required=1)) == [("a",), ("b",)]


@pytest.mark.parametrize("held_too_much", [(-1.0, 2.0, WIDE), (WIDE, -1.0, WIDE), (WIDE, 2.0, -1.0)])
def test_a_node_that_holds_more_than_it_has_takes_no_pod(held_too_much: tuple[float, float, float]) -> None:
    """Whether or not the pods ask for what it has less than nothing of."""
    for pods in ([(0.0, 1.0)] * 2, TWO):
        case = Case([("a", "r"), ("b", "r")], [held_too_much, FREE], pods, required=1)
        assert tried(case) == [("b",)]


def test_less_than_nothing_is_taken_from_what_other_nodes_of_the_domain_have() -> None:
    """By the ratio, which counts where the pods cannot be counted."""
    over, mixed = (WIDE, -1.0, WIDE), [(1.0, 2.0), (1.0, 0.0)]
    assert tried(Case([("a", "r"), ("a", "s")], [over, FREE], mixed, required=1)) == []
    assert tried(Case([("a", "r"), ("a", "s")], [(WIDE, 0.0, WIDE), FREE], mixed, required=1)) == [("a",)]


def test_where_nothing_is_free_the_ratio_is_a_thousand() -> None:
    """So such a domain comes first in the order of points, and gets the fewest."""
    case = Case([("a",), ("b",), ("c",)], [FREE, (WIDE, 0.0, WIDE), (WIDE, 1.0, WIDE)], TWO, preferred=1, depth=1)
    ctx, rows = context_of(case)
    domains.list_domains(0, ctx)
    topo = ctx.scratch.topology
    assert topo.ratio[rows.index(("b",))] == 1000.0
    assert {rows[h]: topo.points[0, h] for h in range(1, 4)} == {("b",): 3e5, ("c",): 6e5, ("a",): 1e6}


def test_the_domain_of_the_nominated_node_comes_first() -> None:
    case = Case([("a", "r"), ("b", "r")], [FREE, (WIDE, 4.0, WIDE)], TWO, required=1, nominated=1)
    assert tried(case) == [("b",), ("a",)]
    assert tried(case, ORIGINAL) == [("a",), ("b",)]


def test_in_the_original_pods_of_which_some_ask_for_no_cpu_are_counted() -> None:
    """In pods of the largest request of each resource, so that one of 2 is the most."""
    pods = [(1.0, 1.0), (0.0, 1.0)]
    case = Case([("a", "r"), ("a", "s")], [(1.0, 2.0, WIDE), (0.0, 0.0, WIDE)], pods, required=1)
    assert tried(case, ORIGINAL) == []
    assert tried(case) == [("a",)]


def test_who_runs_outside_the_topology_leaves_no_domain() -> None:
    """None is one in which such a pod is."""
    assert tried(Case([("a", "r"), None], [FREE, FREE], TWO, required=1, running=[1])) == []


def test_tables_of_the_twin_are_in_one_piece() -> None:
    """What the kernels count on: children side by side, and the nodes of each domain."""
    topologies, rows = topology_table([("b", "s"), ("a", "r"), None, ("a", "s")], 2)
    assert rows == [(), ("a",), ("b",), ("a", "r"), ("a", "s"), ("b", "s")]
    assert list(zip(topologies.child_ptr, topologies.child_end, strict=True))[:3] == [(1, 3), (3, 5), (5, 6)]
    assert pointers([1, 1, 1]) == [*topologies.first[3:], topologies.end[5]]
