"""First starts: counted once a group, when its minimum is bound, whatever this process saw of it before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kai_sched.model.objects import Pod, PodGroup, SubGroup
from kai_sched.model.store import Cluster
from kai_sched.operator.reporting.first_starts import FirstStarts
from kai_sched.plan.effects import Bind, Pipeline
from tests.unit.reconcile.cases import SECOND_NS, decided, pod, pod_group, state

CREATED_NS = 1000 * SECOND_NS


class Watched:
    """First starts, and what they reported; time is in seconds after the group was created."""

    def __init__(self) -> None:
        self.reported: list[tuple[str, float]] = []
        self.starts = FirstStarts(lambda queue, wait_s: self.reported.append((queue, wait_s)))

    def decide(self, group: PodGroup, pods: Sequence[Pod], counts: dict[str, int] | None = None) -> None:
        """A cycle binds these pods; the group's pods are in these states at its end."""
        effects = tuple(Bind(each.key, each.uid, "node-1") for each in pods)
        states = [state(group.key, counts or {"Binding": len(pods)})]
        self.starts.decided(Cluster.of([group, *pods]), decided(states, effects=effects))

    def bound(self, each: Pod, at_s: float) -> None:
        self.starts.bound(each.uid, CREATED_NS + round(at_s * SECOND_NS))


def gang(**more: Any) -> PodGroup:
    return pod_group("g", created_ns=CREATED_NS, min_member=2, **more)


def members(count: int, **more: Any) -> list[Pod]:
    return [pod(f"g-{number}", "g", **more) for number in range(count)]


def test_a_gang_has_started_with_the_last_bind_of_its_minimum() -> None:
    watched, pods = Watched(), members(3)
    watched.decide(gang(), pods)
    watched.bound(pods[2], 5.0)
    assert watched.reported == []
    watched.bound(pods[0], 7.5)
    watched.bound(pods[1], 9.0)
    assert watched.reported == [("team", 7.5)]


@pytest.mark.parametrize("early", [1, 2, 3])
def test_what_is_bound_before_its_cycle_is_told_counts(early: int) -> None:
    """A cycle of several shards is told when the last one has decided; the first one's binds are under way by then."""
    watched, pods = Watched(), members(3)
    for number in range(early):
        watched.bound(pods[number], 5.0 + number)
    watched.decide(gang(), pods)
    for number in range(early, 3):
        watched.bound(pods[number], 5.0 + number)
    assert watched.reported == [("team", 6.0)]


def test_nothing_is_kept_of_binds_that_count_for_no_group() -> None:
    watched, pods = Watched(), members(2)
    watched.bound(pod("alone"), 1.0)
    watched.decide(gang(), pods)
    for each in pods:
        watched.bound(each, 2.0)
    assert vars(watched.starts)["_early"] == {}
    assert watched.reported == [("team", 2.0)]


def test_a_bind_that_failed_and_is_sent_again_counts_when_it_is_done() -> None:
    watched, pods = Watched(), members(2)
    watched.decide(gang(), pods)
    watched.bound(pods[0], 5.0)
    # The annotation of its start was written meanwhile.
    watched.decide(gang(last_start_ns=CREATED_NS + SECOND_NS), pods[1:], {"Running": 1, "Binding": 1})
    watched.bound(pods[1], 65.0)
    assert watched.reported == [("team", 65.0)]


def test_what_starts_again_is_not_counted() -> None:
    """After an eviction, by the annotation."""
    watched, pods = Watched(), members(2)
    watched.decide(gang(last_start_ns=CREATED_NS + SECOND_NS), pods)
    for each in pods:
        watched.bound(each, 90.0)
    assert watched.reported == []


def test_a_new_process_does_not_count_what_runs() -> None:
    """A group without the annotation that has pods on nodes: more of it is bound."""
    for status in ("Running", "Bound", "Releasing", "Succeeded"):
        watched, pods = Watched(), members(2)
        watched.decide(gang(), pods, {status: 2, "Binding": 2})
        for each in pods:
            watched.bound(each, 90.0)
        assert watched.reported == []


