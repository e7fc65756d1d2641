"""What differs between two plans."""

from __future__ import annotations

import math

from kai_sched import Cluster, Config
from kai_sched.answers.changes import AddNodes, Change, Drain, Override, Remove, SetQueue, changed
from kai_sched.answers.difference import Difference, ShareChange, difference
from kai_sched.answers.trial import Trials
from kai_sched.answers.workloads import workloads_of
from kai_sched.model.objects import Pod, PodGroup, Shape
from tests.scenarios.objects import NOW_NS
from tests.scenarios.table import cluster_of

# Fair shares: 8 each of 16. "over" has 12, and "poor", which asks for 8, gets 4 of them.
CLUSTER = cluster_of("""
    node a gpu=8
    node b gpu=8
    queue rich gpu=8
    queue poor gpu=8
    group over owner=Job/over queue=rich min=1
    pod over-0..1 gpu=4 on=a
    pod over-2 gpu=4 on=b
    group poor owner=RayCluster/serve queue=poor min=1
    pod poor-0 gpu=8
    group big owner=Job/big queue=poor min=1
    pod big-0 gpu=8
""")


def compare(*changes: Change, cluster: Cluster = CLUSTER) -> Difference:
    after = changed(cluster, changes).cluster()
    outcomes = [Trials(each, Config(), NOW_NS).outcome() for each in (cluster, after)]
    return difference(outcomes[0], outcomes[1], workloads_of(cluster), workloads_of(after), NOW_NS)


def test_equal_plans_do_not_differ() -> None:
    found = compare()
    assert found.is_empty
    assert found.texts == ["nothing differs"]


def test_more_nodes_start_what_waits_and_spare_who_was_evicted() -> None:
    found = compare(AddNodes(2, "a"))
    assert [each.name for each in found.starts] == ["big"]
    assert [each.name for each in found.spared] == ["over"]
    assert (found.waits, found.evicted, found.gone, found.new) == ((), (), (), ())
    assert found.texts == [
        "starts: big (Job)",
        "no longer evicted: over (Job)",
        "queue poor: fair share 8 -> 16, allocated 8 -> 16 GPUs",
        "queue rich: fair share 8 -> 12, allocated 8 -> 12 GPUs",
    ]


def test_a_higher_quota_evicts_others_and_changes_shares() -> None:
    found = compare(SetQueue("poor", "gpu", "quota", 16.0), SetQueue("rich", "gpu", "quota", 0.0))
    assert [each.name for each in found.starts] == ["big"]
    assert [each.workload.name for each in found.evicted] == ["over"]
    (rich,) = [each for each in found.shares if each.queue == "rich"]
    assert rich == ShareChange("rich", (8.0, 0.0), (8.0, 0.0), (8.0, 0.0))
    assert "queue rich: quota 8 -> 0, fair share 8 -> 0, allocated 8 -> 0 GPUs" in found.texts


def test_a_node_that_is_drained_takes_room_from_who_would_have_had_it() -> None:
    """A pod of "over" waits again, which then has no more than its share: nobody is evicted for "serve"."""
    found = compare(Drain("b", "kai-scheduler"))
    assert found.texts == [
        "no longer runs: serve (RayCluster)",
        "no longer evicted: over (Job)",
        "queue poor: allocated 8 -> 0 GPUs",
    ]


def test_only_what_the_second_plan_evicts_more_is_evicted() -> None:
    """Both evict over-2; the second one evicts the others as well."""
    found = compare(SetQueue("poor", "gpu", "quota", 16.0), SetQueue("rich", "gpu", "quota", 0.0))
    (victim,) = found.evicted
    assert (victim.workload.name, victim.pods, victim.of_pods, victim.gpus) == ("over", 2, 3, 8.0)


def test_workloads_that_are_in_one_plan_only_are_gone_or_new() -> None:
    found = compare(
        Remove("ns/over"),
        Override(
            "f", (PodGroup("ns", "late", queue="rich"), Pod("ns", "late-0", Shape((("gpu", 1.0),)), group="late"))
        ),
    )
    assert ([each.name for each in found.gone], [each.name for each in found.new]) == (["over"], ["late"])
    assert [each.name for each in found.waits] == []
    texts = found.texts
    assert "new: late (PodGroup)" in texts
    assert "gone: over (Job)" in texts


def test_unlimited_and_zero_are_words_and_numbers() -> None:
    change = ShareChange("q", (0.0, 0.0), (1.0, 1.0), (8.0, math.inf))
    found = Difference((), (), (), (), (), (), (change,))
    assert found.texts == ["queue q: quota 8 -> unlimited GPUs"]


def test_a_queue_that_is_new_counts_from_nothing() -> None:
    cluster = cluster_of("node a gpu=8\nqueue q\ngroup g\npod g-0 gpu=1")
    more = cluster_of("node a gpu=8\nqueue q\nqueue r gpu=4\ngroup g\npod g-0 gpu=1")
    outcomes = [Trials(each, Config(), NOW_NS).outcome() for each in (cluster, more)]
    found = difference(outcomes[0], outcomes[1], workloads_of(cluster), workloads_of(more), NOW_NS)
    assert [(each.queue, each.quota) for each in found.shares] == [("r", (0.0, 4.0))]
