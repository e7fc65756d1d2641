"""Minimum runtimes (semantics 11.1): worked examples; tests/unit/solver/eviction/rules/test_validate.py has a twin.

The victim, job 1, starts at 100, and minimum runtimes are below 100, in ns.
"""

from __future__ import annotations

from typing import Any

import pytest

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Action, Status
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.state import Context
from tests.afresh import afresh
from tests.unit.solver.searches import MINIMAL, searching
from tests.unit.solver.tables import Member, assemble, queue_table

runtimes, scenario, evicting, scenarios = afresh(
    "solver.eviction.rules.runtimes",
    "solver.eviction.scenario",
    "solver.eviction.evict",
    "solver.eviction.original.scenarios",
)
is_protected, keeps_runtimes, runtime_of = runtimes.is_protected, runtimes.keeps_runtimes, runtimes.runtime_of

RECLAIM, PREEMPT = int(Action.RECLAIM), int(Action.PREEMPT)
PARENTS = [NULL, 0, 0, 1, 2]  # a root, two departments, and a team in each
RECLAIMING_TEAM, DEPARTMENT, TEAM = 3, 2, 4


def stage(victim: Member, queues: dict[str, Any] | None = None, **settings: Any) -> tuple[Context, Search]:
    """A job waits in one team, the victim runs in the other one."""
    statuses = victim.statuses or []
    snapshot = assemble(
        [Member(1, [Status.PENDING]), victim],
        queue_table(PARENTS, **(queues or {})),
        tasks={"node": [NULL] + [0] * len(statuses)},
        jobs={"queue": [RECLAIMING_TEAM, TEAM], "last_start": [0, 100]},
    )
    ctx, search = searching(snapshot, MINIMAL._replace(min_runtime=1, **settings))
    search.counts.runtimes[0] = 1
    return ctx, search


def runtimes_of(**by_queue: int) -> list[int]:
    """A column of runtimes, NULL where nothing is set."""
    rows = {"department": DEPARTMENT, "team": TEAM}
    values = [NULL] * len(PARENTS)
    for name, value in by_queue.items():
        values[rows[name]] = value
    return values


@pytest.mark.parametrize(("now", "protected"), [(100, True), (159, True), (160, False)])
@pytest.mark.parametrize("action", [RECLAIM, PREEMPT])
def test_a_job_is_protected_until_it_has_run_for_the_minimum(action: int, now: int, protected: bool) -> None:
    ctx, search = stage(Member(1, [Status.RUNNING]), now=now, preempt_runtime=60, reclaim_runtime=60)
    assert is_protected(action, 0, 1, ctx, search) == protected


def test_a_job_that_has_not_started_is_not_protected() -> None:
    ctx, search = stage(Member(1, [Status.RUNNING]), now=100, preempt_runtime=60)
    assert not is_protected(PREEMPT, 1, 0, ctx, search)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (runtimes_of(), 60),  # the default
        (runtimes_of(department=20), 20),
        (runtimes_of(department=20, team=40), 40),  # the nearest one
        (runtimes_of(department=20, team=0), 0),  # 0 is set
    ],
)
def test_the_nearest_queue_that_sets_a_runtime_counts(own: list[int], expected: int) -> None:
    queues = queue_table(PARENTS, preempt_runtime=own)
    assert runtime_of(TEAM, queues.preempt_runtime, 60, queues.parent) == expected


@pytest.mark.parametrize(("by_ancestor", "protected"), [(1, False), (0, True)])
def test_a_reclaim_asks_the_department_or_the_team(by_ancestor: int, protected: bool) -> None:
    """The department, which is just below the common ancestor, protects for 20 ns, the team for 90."""
    queues = {"reclaim_runtime": runtimes_of(department=20, team=90)}
    ctx, search = stage(Member(1, [Status.RUNNING]), queues, now=150, reclaim_by_ancestor=by_ancestor)
    assert is_protected(RECLAIM, 0, 1, ctx, search) == protected


@pytest.mark.parametrize(
    ("now", "n_victims", "keeps"),
    [
        (110, 1, True),  # two pods are left
        (110, 2, False),
        (160, 2, True),  # it has run for its minimum
    ],
)
def test_a_protected_job_keeps_its_minimum(now: int, n_victims: int, keeps: bool) -> None:
    """Of its three pods two have to run together."""
    ctx, search = stage(Member(2, [Status.RUNNING] * 3), now=now, preempt_runtime=60)
    scenarios.begin_scenario(ctx.snapshot, ctx.state, search)
    for t in range(1, 1 + n_victims):
        scenario.add_to_scenario(t, -1, 1, ctx.snapshot, ctx.state, search)
        evicting.evict(1, t, 1, ctx, search)
    search.lists.jobs[:2], search.counts.jobs[0] = [1, 0], 2  # the jobs of victims, then the preemptor
    assert keeps_runtimes(PREEMPT, 0, ctx, search) == keeps
