"""What pod groups show: resources, scheduling conditions, the annotations of start and staleness, contradictions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kai_sched.model.objects import Object, Phase, PodGroup, SubGroup
from kai_sched.plan.reasons import Reason
from kai_sched.plan.result import GroupState
from tests.unit.reconcile.cases import (
    NO_ROOM,
    NOW,
    NOW_NS,
    ONE,
    World,
    decided,
    pod,
    pod_group,
    queue_state,
    state,
)

KEY = "ml/a"
WAITS = state(KEY, {"Pending": 1}, NO_ROOM)
TWO = {"cpu": "1", "memory": "2000000000", "nvidia.com/gpu": "2"}


def shown(*objects: Object, result: GroupState = WAITS) -> dict[str, Any]:
    world = World(*objects)
    world.run(decided([result]))
    return world.status.get(KEY, {})


def test_resources_of_a_group() -> None:
    status = shown(pod_group("a"), pod("a-0", "a", "node-1"), pod("a-1", "a"))
    assert status["resourcesStatus"] == {"allocated": ONE, "requested": TWO}


def test_what_non_preemptible_groups_hold_is_cleared_when_they_become_preemptible() -> None:
    """A group that becomes preemptible holds nothing for non-preemptible work any more (API 6.1)."""
    running = (pod("a-0", "a", "node-1", phase=Phase.RUNNING),)
    world = World(pod_group("a", preemptible=False), *running)
    runs = decided([state(KEY, {"Running": 1})])
    world.run(runs)
    assert world.status[KEY]["resourcesStatus"]["allocatedNonPreemptible"] == ONE
    world.objects = (pod_group("a", preemptible=True, last_start_ns=NOW_NS), *running)
    world.run(runs, 5)
    assert world.status[KEY]["resourcesStatus"] == {"allocated": ONE, "requested": ONE}


def test_finished_groups_hold_nothing() -> None:
    world = World(pod_group("a"), pod("a-0", "a", "node-1", phase=Phase.RUNNING))
    world.run(decided([state(KEY, {"Running": 1})]))
    world.objects = (pod_group("a", last_start_ns=NOW_NS), pod("a-0", "a", "node-1", phase=Phase.SUCCEEDED))
    world.run(decided([state(KEY, {"Succeeded": 1})]), 5)
    assert world.status[KEY] == {}


def test_the_condition_of_a_waiting_group() -> None:
    assert shown(pod_group("a"), pod("a-0", "a"))["schedulingConditions"] == [
        {
            "type": "UnschedulableOnNodePool",
            "nodePool": "default",
            "reason": "Unschedulable",
            "message": NO_ROOM.message,
            "reasons": [{"reason": "PodSchedulingErrors", "message": NO_ROOM.message}],
            "transitionID": "1",
            "lastTransitionTime": NOW,
            "status": "True",
        }
    ]


@pytest.mark.parametrize(
    ("counts", "reason", "there"),
    [
        ({"Pending": 1}, NO_ROOM, True),
        ({"Pending": 1}, Reason("QueueDoesNotExist", "queue 'x' does not exist"), True),
        ({"Pending": 1}, Reason("NotReady", "the gang is not complete"), False),
        ({"Pending": 1}, Reason("NotTried", "the group was not tried in this cycle"), False),
        ({"Pending": 1}, None, False),
        ({"Pending": 1, "Running": 1}, NO_ROOM, True),
        ({"Pending": 1, "Binding": 1}, NO_ROOM, True),
        ({"Gated": 1}, Reason("NotReady", "1 pod is held back by scheduling gates"), False),
        ({"Running": 1}, None, False),
    ],
)
def test_when_there_is_a_condition(counts: dict[str, int], reason: Reason | None, there: bool) -> None:
    status = shown(pod_group("a"), pod("a-0", "a"), result=state(KEY, counts, reason))
    assert ("schedulingConditions" in status) == there


def test_a_gang_that_is_broken_says_when_the_rest_is_evicted() -> None:
    group = pod_group("a", min_member=2, stale_since_ns=NOW_NS, staleness_grace_s=60.0)
    members = (pod("a-0", "a", node="n", phase=Phase.RUNNING), pod("a-1", "a"))
    status = shown(group, *members, result=state(KEY, {"Pending": 1, "Running": 1}, NO_ROOM))
    (condition,) = status["schedulingConditions"]
    end = "and what runs is evicted at 2026-01-01T12:01:00Z"
    assert condition["message"].startswith(f"{NO_ROOM.message}; it runs incomplete (1 of ")
    assert condition["message"].endswith(end)


@pytest.mark.parametrize(
    ("counts", "kept"),
    [
        ({"Running": 2}, False),
        ({"Bound": 1}, False),
        ({"Binding": 1}, True),
        ({"Pipelined": 1}, True),
        ({"Gated": 1}, True),
        ({"Pending": 1}, True),
    ],
)
def test_conditions_go_once_nothing_waits(counts: dict[str, int], kept: bool) -> None:
    world = World(pod_group("a"), pod("a-0", "a"))
    world.run(decided([WAITS]))
    world.run(decided([state(KEY, counts)]), 1)
    assert ("schedulingConditions" in world.status[KEY]) == kept


def test_other_pools_conditions_are_kept_and_ids_go_on() -> None:
    world = World(pod_group("a"), pod("a-0", "a"))
    other = {"type": "UnschedulableOnNodePool", "nodePool": "other", "transitionID": "7"}
    ours = {"type": "UnschedulableOnNodePool", "nodePool": "default", "transitionID": "x", "message": "old"}
    world.status[KEY] = {"schedulingConditions": [ours, other]}
    world.show()
    world.run(decided([WAITS]))
    found = world.status[KEY]["schedulingConditions"]
    assert [(each["nodePool"], each["transitionID"]) for each in found] == [("other", "7"), ("default", "8")]


def test_details_of_the_queue_in_the_way() -> None:
    reason = Reason("OverLimit", "queue team may hold 3 GPUs", queue="team")
    world = World(pod_group("a", preemptible=False), pod("a-0", "a"))
    world.run(decided([state(KEY, {"Pending": 1}, reason)], [queue_state("team")]))
    (entry,) = world.status[KEY]["schedulingConditions"][0]["reasons"]
    three = {"cpu": "1", "memory": "2000000000", "nvidia.com/gpu": "3"}
    none = {"cpu": "0", "memory": "0", "nvidia.com/gpu": "0"}
    assert entry["details"]["queueDetails"] == {
        "name": "team",
        "queueRequestedResources": ONE,
        "queueDeservedResources": three,
        "queueAllocatedResources": none,
        "queueAllocatedNonPreemptibleResources": none,
        "queueResourceLimits": {"cpu": "-1", "memory": "-1", "nvidia.com/gpu": "-1"},
        "podGroupRequestedResources": ONE,
        "podGroupRequestedNonPreemptibleResources": ONE,
    }


def annotations(world: World) -> dict[str, str | None]:
    return world.annotations.get(KEY, {})


START = "kai.scheduler/last-start-timestamp"
STALE = "kai.scheduler/stale-podgroup-timestamp"


def test_the_start_is_kept_from_when_a_group_first_holds_room() -> None:
    world = World(pod_group("a"), pod("a-0", "a"))
    world.run(decided([WAITS]))
    assert annotations(world) == {}
    world.objects = (pod_group("a"), pod("a-0", "a", "node-1"))
    world.run(decided([state(KEY, {"Bound": 1})]), 10)
    assert annotations(world) == {START: "2026-01-01T12:00:10Z"}
    world.objects = (pod_group("a", last_start_ns=NOW_NS + 10**10), pod("a-0", "a", "node-1"))
    assert world.run(decided([state(KEY, {"Bound": 1})]), 60)[0] == []


def test_a_group_that_starts_again_gets_a_new_start() -> None:
    group = pod_group("a", last_start_ns=NOW_NS - 10**12)
    world = World(group, pod("a-0", "a"))
    world.run(decided([WAITS]))
    world.objects = (group, pod("a-0", "a", "node-1"))
    world.run(decided([state(KEY, {"Bound": 1})]), 10)
    assert annotations(world) == {START: "2026-01-01T12:00:10Z"}


def test_a_group_that_runs_when_the_scheduler_comes_keeps_its_start() -> None:
    world = World(pod_group("a", last_start_ns=NOW_NS - 10**12), pod("a-0", "a", "node-1"))
    world.run(decided([state(KEY, {"Running": 1})]))
    assert annotations(world) == {}
    world = World(pod_group("a"), pod("a-0", "a", "node-1"))
    world.run(decided([state(KEY, {"Running": 1})]))
    assert annotations(world) == {START: NOW}


def sub_groups(*entries: SubGroup, **more: Any) -> PodGroup:
    return pod_group("a", sub_groups=entries, min_member=None, last_start_ns=NOW_NS, **more)


PARTS = (SubGroup("x", min_member=1), SubGroup("y", min_member=1))


@pytest.mark.parametrize(
    ("group", "pods", "stale"),
    [
        (pod_group("a", min_member=2, last_start_ns=NOW_NS), ("node-1",), True),
        (pod_group("a", min_member=2, last_start_ns=NOW_NS), ("node-1", "node-1"), False),
        (pod_group("a", min_member=2, last_start_ns=NOW_NS), ("",), False),
        (sub_groups(*PARTS), ("node-1",), True),
        (sub_groups(*PARTS, min_sub_group=1), ("node-1",), False),
    ],
)
def test_staleness_follows_the_tree(group: PodGroup, pods: tuple[str, ...], stale: bool) -> None:
    name = "x" if group.sub_groups else ""
    members = [pod(f"a-{i}", "a", node, sub_group=name) for i, node in enumerate(pods)]
    world = World(group, *members)
    counts = {"Running": len(members)}
    world.run(decided([state(KEY, counts)]))
    assert annotations(world) == ({STALE: NOW} if stale else {})
    assert (("Normal", "StaleJob", KEY) in world.events) == stale


def test_staleness_ends() -> None:
    group = pod_group("a", min_member=2, last_start_ns=NOW_NS, stale_since_ns=NOW_NS - 5)
    running = [pod(f"a-{i}", "a", "node-1", phase=Phase.RUNNING) for i in range(2)]
    world = World(group, *running)
    world.run(decided([state(KEY, {"Running": 2})]))
    assert annotations(world) == {STALE: None}
    finished = replace(running[1], phase=Phase.SUCCEEDED)
    world = World(group, running[0], finished)
    world.run(decided([state(KEY, {"Running": 1})]))
    assert annotations(world) == {STALE: None}


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (pod_group("a", min_sub_group=1), "spec.minMember"),
        (sub_groups(SubGroup("x", "y"), SubGroup("y", "x")), "spec.subGroups[0].parent"),
        (sub_groups(SubGroup("x", "z")), "'z'"),
        (sub_groups(SubGroup("x", min_member=1, min_sub_group=1)), "spec.subGroups[0]"),
    ],
)
def test_a_contradiction_is_shown(group: PodGroup, words: str) -> None:
    (condition,) = shown(group, result=state(KEY, {}))["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Invalid", "True", "SpecNotUsable")
    assert words in condition["message"]


def test_a_group_that_cannot_be_read_shows_why() -> None:
    world = World()
    world.reconciler.observe_pod_group(KEY, "uid-a", b"null", "spec.queue: expected a text")
    world.run(decided())
    assert world.status[KEY]["conditions"][0]["message"] == "spec.queue: expected a text"


def test_events_of_a_group() -> None:
    world = World(pod_group("a"), pod("a-0", "a"))
    world.run(decided([WAITS]))
    not_ready = state(KEY, {"Pending": 1}, Reason("NotReady", "the gang is not complete"))
    world.run(decided([not_ready]), 1)
    world.run(decided([state(KEY, {"Pending": 1}, Reason("QueueDoesNotExist", "queue 'x' does not exist"))]), 2)
    world.run(decided([state(KEY, {"Pending": 1}, Reason("NotTried", "not looked at"))]), 3)
    assert [event for event in world.events if event[2] == KEY] == [
        ("Normal", "Unschedulable", KEY),
        ("Normal", "NotReady", KEY),
        ("Warning", "QueueDoesNotExist", KEY),
    ]
