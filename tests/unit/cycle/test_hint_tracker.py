"""Who is told that it was promised free room (``HintTracker``)."""

from __future__ import annotations

from kai_sched import Cluster, Config, CycleResult
from kai_sched.cycle.hint_tracker import HintTracker
from kai_sched.model.objects import Pod, PodGroup, Shape
from kai_sched.plan.effects import Evict

SHAPE = Shape((("gpu", 1.0), ("pods", 1.0)))
ORIGINAL = Config(victims="original")
CLUSTER = Cluster.of(
    [
        *(PodGroup("ml", name, name, 1, queue="q", min_member=1) for name in "ab"),
        *(Pod("ml", f"{name}-0", SHAPE, name, 1, group=name, scheduler="kai-scheduler") for name in "ab"),
        Pod("ml", "bare", SHAPE, "bare", 1, scheduler="kai-scheduler"),
    ]
)
WITHOUT_A = Cluster.of([group for group in CLUSTER.pod_groups.values() if group.name == "b"])


def cycle(*promised: str, evicted: tuple[str, ...] = ()) -> CycleResult:
    """A cycle that promised these groups free room, and evicted a pod of those."""
    lefts = tuple(
        Evict(f"{group}-0", "", "n", "reclaim", "ml/other", group, (), "", moved=False, sides=()) for group in evicted
    )
    return CycleResult(lefts, (), {}, {}, (), {}, frozenset(promised))


def told(*cycles: CycleResult) -> list[tuple[bool, set[str]]]:
    """After each cycle: whether there is somebody new, and all who are told."""
    tracker = HintTracker()
    return [(tracker.record(CLUSTER, result, ORIGINAL), set(tracker.pipelined_free)) for result in cycles]


def test_who_was_promised_free_room_is_told_from_then_on() -> None:
    both = {"ml/a", "ml/bare"}
    assert told(cycle("ml/a"), cycle("ml/bare"), cycle()) == [(True, {"ml/a"}), (True, both), (False, both)]


def test_who_was_told_and_lost_pods_is_told_no_more() -> None:
    """Also if it is promised room in the very cycle that evicts it, or long after."""
    cycles = (cycle("ml/a", "ml/b"), cycle(), cycle("ml/a", evicted=("ml/a",)), cycle("ml/a"))
    assert told(*cycles) == [(True, {"ml/a", "ml/b"}), (False, {"ml/a", "ml/b"}), (False, {"ml/b"}), (False, {"ml/b"})]


def test_who_lost_pods_before_it_was_ever_told_is_told() -> None:
    assert told(cycle(evicted=("ml/a",)), cycle("ml/a", evicted=("ml/a",))) == [(False, set()), (True, {"ml/a"})]


def test_a_new_group_of_the_same_name_starts_anew() -> None:
    tracker = HintTracker()
    tracker.record(CLUSTER, cycle("ml/a"), ORIGINAL)
    tracker.record(CLUSTER, cycle(evicted=("ml/a",)), ORIGINAL)
    tracker.record(WITHOUT_A, cycle(), ORIGINAL)
    assert tracker.record(CLUSTER, cycle("ml/a"), ORIGINAL)
    assert tracker.pipelined_free == {"ml/a"}
