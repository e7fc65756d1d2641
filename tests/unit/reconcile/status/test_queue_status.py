"""What queues show: sums over all levels at once, fair shares, and what is wrong with their place in the tree."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kai_sched.api.queue import QueueStatus
from kai_sched.model.config import Config
from kai_sched.model.objects import GpuShare, Object, Phase, PriorityClass, Shape
from kai_sched.model.store import Cluster
from kai_sched.plan.result import QueueState
from kai_sched.reconcile.status.queue_reconciler import AMOUNTS
from kai_sched.reconcile.status.queue_status import queue_findings, queue_statuses
from kai_sched.reconcile.status.usage import QueueUsage
from tests.unit.reconcile.cases import (
    CONFIG,
    NOW,
    ONE,
    SECOND_NS,
    World,
    cluster,
    decided,
    pod,
    pod_group,
    queue,
    queue_state,
)


def statuses(*objects: Object, states: tuple[QueueState, ...] = (), config: Config = CONFIG) -> dict[str, Any]:
    view = cluster(*objects)
    return queue_statuses(view, states, config, QueueUsage(view, config))


def test_sums_climb_all_levels_at_once() -> None:
    found = statuses(
        queue("top"),
        queue("department", "top"),
        queue("team", "department"),
        queue("idle", "department"),
        pod_group("run"),
        pod("run-0", "run", "node-1"),
        pod("run-1", "run"),
    )
    two = {"cpu": "1", "memory": "2000000000", "nvidia.com/gpu": "2"}
    assert found == {
        "top": {"childQueues": ["department"], "allocated": ONE, "requested": two},
        "department": {"childQueues": ["idle", "team"], "allocated": ONE, "requested": two},
        "team": {"allocated": ONE, "requested": two},
        "idle": {},
    }


def test_each_field_of_the_status_is_filled_and_a_reason_to_write() -> None:
    """A field of the CRD that the reconciler does not compare would be written only when another one changes."""
    fields = {field.alias or name for name, field in QueueStatus.model_fields.items()} - {"conditions"}
    found = statuses(
        queue("top"),
        queue("team", "top"),
        pod_group("run", preemptible=False),
        pod("run-0", "run", "node-1"),
        states=(queue_state("top", (1000.0, 2e9, 3.0)),),
    )
    assert found["top"].keys() == fields
    assert {"childQueues", *AMOUNTS} == fields


@pytest.mark.parametrize(
    ("more", "held", "asked"),
    [
        ({"node": "node-1"}, True, True),
        ({"node": "node-1", "phase": Phase.RUNNING}, True, True),
        ({}, False, True),
        ({"gates": ("wait",)}, False, False),
        ({"node": "node-1", "phase": Phase.RUNNING, "deleted_ns": 5}, False, False),
        ({"node": "node-1", "phase": Phase.SUCCEEDED}, False, False),
        ({"node": "node-1", "phase": Phase.FAILED}, False, False),
        ({"node": "gone", "phase": Phase.RUNNING}, False, False),
        ({"sub_group": "unknown"}, False, False),
    ],
)
def test_a_pod_counts_as_in_the_books(more: dict[str, Any], held: bool, asked: bool) -> None:
    found = statuses(queue("team"), pod_group("run"), pod("run-0", "run", **more))
    assert found["team"] == ({"allocated": ONE} if held else {}) | ({"requested": ONE} if asked else {})


def test_pods_without_group_count_where_their_label_says_else_in_the_default_queue() -> None:
    found = statuses(queue("team"), queue("default-queue"), pod("a"), pod("b", queue=""), pod("c", scheduler="other"))
    assert found == {"team": {"requested": ONE}, "default-queue": {"requested": ONE}}


@pytest.mark.parametrize(
    ("group", "fixed"),
    [
        ({}, False),
        ({"preemptible": False}, True),
        ({"priority_class": "build"}, True),
        ({"priority_class": "build", "preemptible": True}, False),
        ({"priority_class": "unknown"}, False),
    ],
)
def test_non_preemptible_work_is_told_apart(group: dict[str, Any], fixed: bool) -> None:
    objects = (queue("team"), PriorityClass("build", 100), pod_group("run", **group), pod("run-0", "run", "node-1"))
    assert statuses(*objects)["team"].get("allocatedNonPreemptible") == (ONE if fixed else None)


def test_the_default_class_decides_for_pods_without_one() -> None:
    objects = (queue("team"), PriorityClass("build", 100, global_default=True), pod("a", node="node-1"))
    assert statuses(*objects)["team"]["allocatedNonPreemptible"] == ONE


def test_every_resource_is_carried_and_shared_gpus_by_their_part() -> None:
    shape = Shape((("ephemeral-storage", 7.0), ("example.com/thing", 2000.0), ("pods", 1.0)), share=GpuShare(1, 0.5))
    found = statuses(queue("team"), pod("a", node="node-1", shape=shape))
    assert found["team"]["allocated"] == {"ephemeral-storage": "7", "example.com/thing": "2", "nvidia.com/gpu": "500m"}


def test_fair_share_comes_from_the_cycle() -> None:
    fair = (float("inf"), 1e9, 16 / 3)
    found = statuses(queue("team"), states=(queue_state("team", fair),))
    assert found["team"]["fairShare"] == {"cpu": "-1", "memory": "1000000000", "nvidia.com/gpu": "5333m"}


def test_queues_of_other_pools_are_left_alone() -> None:
    config = Config(node_pool="gpu")
    assert statuses(queue("team"), config=config) == {}


def test_contradictions_are_told_and_the_others_go_on() -> None:
    objects = (
        queue("loop-a", "loop-b"),
        queue("loop-b", "loop-a"),
        queue("below", "loop-a"),
        queue("self", "self"),
        queue("orphan", "missing"),
        queue("grandchild", "orphan"),
        queue("team"),
        pod("a"),
    )
    found = queue_findings(cluster(*objects), CONFIG)
    assert {name: reason for name, (_, reason, _) in found.items()} == {
        "loop-a": "CircleOfParents",
        "loop-b": "CircleOfParents",
        "self": "CircleOfParents",
        "below": "AncestorLeftOut",
        "orphan": "ParentDoesNotExist",
        "grandchild": "AncestorLeftOut",
    }
    assert found["loop-a"][2].startswith("spec.parentQueue: the queue is its own ancestor (loop-a -> loop-b -> loop-a)")
    assert "there is no queue 'missing'" in found["orphan"][2]
    assert statuses(*objects)["team"] == {"requested": ONE}
    assert statuses(*objects)["orphan"] == {"childQueues": ["grandchild"]}


def test_status_is_written_once_and_again_when_it_changes() -> None:
    world = World(queue("team"), pod("a"))
    world.run(decided(), 0)
    assert world.status["team"] == {"requested": ONE}
    assert world.run(decided(), 0.1) == ([], None)
    world.objects = (queue("team"),)
    writes, again = world.run(decided(), 0.5)
    assert (writes, again) == ([], 0.5)
    world.run(decided(), 1)
    assert world.status["team"] == {}


def test_fields_of_others_are_kept() -> None:
    world = World(queue("team"))
    other = {"type": "Other", "status": "True"}
    world.status["team"] = {"extra": 1, "conditions": [other], "allocated": ONE}
    world.show()
    world.run(decided())
    assert world.status["team"] == {"extra": 1, "conditions": [other]}


def test_an_orphan_says_so_until_its_parent_is_there() -> None:
    world = World(queue("team", "top"))
    world.run(decided())
    condition = world.status["team"]["conditions"][0]
    assert (condition["type"], condition["status"], condition["lastTransitionTime"]) == ("Orphan", "True", NOW)
    assert world.run(decided(), 100)[0] == []
    world.objects = (queue("team", "top"), queue("top"))
    world.show()
    world.run(decided(), 101)
    assert world.status == {"team": {}, "top": {"childQueues": ["team"]}}


def test_a_queue_that_cannot_be_read_shows_why() -> None:
    world = World()
    world.reconciler.observe_queue("team", "uid-team", b"", "spec.priority: expected a whole number")
    world.run(decided())
    assert world.status["team"]["conditions"][0]["message"] == "spec.priority: expected a whole number"
    world.objects = (queue("team"),)
    world.show()
    world.run(decided(), 1)
    assert world.status["team"] == {}


def test_a_queue_that_the_feed_has_not_told_is_not_written() -> None:
    world = World()
    world.objects = (queue("team"), pod("a"))
    assert world.ask(decided()) == ([], None)


@pytest.mark.alone
@pytest.mark.slow
def test_many_pods_take_little_time() -> None:
    objects: list[Object] = [queue("team"), *(pod_group(f"g{i}") for i in range(2000))]
    objects += [pod(f"p{i}", f"g{i % 2000}", "node-1") for i in range(20_000)]
    view = Cluster.of(objects)
    best = min(_seconds(view) for _ in range(5))
    assert best < 0.4  # 0.05 s on an idle core


def _seconds(view: Cluster) -> float:
    started = time.perf_counter_ns()
    queue_statuses(view, (), CONFIG, QueueUsage(view, CONFIG))
    return (time.perf_counter_ns() - started) / SECOND_NS
