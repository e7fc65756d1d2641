"""Claims whose devices are hard to find: what a cycle spends on them, and when they have a full search again."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from kai_sched import Cluster, Config, CycleResult, HintTracker, Store, run_cycle
from kai_sched.cycle.claim_turns import WAIT_MAX, ClaimTurns
from kai_sched.lowering.settings import lower_settings
from kai_sched.model.hints import SchedulingHints
from kai_sched.model.read.kinds import Reader
from kai_sched.plan.effects import Bind
from kai_sched.snapshot.tables import Turn
from kai_sched.solver.allocation import make_finder, make_scratch, make_state, make_tree
from kai_sched.solver.claim_state import ClaimSteps
from kai_sched.solver.decisions import make_decisions
from kai_sched.solver.jit import reference
from kai_sched.solver.kernels.claims.steps import CLASS_STEPS, QUEUE_STEPS, SEARCH_STEPS
from kai_sched.solver.log_size import make_log
from kai_sched.solver.stages.allocate import allocate
from kai_sched.solver.stages.fair_share import fair_share, feasibility
from kai_sched.solver.state import Context
from tests.answered import lower_offline
from tests.unit.cycle.test_claims import claim, node, pod, queue, thing

ATTRIBUTE = "gpu.example.com/kind"


def nodes(count: int, gpus: int) -> list[dict[str, Any]]:
    """Nodes whose devices all have the attribute, and numbers that tell them apart."""
    found = [each for i in range(count) for each in node(f"n{i}", gpus)]
    for each in found:
        if each["kind"] == "ResourceSlice":
            for number, device in enumerate(each["spec"]["devices"]):
                device["attributes"] = {"kind": {"string": "a"}, "number": {"int": number}}
    return found


def hard(name: str, gpus: int, queue: str = "q") -> list[dict[str, Any]]:
    """A pod with a claim of its own kind for one device more than a node has; each request selects nearly all."""
    kind = f"device.driver != '{name}' && device.attributes['gpu.example.com'].number"
    requests = [
        {
            "name": f"r{number}",
            "firstAvailable": [
                {
                    "name": "o",
                    "deviceClassName": "gpu",
                    "allocationMode": "ExactCount",
                    "count": 1,
                    "selectors": [{"cel": {"expression": f"{kind} != {number}"}}],
                }
            ],
        }
        for number in range(gpus + 1)
    ]
    asks = claim(name, requests, queue)
    asks["spec"]["devices"]["constraints"] = [{"matchAttribute": ATTRIBUTE}] * 32
    return [asks, pod(name, name, queue)]


def store_of(*objects: dict[str, Any]) -> Store:
    store, reader = Store(), Reader(Config())
    for each in (thing("DeviceClass", "gpu", spec={}), *objects):
        store.put(reader.read((each["apiVersion"], each["kind"]), json.dumps(each).encode(), lambda *_: None))
    return store


def steps_of(store: Store, hints: SchedulingHints) -> ClaimSteps:
    """What the searches of allocate take."""
    snapshot = lower_offline(store.cluster(), Config(), 0, hints=hints).snapshot
    context = Context(
        lower_settings(Config(), 0),
        snapshot,
        make_state(snapshot),
        make_log(snapshot),
        make_finder(snapshot),
        make_scratch(snapshot),
        make_decisions(snapshot),
    )
    ctx = reference(context)
    fair_share(ctx)
    feasibility(ctx)
    allocate(int(Turn.ORDINARY), ctx, make_tree(snapshot))
    return context.finder.steps


def bound(result: CycleResult) -> set[str]:
    return {each.pod for each in result.effects if isinstance(each, Bind)}


@pytest.fixture(scope="module")
def crowd() -> Store:
    """Many pods of queue q whose claims are hard, and one of another queue that is easy."""
    asks = [each for i in range(6) for each in hard(f"hard{i}", 8)]
    easy = [claim("easy", [{"name": "r", "exactly": {"deviceClassName": "gpu"}}], "r"), pod("easy", "easy", "r")]
    return store_of(queue("q"), queue("r"), *nodes(12, 8), *asks, *easy)


def test_hard_claims_take_no_more_than_the_steps_of_their_queue(crowd: Store) -> None:
    steps = steps_of(crowd, SchedulingHints())
    assert steps.spent.max() <= CLASS_STEPS + SEARCH_STEPS
    assert steps.spent_in_all[0] <= QUEUE_STEPS + SEARCH_STEPS
    assert (steps.cut > 0).sum() == 6


def test_claims_of_another_queue_are_decided_and_the_hard_ones_wait_with_the_reason(crowd: Store) -> None:
    result = run_cycle(crowd.cluster(), Config(), 0)
    assert bound(result) == {"a/easy"}
    reason = result.groups["a/hard0"].reason
    assert reason is not None
    assert "takes too long to find out" in reason.message


def test_groups_that_had_their_search_leave_the_steps_to_others(crowd: Store) -> None:
    tracker = HintTracker()
    result = run_cycle(crowd.cluster(), Config(), 0)
    tracker.record(crowd.cluster(), result, Config())
    first = tracker.next_hints().brief
    assert 0 < len(first) < 6
    result = run_cycle(crowd.cluster(), Config(), 0, hints=tracker.next_hints())
    tracker.record(crowd.cluster(), result, Config())
    assert tracker.next_hints().brief - first, "others have had their search"
    assert (
        steps_of(crowd, SchedulingHints(brief=frozenset(f"a/hard{i}" for i in range(6)))).spent_in_all[0] < SEARCH_STEPS
    )


def turns_after(turns: ClaimTurns, cluster: Cluster, *hard_claims: str) -> frozenset[str]:
    turns.record(cluster, CycleResult((), (), {}, {}, (), {}, hard_claims=frozenset(hard_claims)))
    return turns.brief


def test_a_group_waits_longer_each_time_but_never_for_good() -> None:
    turns, cluster = ClaimTurns(), Cluster.of(())
    full = [cycle for cycle in range(60) if "a" not in turns.brief | turns_after(turns, cluster, "a") - {"a"}]
    waits = [later - earlier for earlier, later in itertools.pairwise(full)]
    assert waits[:4] == [2, 3, 5, 9]
    assert max(waits) == WAIT_MAX + 1
    assert turns_after(turns, cluster) == frozenset(), "it was decided, or is gone"


def test_a_change_leads_to_a_full_search_although_nothing_else_changes() -> None:
    store = Store()
    turns, before = ClaimTurns(), store.cluster()
    turns_after(turns, before, "a")
    assert not turns.due, "it had a full search of this cluster"
    store = store_of(queue("q"))
    while "a" in turns.brief:
        turns_after(turns, store.cluster(), "a")
        assert turns.due
    turns_after(turns, store.cluster(), "a")
    assert not turns.due
