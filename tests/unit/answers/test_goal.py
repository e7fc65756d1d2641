"""When a group has started: it holds its minimum, or, where it had that already, more pods than before."""

from __future__ import annotations

import pytest

from kai_sched.answers.goal import goal_of, group_pods, has_minimum, holding, pod_gpus
from kai_sched.model.keys import bare_pod_group_key
from tests.scenarios.table import cluster_of


def test_a_gang_has_started_once_its_minimum_has_nodes() -> None:
    waits = cluster_of("group g min=2\npod g-0 on=a\npod g-1..2")
    starts = cluster_of("group g min=2\npod g-0..1 on=a\npod g-2")
    goal = goal_of(waits, "ns/g")
    assert (goal.least, goal.met(waits), goal.met(starts)) == (1, False, True)


def test_one_that_runs_starts_with_one_more_pod() -> None:
    now = cluster_of("group g min=2\npod g-0..1 on=a\npod g-2")
    more = cluster_of("group g min=2\npod g-0..2 on=a")
    goal = goal_of(now, "ns/g")
    assert (goal.least, goal.met(now), goal.met(more)) == (3, False, True)


@pytest.mark.parametrize("status", ["Succeeded", "Releasing"])
def test_pods_that_have_ended_or_leave_do_not_count(status: str) -> None:
    cluster = cluster_of(f"group g min=1\npod g-0 on=a status={status}\npod g-1")
    assert holding(group_pods(cluster.pods, cluster.pod_groups, "ns/g")) == 0


def test_each_sub_group_needs_its_own_minimum() -> None:
    cluster = cluster_of("""
        group g tree="head*1 work*2"
        pod g-0 sub=head on=a
        pod g-1 sub=work on=a
        pod g-2 sub=work
    """)
    pods = group_pods(cluster.pods, cluster.pod_groups, "ns/g")
    assert not has_minimum(cluster, "ns/g", pods)
    assert has_minimum(cluster, "ns/g", [*pods[:2], *pods[1:2]])


def test_a_bare_pod_is_a_group_of_one_also_beside_a_pod_group_of_its_name() -> None:
    cluster = cluster_of("group twin\npod twin-0 group=twin\npod twin queue=q group=\npod lone queue=q group=")

    def keys(group: str) -> list[str]:
        return [pod.key for pod in group_pods(cluster.pods, cluster.pod_groups, group)]

    assert keys("ns/lone") == ["ns/lone"]
    assert keys("ns/twin") == ["ns/twin-0"]
    assert keys(bare_pod_group_key("ns/twin")) == ["ns/twin"]
    assert keys("ns/none") == []


def test_gpus_of_a_pod_are_whole_ones_and_parts() -> None:
    pods = cluster_of("pod a-0 gpu=4\npod b-0 part=0.5*2\npod c-0").pods
    assert [pod_gpus(pods[f"ns/{name}-0"]) for name in "abc"] == [4.0, 1.0, 0.0]
