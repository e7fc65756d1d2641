"""Clusters on which an earlier version went wrong: rooms idle for ever, gangs torn, a limit exceeded (``*.yaml``).

The comment on top of each says what it did. The rules that they broke hold for all clusters in
``tests/properties/test_minimal.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kai_sched import Config, run_cycle
from kai_sched.cycle.promises import Promises
from kai_sched.cycle.world import World, advance
from kai_sched.files.load import load
from kai_sched.model.times import parse_time
from tests.properties.deciders import plan_of
from tests.properties.test_minimal import check_cycle, check_rest

FILES = sorted(Path(__file__).parent.glob("*.yaml"))
NOW_NS = parse_time("2026-01-01T12:00:00Z")
STEP_NS = 45 * 10**9
CYCLES = 40


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_all_rules_hold_and_it_comes_to_rest(path: Path) -> None:
    (case,) = load([str(path)]).cases
    promises, world, before = Promises(), World(STEP_NS, revives=False), None
    for number in range(CYCLES):
        cluster, now_ns = case.store.cluster(), NOW_NS + number * STEP_NS
        result = run_cycle(cluster, Config(), now_ns, turns=promises.turns())
        promises.note(cluster, result, Config())
        plan = plan_of(cluster, result)
        check_cycle(cluster, plan)
        if (cluster.pods, plan) == before:
            check_rest(cluster, plan, now_ns)
            return
        before = (cluster.pods, plan)
        advance(case.store, cluster, result, now_ns, world)
    pytest.fail(f"no rest after {CYCLES} cycles")