def test_a_group_whose_annotation_is_late_is_counted_once() -> None:
    watched, pods = Watched(), members(2)
    more = [pod(f"m-{number}", "g") for number in range(2)]
    watched.decide(gang(), pods)
    for each in pods:
        watched.bound(each, 3.0)
    watched.starts.forget(Cluster.of([gang()]))
    watched.decide(gang(), more)
    for each in more:
        watched.bound(each, 4.0)
    assert watched.reported == [("team", 3.0)]


def test_a_group_of_the_same_name_is_another_one() -> None:
    watched, pods = Watched(), members(2)
    watched.decide(gang(), pods)
    for each in pods:
        watched.bound(each, 3.0)
    again = gang(uid="second")
    watched.starts.forget(Cluster.of([again]))
    later = [replace(each, uid=f"later-{each.name}") for each in pods]
    watched.decide(again, later)
    for each in later:
        watched.bound(each, 8.0)
    assert watched.reported == [("team", 3.0), ("team", 8.0)]


def test_groups_that_the_api_server_does_not_have_yet_are_told_apart() -> None:
    """They have no uid. Each is counted once, also when its uid is known later; a bare pod is none of them."""
    watched, alone = Watched(), pod("alone")
    for name in ("one", "two"):
        group = pod_group(name, created_ns=CREATED_NS, uid="")
        watched.decide(group, [pod(f"{name}-0", name), pod(f"{name}-1", name)])
    watched.bound(alone, 1.0)
    watched.bound(pod("one-0", "one"), 2.0)
    known = pod_group("one", created_ns=CREATED_NS, uid="first")
    watched.starts.forget(Cluster.of([known, pod_group("two", created_ns=CREATED_NS, uid="")]))
    watched.decide(known, [pod("one-2", "one")])
    watched.bound(pod("one-2", "one"), 3.0)
    watched.bound(pod("two-0", "two"), 4.0)
    again = pod_group("one", created_ns=CREATED_NS, uid="second")
    watched.decide(again, [pod("one-3", "one")])
    watched.bound(pod("one-3", "one"), 5.0)
    assert watched.reported == [("team", 2.0), ("team", 4.0), ("team", 5.0)]


def test_sub_groups_count_each_for_itself() -> None:
    subs = (SubGroup("leader", min_member=1), SubGroup("workers", min_member=2))
    group = pod_group("g", created_ns=CREATED_NS, min_member=None, sub_groups=subs)
    pods = [pod("l-0", "g", sub_group="leader"), *(pod(f"w-{n}", "g", sub_group="workers") for n in range(3))]
    watched = Watched()
    watched.decide(group, pods)
    for at_s, each in ((1.0, pods[1]), (2.0, pods[2]), (3.0, pods[3]), (4.0, pods[0])):
        watched.bound(each, at_s)
    assert watched.reported == [("team", 4.0)]


def test_pods_without_a_group_and_pipelined_pods_are_no_start() -> None:
    watched, alone = Watched(), pod("alone")
    watched.starts.decided(Cluster.of([alone]), decided(effects=(Bind(alone.key, alone.uid, "node-1"),)))
    watched.bound(alone, 1.0)
    waits = members(2)
    effects = tuple(Pipeline(each.key, each.uid, "node-1") for each in waits)
    watched.starts.decided(Cluster.of([gang(), *waits]), decided(effects=effects))
    for each in waits:
        watched.bound(each, 1.0)
    assert watched.reported == []


def test_nothing_is_kept_of_groups_that_are_gone_or_known_to_have_started() -> None:
    watched, pods = Watched(), members(2)
    watched.decide(gang(), pods)
    watched.starts.forget(Cluster.of([]))
    watched.bound(pods[0], 1.0)
    assert vars(watched.starts)["_starting"] == vars(watched.starts)["_group_of"] == {}
    watched.decide(gang(), pods)
    for each in pods:
        watched.bound(each, 2.0)
    watched.starts.forget(Cluster.of([gang(last_start_ns=CREATED_NS + SECOND_NS)]))
    assert vars(watched.starts)["_started"] == {}
    assert watched.reported == [("team", 2.0)]
