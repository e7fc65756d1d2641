"""What owners are told of the queue of their pods."""

from __future__ import annotations

import pytest

from kai_sched.plan import reasons
from kai_sched.plan.effects import Ref
from kai_sched.plan.reasons import Reason
from kai_sched.reconcile.grouping.manifest import QueueChoice
from tests.unit.reconcile.cases import World, decided, pod, pod_group, state

OWNER = Ref("ray.io/v1", "RayCluster", "ml", "a", "uid-owner")
LABEL = QueueChoice("lost", "RayCluster ml/a", "metadata.labels[kai.scheduler/queue]")
NOBODY = QueueChoice("default-queue", "RayCluster ml/a", "")
NO_QUEUE = reasons.no_queue("lost", ["team-a", "team-b"], None)


def told(world: World, reason: Reason | None, after_s: float = 0.0) -> list[tuple[str, str, str, str]]:
    """Type, reason and object of the events, and what they say."""
    before = len(world.events)
    world.run(decided([state("ml/a", {"Pending": 1}, reason)]), after_s)
    return [(*event, text) for event, text in zip(world.events[before:], world.messages[before:], strict=True)]


def owned(queue: str, choice: QueueChoice) -> World:
    world = World(pod_group("a", queue=queue), pod("a-0", "a", queue=""))
    world.owners.observe("ml/a", OWNER, choice)
    return world


def of_owner(found: list[tuple[str, str, str, str]]) -> list[tuple[str, str, str]]:
    return [(kind, reason, text) for kind, reason, key, text in found if "RayCluster" in text and key == "ml/a"]


def test_a_queue_that_is_not_there_is_told_with_the_label_and_the_queues_there_are() -> None:
    found = of_owner(told(owned("lost", LABEL), NO_QUEUE))
    message = (
        "metadata.labels[kai.scheduler/queue] of RayCluster ml/a names queue 'lost': queue 'lost' does not exist: the "
        "queues that accept pods are team-a, team-b; create it, or correct spec.queue of the PodGroup; the PodGroup is "
        "ml/a"
    )
    assert found == [("Warning", "QueueDoesNotExist", message)]


def test_a_queue_that_people_wrote_into_the_group_is_told_as_theirs() -> None:
    world = owned("other", LABEL)
    found = told(world, reasons.queue_not_leaf("other", ["team"]))
    texts = [text for _, reason, _, text in found if reason == "QueueIsNotALeaf"]
    assert any(text.startswith("spec.queue of PodGroup ml/a names queue 'other': ") for text in texts)


def test_a_missing_label_is_told_to_the_owner_and_to_the_pod() -> None:
    found = [each for each in told(owned("default-queue", NOBODY), None) if each[1] == "QueueLabelMissing"]
    assert [(key, text.partition(" has no label")[0]) for _, _, key, text in found] == [
        ("ml/a-0", "pod ml/a-0"),
        ("ml/a", "RayCluster ml/a"),
    ]


def test_what_is_in_the_way_is_told_to_the_owner_once() -> None:
    """People look at what they made: `kubectl describe raycluster`."""
    world, limit = owned("team", LABEL), reasons.over_limit("team", "gpu", 4, 4, 1)
    found = [
        (kind, reason, text) for kind, reason, key, text in told(world, limit) if text.startswith("PodGroup ml/a: ")
    ]
    assert found == [("Warning", "Unschedulable", f"PodGroup ml/a: {limit.message}")]
    again = reasons.over_limit("team", "gpu", 4, 3, 2)
    assert [text for *_, text in told(world, again, 60.0) if text.startswith("PodGroup ml/a: ")] == []


def test_a_gang_that_is_not_complete_yet_warns_nobody() -> None:
    assert [each for each in told(owned("team", LABEL), reasons.not_ready([])) if "PodGroup ml/a: " in each[3]] == []


@pytest.mark.parametrize(("queue", "choice"), [("default-queue", LABEL), ("team", NOBODY)])
def test_a_queue_that_somebody_chose_is_no_matter(queue: str, choice: QueueChoice) -> None:
    assert told(owned(queue, choice), None) == []


def test_each_is_told_once_and_again_after_a_while() -> None:
    world = owned("lost", LABEL)
    assert len(of_owner(told(world, NO_QUEUE))) == 1
    assert of_owner(told(world, NO_QUEUE, 60.0)) == []
    assert len(of_owner(told(world, NO_QUEUE, 2 * 3600.0))) == 1


def test_an_owner_of_many_groups_is_told_once() -> None:
    world = World(*(pod_group(name, queue="lost") for name in "abc"))
    for name in "abc":
        world.owners.observe(f"ml/{name}", OWNER, LABEL)
    result = decided([state(f"ml/{name}", {"Pending": 1}, NO_QUEUE) for name in "abc"])
    world.run(result)
    assert sum("RayCluster ml/a names" in text for text in world.messages) == 1


def test_groups_without_pods_are_forgotten() -> None:
    world = owned("lost", LABEL)
    assert world.owners.owner_of("ml/a") == OWNER
    world.owners.forget("ml/a")
    assert world.owners.owner_of("ml/a") is None
    assert of_owner(told(world, NO_QUEUE)) == []
