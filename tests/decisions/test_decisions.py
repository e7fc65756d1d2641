"""Clusters on which an earlier version went wrong: rooms idle for ever, gangs torn, a limit exceeded (``*.yaml``).

The comment on top of each says what it did. The rules that they broke hold for all clusters in
``tests/properties/test_minimal.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kai_sched import Cache, Cluster, Config, Store, run_cycle
from kai_sched.cycle.hint_tracker import HintTracker
from kai_sched.cycle.world.pods import World, advance
from kai_sched.files.load import load
from kai_sched.model.times import parse_time
from kai_sched.plan.effects import Evict, Pipeline
from tests.perf.crowded import mixed_reclaim
from tests.properties.deciders import plan_of
from tests.properties.test_minimal import check_cycle, check_rest

FILES = sorted(Path(__file__).parent.glob("*.yaml"))
NOW_NS = parse_time("2026-01-01T12:00:00Z")
STEP_NS = 45 * 10**9
CYCLES = 40


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_all_rules_hold_and_it_comes_to_rest(path: Path) -> None:
    (case,) = load([str(path)]).cases
    tracker, world, before = HintTracker(), World(STEP_NS, revives=False), None
    for number in range(CYCLES):
        cluster, now_ns = case.store.cluster(), NOW_NS + number * STEP_NS
        result = run_cycle(cluster, Config(), now_ns, hints=tracker.next_hints())
        tracker.record(cluster, result, Config())
        plan = plan_of(cluster, result)
        check_cycle(cluster, plan)
        if (cluster.pods, plan) == before:
            check_rest(cluster, plan, now_ns)
            return
        before = (cluster.pods, plan)
        advance(case.store, cluster, result, now_ns, world)
    pytest.fail(f"no rest after {CYCLES} cycles")


def test_nobody_starves_and_few_have_to_go() -> None:
    """Gangs of teams that have nothing wait behind single pods of others: nobody's search is cut short.

    Evicted are no more GPUs than 1.5 times those that the winners got; and who asks for single GPUs gets its share.
    """
    store = Store()
    for item in mixed_reclaim("", 60):
        store.put(item)
    tracker, world, cache = HintTracker(), World(STEP_NS, revives=False), Cache()
    evicted = gained = 0.0
    for number in range(30):
        cluster, now_ns = store.cluster(), NOW_NS + number * STEP_NS
        result = run_cycle(cluster, Config(), now_ns, cache, hints=tracker.next_hints())
        tracker.record(cluster, result, Config())
        victims = {each.pod for each in result.effects if isinstance(each, Evict)}
        winners = {each.pod for each in result.effects if isinstance(each, Pipeline)} - victims
        evicted += gpus_of(cluster, victims)
        gained += gpus_of(cluster, winners)
        reasons = [group.reason for group in result.groups.values() if group.reason]
        assert not any("was cut short" in reason.message for reason in reasons)
        if not result.effects:
            break
        advance(store, cluster, result, now_ns, world)
    else:
        pytest.fail("no rest after 30 cycles")
    assert 0 < evicted <= 1.5 * gained
    for queue in result.queues:
        if queue.name in ("queue-038", "queue-039"):
            assert queue.allocated[2] == min(queue.fair_share[2], queue.requested[2])


def gpus_of(cluster: Cluster, pods: set[str]) -> float:
    return sum(dict(cluster.pods[key].shape.request).get("gpu", 0.0) for key in pods)
