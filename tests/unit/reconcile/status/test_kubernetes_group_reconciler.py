"""The condition of a PodGroup of Kubernetes itself: whether its minimum was ever scheduled."""

from __future__ import annotations

from typing import Any

import msgspec

from kai_sched.model.objects import Object
from kai_sched.plan import reasons
from kai_sched.plan.effects import PatchStatus
from kai_sched.plan.result import CycleResult
from tests.unit.reconcile.cases import NO_ROOM, NOW, World, decided, pod, pod_group, state

KEY, GROUP, NAME = "ml/g", "ml/pg-g-7", "pg-g-7"
OTHER = {"type": "DisruptionTarget", "status": "False", "reason": "Idle", "message": ""}


class Kubernetes(World):
    """A cluster with the PodGroup g of Kubernetes, and the PodGroup that is made of it."""

    def __init__(self, *pods: Object, least: int = 2, shown: dict[str, Any] | None = None) -> None:
        self.uid = "7"
        self.shown = {} if shown is None else shown
        super().__init__(pod_group(NAME, min_member=least), *pods)

    def show(self) -> None:
        super().show()
        self.shown = self.status.get(KEY, self.shown)
        self.reconciler.observe_kubernetes_group(KEY, self.uid, msgspec.json.encode(self.shown), 3)

    def conditions_after(self, result: CycleResult, after_s: float = 0.0) -> list[dict[str, Any]]:
        self.status.setdefault(KEY, self.shown)
        self.run(result, after_s)
        found: list[dict[str, Any]] = self.status[KEY].get("conditions", [])
        return found


def waiting(reason: reasons.Reason | None = NO_ROOM) -> CycleResult:
    return decided([state(GROUP, {"Pending": 2}, reason)])


RUNNING = decided([state(GROUP, {"Running": 2})])
PENDING = pod("a", NAME), pod("b", NAME)
PLACED = pod("a", NAME, "node-1"), pod("b", NAME, "node-1")


def test_a_group_without_room_is_unschedulable() -> None:
    world = Kubernetes(*PENDING)
    assert world.conditions_after(waiting()) == [
        {
            "type": "PodGroupInitiallyScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": NO_ROOM.message,
            "observedGeneration": 3,
            "lastTransitionTime": NOW,
        }
    ]


def test_a_group_with_its_minimum_on_nodes_is_scheduled() -> None:
    world = Kubernetes(*PLACED, shown={"conditions": [OTHER]})
    other, ours = world.conditions_after(RUNNING)
    assert other == OTHER, "the conditions of others stay"
    assert (ours["status"], ours["reason"], ours["lastTransitionTime"]) == ("True", "Scheduled", NOW)


def test_nothing_is_said_of_a_group_that_is_under_way() -> None:
    """Below its minimum, being bound, or not tried: that it waits is no fault of the cluster."""
    one = Kubernetes(PENDING[0])
    assert one.conditions_after(waiting(reasons.not_ready([("default", 2, 1, 0)]))) == []
    assert Kubernetes(PLACED[0], PENDING[1]).conditions_after(decided([state(GROUP, {"Running": 1})])) == []
    assert Kubernetes(*PLACED).conditions_after(decided([state(GROUP, {"Running": 1, "Binding": 1})])) == []
    assert Kubernetes(*PENDING).conditions_after(waiting(reasons.not_tried())) == []


def test_what_was_scheduled_once_stays_so() -> None:
    world = Kubernetes(*PLACED)
    world.conditions_after(RUNNING)
    world.objects = (world.objects[0], *PENDING)
    (condition,) = world.conditions_after(waiting(), 60.0)
    assert condition["status"] == "True"


def test_it_becomes_true_and_its_time_is_that_of_the_change() -> None:
    world = Kubernetes(*PENDING)
    world.conditions_after(waiting())
    world.objects = (world.objects[0], *PLACED)
    (condition,) = world.conditions_after(RUNNING, 60.0)
    assert (condition["status"], condition["lastTransitionTime"]) == ("True", "2026-01-01T12:01:00Z")


def test_a_new_wording_waits_and_keeps_the_time() -> None:
    world = Kubernetes(*PENDING)
    world.conditions_after(waiting())
    reworded = reasons.Reason(NO_ROOM.code, "no node any more")
    (condition,) = world.conditions_after(waiting(reworded), 1.0)
    assert condition["message"] == NO_ROOM.message
    (condition,) = world.conditions_after(waiting(reworded), 70.0)
    assert (condition["message"], condition["lastTransitionTime"]) == ("no node any more", NOW)


def test_a_write_names_the_object_by_its_uid() -> None:
    world = Kubernetes(*PENDING)
    (write,) = [each for each in world.run(waiting())[0] if isinstance(each, PatchStatus) and each.ref.key == KEY]
    assert (write.ref.api_version, write.ref.kind, write.ref.uid) == ("scheduling.k8s.io/v1beta1", "PodGroup", "7")


def test_another_one_of_the_same_name_has_another_group() -> None:
    world = Kubernetes(*PENDING)
    world.uid = "8"
    world.show()
    assert world.conditions_after(waiting()) == []


def test_of_one_that_is_gone_nothing_is_written() -> None:
    world = Kubernetes(*PENDING)
    world.reconciler.forget_kubernetes_group(KEY)
    assert [each for each in world.ask(waiting())[0] if each.ref.key == KEY] == []
    world.reconciler.forget_kubernetes_group(KEY)
