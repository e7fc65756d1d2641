"""The search of v0.17.0 (semantics 4.5): whether it finds victims, against all victims of each node at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.choices import Generator
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Help, Status
from tests.afresh import afresh
from tests.unit.solver.full_nodes import Full, full_nodes
from tests.unit.solver.searches import bits, check_books, searching
from tests.unit.solver.tables import ALL_ON, Member, assemble, node_table

(original_search,) = afresh("solver.eviction.original.search")
find_original_victims = original_search.find_original_victims
next_size = original_search.next_size
lacks_gpus = original_search.lacks_gpus

LOCAL, MULTI, NONE = int(Generator.NODE_LOCAL), int(Generator.MULTI_NODE), int(Generator.NONE)


@pytest.mark.parametrize(("first", "second"), [(LOCAL, NONE), (MULTI, NONE), (LOCAL, MULTI), (NONE, NONE)])
@given(full=full_nodes(ALL_ON, most_pods=4))
def test_victims_are_found_where_there_are_any(first: int, second: int, full: Full) -> None:
    """By either generator; only victims lose their places, and without success nothing is changed."""
    ctx = full.ctx._replace(settings=ALL_ON._replace(first_generator=first, second_generator=second))
    before, victims = bits(ctx), full.victims()
    possible = (first, second) != (NONE, NONE) and full.is_enough(victims)
    help_code = find_original_victims(full.preemptor, ctx, full.search)
    assert (help_code == Help.HELPED) == possible
    assert not full.search.tasks.taken.any()
    assert not full.search.tasks.recorded.any()
    status = ctx.state.task.status
    if not possible:
        assert bits(ctx) == before
        return
    away = {t for t in range(status.size) if status[t] != ctx.snapshot.tasks.status[t]}
    pending = set(range(full.p, full.p + full.pods))
    assert away - pending <= set(victims)
    assert all(status[t] == Status.PIPELINED for t in pending)
    check_books(ctx)


@given(st.integers(1, 40), st.integers(0, 40))
def test_the_sizes_of_probes(length: int, most: int) -> None:
    """1, 2, 4, ... until one fails, then the half between; at last all of it, unless not even one was solved."""
    lower, upper, k, sizes = 0, NULL, 1, []
    while k != NULL and (upper == NULL or upper - lower > 1):
        sizes.append(k)
        if k <= most:
            lower, upper = k, k + 1 if k == length else upper
        else:
            upper = k
        k = int(next_size(lower, upper, k, length))
    assert lower == min(most, length)
    assert k == (length if lower else NULL)
    doubled = sizes[: next((place for place, size in enumerate(sizes) if size > most), len(sizes))]
    assert doubled == [min(2**place, length) for place in range(len(doubled))]
    assert len(sizes) <= 2 * length.bit_length() + 1


@pytest.mark.parametrize(("idle", "expected"), [([1.0, 1.0], False), ([1.0, 0.0], True), ([3.0, -2.0], False)])
def test_whether_gpus_are_missing(idle: list[float], expected: bool) -> None:
    """All nodes together; one that holds more than it has takes nothing from the others."""
    nodes = node_table([[4.0, 8.0, 4.0, 9.0, 0.0]] * 2)
    ctx, _ = searching(assemble([Member(1, [Status.PENDING])], nodes=nodes, request=[[0.0, 0.0, 2.0, 1.0, 0.0]]))
    ctx.state.idle[:, GPU] = idle
    assert lacks_gpus(0, ctx.snapshot, ctx.state) == expected
