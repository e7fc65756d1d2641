"""What is written about evictions: who hears of a plan, and who of an eviction that was carried out."""

from __future__ import annotations

import pytest

from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Annotate, Bind, Emit, Evict, Pipeline, Plan, SetCondition, Side
from kai_sched.plan.receipts import receipt
from kai_sched.reconcile.eviction_notices import plan_writes, plans_of, victim_writes
from tests.unit.reconcile.cases import NOW, NOW_NS, cluster, pod, pod_group

SIDES = (
    Side("team-a", 100, (0.0, 0.0, 6.0), (0.0, 0.0, 2.0), (0.0, 0.0, 4.0)),
    Side("team-b", 200, (0.0, 0.0, 1.0), (0.0, 0.0, 4.0), (0.0, 0.0, 4.0)),
)


def evict(name: str, group: str, cause: str, action: str = "reclaim", moves_to: str = "") -> Evict:
    freed = (("cpu", 500.0), ("gpu", 1.0), ("pods", 1.0))
    sides = SIDES if action == "reclaim" else ()
    return Evict(f"ml/{name}", f"uid-{name}", "node-1", action, cause, group, freed, moves_to, bool(moves_to), sides)


def place(name: str) -> Pipeline:
    return Pipeline(f"ml/{name}", f"uid-{name}", "node-1")


@pytest.fixture
def world() -> Cluster:
    running = [pod(name, group, node="node-1") for name, group in (("a-0", "a"), ("a-1", "a"), ("b-0", "b"))]
    waiting = [pod("w-0", "w"), pod("w-1", "w"), pod("x")]
    return cluster(*(pod_group(name) for name in "abw"), *running, *waiting)


def test_a_plan_is_what_one_action_decided_for_one_group(world: Cluster) -> None:
    a0, a1 = evict("a-0", "ml/a", "ml/w"), evict("a-1", "ml/a", "ml/x", "preempt")
    b0 = evict("b-0", "ml/b", "ml/w")
    places = (place("w-0"), place("w-1"), place("x"))
    found = plans_of((a0, a1, b0, Bind("ml/y", "uid-y", "node-1"), *places), world)
    assert found == [Plan((a0, b0), places[:2]), Plan((a1,), places[2:])]


def test_stale_gangs_are_plans_of_their_own_for_nobody(world: Cluster) -> None:
    a0, a1 = evict("a-0", "ml/a", "", "stalegangeviction"), evict("a-1", "ml/a", "", "stalegangeviction")
    b0 = evict("b-0", "ml/b", "", "stalegangeviction")
    assert plans_of((a0, b0, a1, place("x")), world) == [Plan((a0, a1), ()), Plan((b0,), ())]


def test_a_pod_without_a_group_is_found_by_its_mark_where_a_group_has_its_name() -> None:
    world = cluster(pod_group("a"), pod_group("x"), pod("a-0", "a", node="node-1"), pod("x"))
    victim = evict("a-0", "ml/a", "pod:ml/x")
    (plan,) = plans_of((victim, place("x")), world)
    assert plan.winners == (place("x"),)
    told = [write for write in plan_writes(plan, world, NOW_NS) if isinstance(write, Emit)]
    assert [(each.ref.kind, each.ref.key) for each in told] == [("Pod", "ml/x")]
    annotations = next(iter(victim_writes(victim, plan, world))).annotations
    assert (annotations["evictor-pod-group-namespace"], annotations["evictor-pod-group-name"]) == ("ml", "x")


