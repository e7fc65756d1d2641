"""Pending pods, and when things are written: at once, later, or not again."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.model.config import Config
from kai_sched.model.objects import BindRequest, GpuShare, Node, Object, Phase, Pod, Shape, SubGroup
from kai_sched.plan import reasons
from kai_sched.plan.effects import Bind, Emit, Pipeline, Ref, SetCondition
from kai_sched.plan.reasons import Reason
from kai_sched.reconcile import events
from kai_sched.reconcile.status.pod_conditions import PodCondition
from tests.unit.reconcile.cases import NO_ROOM, World, decided, pod, pod_group, queue, state

A, KEY = "ml/a", "ml/a-0"
OVER_LIMIT = reasons.over_limit("team", "gpu", 1, 1, 1)


def waits(reason: Reason | None) -> Any:
    return decided([state(A, {"Pending": 1}, reason)])


@pytest.mark.parametrize(
    ("reason", "condition", "event"),
    [
        (NO_ROOM, "Unschedulable", "Unschedulable"),
        (reasons.too_large("ml/a-0", "gpu", 9, 8), "Unschedulable", "Unschedulable"),
        (OVER_LIMIT, "QueueOverLimit", "Unschedulable"),
        (reasons.over_quota("team", "gpu", 1, 1, 1), "QueueOverQuota", "Unschedulable"),
        (reasons.not_ready([("default", 2, 1, 0)]), "GangNotReady", ""),
        (reasons.nothing_to_add(), "GangNotReady", ""),
        (reasons.no_queue("x", ["team"], None), "QueueDoesNotExist", "QueueDoesNotExist"),
        (reasons.queue_not_leaf("top", ["team"]), "QueueIsNotALeaf", "QueueIsNotALeaf"),
        (reasons.not_supported("that"), "NotSupported", "Unschedulable"),
        (reasons.refused("ml/a-0", "required ConfigMap ml/c does not exist"), "DependencyMissing", "Unschedulable"),
        (reasons.not_tried(), "", ""),
        (None, "", ""),
    ],
)
def test_what_a_pending_pod_is_told(reason: Reason | None, condition: str, event: str) -> None:
    world = World(pod_group("a"), pod("a-0", "a"))
    world.run(waits(reason))
    told = world.conditions.get(KEY)
    message = reason.message if reason else ""
    assert told == (PodCondition("False", condition, message) if condition else None)
    assert [each for each in world.events if each[2] == KEY] == ([("Warning", event, KEY)] if event else [])


@pytest.mark.parametrize(
    "more",
    [{"node": "node-1"}, {"gates": ("wait",)}, {"deleted_ns": 5}, {"scheduler": "default-scheduler"}],
)
def test_other_pods_are_left_alone(more: dict[str, Any]) -> None:
    world = World(pod_group("a", last_start_ns=1), pod("a-0", "a", **more))
    world.run(waits(NO_ROOM))
    assert world.conditions == {}


@pytest.mark.parametrize("effect", [Bind(KEY, "uid-a-0", "node-1"), Pipeline(KEY, "uid-a-0", "node-1")])
def test_pods_that_get_a_node_are_left_alone(effect: Bind | Pipeline) -> None:
    world = World(pod_group("a"), pod("a-0", "a"))
    world.run(replace(waits(NO_ROOM), effects=(effect,)))
    assert world.conditions == {}


def test_pods_with_a_bind_request_are_on_their_way() -> None:
    request = BindRequest("ml", "a-0", "a-0", "node-1")
    world = World(pod_group("a"), pod("a-0", "a"), request)
    world.run(waits(NO_ROOM))
    assert world.conditions == {}
    assert "allocated" in world.status[A]["resourcesStatus"]
    world = World(pod_group("a"), pod("a-0", "a"), replace(request, is_live=False))
    world.run(waits(NO_ROOM))
    assert KEY in world.conditions


def test_mark_unschedulable_false_gives_the_event_alone() -> None:
    world = World(pod_group("a", mark_unschedulable=False), pod("a-0", "a"))
    world.run(waits(NO_ROOM))
    assert world.conditions == {}
    assert ("Warning", "Unschedulable", KEY) in world.events


def test_an_unknown_sub_group_is_told_to_pending_pods_only() -> None:
    """A pod that runs is told nothing, whatever sub-group it names (API 6.3)."""
    group = pod_group("a", sub_groups=(SubGroup("x", min_member=1),), mark_unschedulable=False)
    lost, running = pod("a-0", "a", sub_group="y"), pod("a-1", "a", "node-1", sub_group="z")
    world = World(group, lost, running)
    world.run(decided([state(A, {})]))
    assert {key: each.reason for key, each in world.conditions.items()} == {KEY: "SubGroupDoesNotExist"}
    assert "'y'" in world.conditions[KEY].message
    assert "PodGroup ml/a" in world.conditions[KEY].message


def test_a_pod_group_that_is_not_there_is_told() -> None:
    world = World(pod("a-0", "a"))
    world.run(decided())
    assert world.conditions[KEY].reason == "PodGroupDoesNotExist"


@pytest.mark.parametrize("marked", [False, True])
def test_a_pod_without_group_is_a_group_of_its_own(marked: bool) -> None:
    group = [pod_group("b")] if marked else []
    groups = [state("pod:ml/b", {"Pending": 1}, NO_ROOM), state("ml/b", {}, None)]
    if not marked:
        groups = [state("ml/b", {"Pending": 1}, NO_ROOM)]
    world = World(pod("b"), *group)
    world.run(decided(groups))
    assert world.conditions["ml/b"].reason == "Unschedulable"


@pytest.mark.parametrize("effects", [(), (Bind("ml/b", "uid-b", "node-1"),)])
def test_a_pod_without_queue_label_is_told_once(effects: tuple[Bind, ...]) -> None:
    world = World(pod("b", queue=""))
    for second in range(3):
        world.run(decided([state("ml/b", {"Binding": 1})], effects=effects), second)
    assert world.events == [("Warning", "QueueLabelMissing", "ml/b")]
    assert "default-queue" in world.messages[0]
    assert "kai.scheduler/queue" in world.messages[0]


def test_a_pod_of_a_group_needs_no_queue_label() -> None:
    world = World(pod_group("a"), pod("a-0", "a", queue=""))
    world.run(waits(None))
    assert world.events == []


def test_pools_are_apart() -> None:
    world = World(pod_group("a"), pod("a-0", "a"), queue("team"), config=Config(node_pool="gpu"))
    assert world.run(decided())[0] == []


def rewords(n: int) -> Reason:
    return replace(NO_ROOM, message=f"no node: {n} free")


def test_a_reason_is_told_at_once_and_words_later() -> None:
    world = World(pod("a"))
    only = [state(A, {"Pending": 1}, rewords(0))]
    world.run(decided(only), 0)
    assert world.conditions[A].message == "no node: 0 free"
    last = 0.0
    for second in range(1, 120):
        writes, again = world.run(decided([state(A, {"Pending": 1}, rewords(second))]), second)
        assert again is not None
        assert again <= 60
        if writes:
            assert second - last >= 30
            assert second - last <= 60
            last = second
    assert last
    world.run(decided([state(A, {"Pending": 1}, OVER_LIMIT)]), 119.5)
    assert world.conditions[A] == PodCondition("False", "QueueOverLimit", OVER_LIMIT.message)


def test_events_are_repeated_after_half_an_hour_to_an_hour() -> None:
    world = World(pod("a"))
    result = decided([state(A, {"Pending": 1}, NO_ROOM)])
    times = []
    for minute in range(0, 200, 5):
        writes, _ = world.run(result, minute * 60)
        times += [minute for write in writes if isinstance(write, Emit)]
    gaps = [after - before for before, after in pairwise(times)]
    assert len(gaps) >= 3
    assert min(gaps) >= 30
    assert max(gaps) <= 65


def test_a_reason_that_comes_back_soon_is_no_new_event() -> None:
    world = World(pod("a"))
    for second in range(10):
        reason = NO_ROOM if second % 2 else OVER_LIMIT
        world.run(decided([state(A, {"Pending": 1}, reason)]), second)
    assert len(world.events) == 2


def test_a_lost_write_is_sent_again_after_half_a_minute() -> None:
    world = World(pod("a"))
    result = decided([state(A, {"Pending": 1}, NO_ROOM)])
    first, again = world.ask(result, 0)
    assert [type(write) for write in first] == [Emit, SetCondition]
    assert again == 30
    assert world.ask(result, 29)[0] == []
    second, _ = world.ask(result, 30)
    assert [type(write) for write in second] == [SetCondition]


def test_a_successor_repeats_nothing() -> None:
    objects = (pod("a"), pod_group("g"), pod("g-0", "g"), queue("team"))
    result = decided([state(A, {"Pending": 1}, NO_ROOM), state("ml/g", {"Pending": 1}, NO_ROOM)])
    first = World(*objects)
    first.run(result)
    successor = World(*objects)
    successor.status, successor.conditions = first.status, first.conditions
    successor.show()
    assert successor.run(result)[0] == []
    result = decided([state(A, {"Pending": 1}, rewords(1)), state("ml/g", {"Pending": 1}, rewords(1))])
    assert successor.run(result, 1)[0] == []


def test_a_new_pod_of_the_same_name_is_told_anew() -> None:
    world = World(pod("a"))
    result = decided([state(A, {"Pending": 1}, NO_ROOM)])
    world.run(result)
    world.conditions.clear()
    world.objects = (pod("a", uid="uid-new"),)
    world.show()
    writes, _ = world.run(result, 1)
    assert [write.ref.uid for write in writes] == ["uid-new", "uid-new"]


def test_what_is_gone_is_told_nothing() -> None:
    world = World(pod("a"), queue("team"), pod_group("g"))
    world.reconciler.forget_pod(A)
    world.reconciler.forget_queue("team")
    world.reconciler.forget_pod_group("ml/g")
    assert world.ask(decided([state(A, {"Pending": 1}, NO_ROOM), state("ml/g", {}, NO_ROOM)])) == ([], None)


@pytest.mark.alone
@pytest.mark.slow
def test_many_pods_whose_words_change_each_second_are_few_writes() -> None:
    pods: list[Object] = [pod(f"p{i}") for i in range(3000)]
    world = World(*pods)
    groups = [f"ml/p{i}" for i in range(3000)]
    counts = []
    for second in range(0, 180, 10):
        writes, _ = world.run(decided([state(key, {"Pending": 1}, rewords(second)) for key in groups]), second)
        counts.append(len(writes))
    assert counts[0] == 6000  # each its condition and its event
    assert max(counts[1:]) <= 10 * 75  # 50 a second, and some for chance
    assert sum(counts[1:]) >= 3000


REASONS = st.sampled_from([NO_ROOM, rewords(1), rewords(2), OVER_LIMIT, reasons.not_ready([]), reasons.not_tried()])
PODS = st.lists(st.tuples(st.sampled_from(["", "g", "h"]), st.sampled_from(["", "node-1"]), st.booleans()), max_size=6)


@given(PODS, st.lists(REASONS, min_size=1, max_size=4), st.sampled_from(["", "missing", "loop"]))
def test_asking_twice_without_news_gives_nothing(
    members: list[tuple[str, str, bool]], told: list[Reason], parent: str
) -> None:
    """Whatever came before; and what is to come is announced."""
    pods: list[Pod] = [
        pod(f"p{i}", group, node, queue="team" if label else "") for i, (group, node, label) in enumerate(members)
    ]
    world = World(queue("team", parent), queue("loop", "team"), pod_group("g"), pod_group("h", min_member=3), *pods)
    for second, reason in enumerate(told):
        groups = [state(key, {"Pending": 1}, reason) for key in ("ml/g", "ml/h", *(each.key for each in pods))]
        result = decided(groups)
        world.run(result, second)
        writes, _ = world.ask(result, second)
        assert writes == []
    _, again = world.ask(result, len(told))
    if again is not None:
        assert again > 0


def test_events_for_the_executor() -> None:
    ref = Ref("v1", "Pod", "ml", "a-0", "uid-a-0")
    told = events.scheduled(ref, "node-1", "")
    assert (told.type, told.reason) == ("Normal", "Scheduled")
    assert told.message == "pod ml/a-0 is bound to node node-1 of node pool default"
    event, condition = events.failed_binding(ref, "node-1", "500 oh")
    assert (event.type, event.reason) == ("Warning", "FailedBinding")
    assert (condition.status, condition.reason) == ("False", "BindingError")
    assert "500 oh" in event.message
    assert condition.message == event.message
    assert len(events.emit(ref, "Normal", "Bound", "ä" * 1000).message.encode()) <= 1024


def test_a_new_reserve_of_gpu_memory_changes_statuses_at_once() -> None:
    """Half of the memory of a device, and all of what is left of it for pods."""
    node = Node("node-1", labels={"nvidia.com/gpu.memory": "16000"})
    shape = Shape((("cpu", 500.0), ("pods", 1.0)), share=GpuShare(1, 0.0, 8000))
    world = World(node, queue("team"), pod_group("a"), pod("a-0", "a", node="node-1", phase=Phase.RUNNING, shape=shape))
    result = decided([state(A, {"Running": 1})])
    world.run(result)
    assert gpus_of(world) == "500m"
    world.reconciler.follow(Config())
    world.run(result, 60.0)
    assert gpus_of(world) == "500m"
    world.reconciler.follow(Config(gpu_memory_reserve_min_mib=8000))
    world.run(result, 120.0)
    assert gpus_of(world) == "1"


def gpus_of(world: World) -> str:
    held: str = world.status[A]["resourcesStatus"]["allocated"]["nvidia.com/gpu"]
    return held