def test_who_gets_the_room_hears_from_whom_by_which_rule_and_what(world: Cluster) -> None:
    plan = Plan((evict("a-0", "ml/a", "ml/w"), evict("b-0", "ml/b", "ml/w")), (place("w-0"), place("w-1")))
    writes = list(plan_writes(plan, world, NOW_NS))
    stamps = [write for write in writes if isinstance(write, Annotate)]
    assert [(each.ref.key, each.annotations) for each in stamps] == [
        (key, {"kai.scheduler/last-eviction-timestamp": NOW}) for key in ("ml/a", "ml/b")
    ]
    text = (
        "reclaim evicts 2 pods of ml/a, ml/b for ml/w, which reclaims the share of its queue; "
        "this frees 1 CPU core, 2 GPUs on node-1, and ml/w starts once the pods are gone"
    )
    (told,) = [write for write in writes if isinstance(write, Emit)]
    assert (told.ref.kind, told.ref.key, told.type, told.reason) == ("PodGroup", "ml/w", "Normal", "Evicting")
    assert told.message == text
    marks = [write for write in writes if isinstance(write, SetCondition)]
    assert [(each.ref.key, each.type, each.status, each.reason) for each in marks] == [
        (f"ml/w-{n}", "PodScheduled", "False", "Pipelined") for n in range(2)
    ]
    assert marks[0].message == f"{text}; this pod on node-1"


def test_a_stale_gang_keeps_its_time_of_the_last_eviction(world: Cluster) -> None:
    plan = Plan((evict("a-0", "ml/a", "", "stalegangeviction"),), ())
    assert list(plan_writes(plan, world, NOW_NS)) == []
    first, second = victim_writes(plan.evictions[0], plan, world)
    assert (first.ref.kind, second.ref.kind) == ("Pod", "PodGroup")
    assert isinstance(second, Emit)
    assert second.annotations == {"num-evicted-pods": "1", "evictor-action-type": "stalegangeviction"}
    assert "below its minimum for longer than its staleness grace period" in second.message


def test_the_victim_and_its_group_hear_for_whom_and_why(world: Cluster) -> None:
    plan = Plan((evict("a-0", "ml/a", "ml/w"), evict("b-0", "ml/b", "ml/w")), (place("w-0"),))
    told = list(victim_writes(plan.evictions[0], plan, world))
    assert [(each.ref.kind, each.ref.key, each.ref.uid) for each in told] == [
        ("Pod", "ml/a-0", "uid-a-0"),
        ("PodGroup", "ml/a", "uid-a"),
    ]
    for each in told:
        assert isinstance(each, Emit)
        assert (each.type, each.reason) == ("Normal", "Evict")
        assert each.annotations == {
            "num-evicted-pods": "2",
            "evictor-action-type": "reclaim",
            "evictor-pod-group-name": "w",
            "evictor-pod-group-namespace": "ml",
        }
        assert each.message == (
            "pod ml/a-0 is evicted by reclaim for ml/w, which reclaims the share of its queue "
            "(frees 0.5 CPU cores, 1 GPU on node-1)"
        )
    # The queues that were weighed are in what `simulate` prints.
    assert receipt(plan.evictions[0]).splitlines()[1:] == [
        "queue team-a (priority 100): holds 6 GPUs, quota 2 GPUs, fair share 4 GPUs",
        "queue team-b (priority 200): holds 1 GPU, quota 4 GPUs, fair share 4 GPUs",
    ]


def test_a_pod_without_a_group_hears_once() -> None:
    world = cluster(pod("v", node="node-1"), pod("x"))
    victim = evict("v", "ml/v", "ml/x", "preempt")
    told = list(victim_writes(victim, Plan((victim,), (place("x"),)), world))
    assert [(each.ref.kind, each.ref.key) for each in told] == [("Pod", "ml/v")]


def test_a_moved_pod_hears_where_to(world: Cluster) -> None:
    victim = evict("a-0", "ml/a", "ml/w", "consolidation", "node-2")
    plan = Plan((victim,), (place("w-0"),))
    told = next(iter(victim_writes(victim, plan, world)))
    assert isinstance(told, Emit)
    assert "is moved by consolidation for ml/w" in told.message
    assert "it has a place on node-2" in told.message
    gain = next(write.message for write in plan_writes(plan, world, NOW_NS) if isinstance(write, Emit))
    assert gain.startswith(
        "consolidation moves 1 pod of ml/a for ml/w, which needs room that is scattered over several nodes"
    )
