"""Another node pool, as a change that starts a workload, and its own pool as what blocks it."""

from __future__ import annotations

import pytest

from kai_sched import Config
from kai_sched.answers.changes import changed
from kai_sched.answers.trial import Trials
from kai_sched.answers.what_if import read_setting
from kai_sched.answers.workload_changes import InPool
from kai_sched.answers.workloads import workloads_of
from kai_sched.model.config import CLUSTER
from kai_sched.model.field_errors import FieldError
from tests.scenarios.objects import NOW_NS
from tests.scenarios.table import cluster_of
from tests.unit.answers.explain.explained import constraints, explanation, flags, helpless, suggested

LABEL = Config().node_pool_label
A, B, REST = Config(node_pool="a"), Config(node_pool="b"), Config()
SHARED = [Config(node_pool=pool, fair_share=CLUSTER) for pool in "ab"]
FULL = """
    node a1 gpu=2 labels=kai.scheduler/node-pool:a
    node b1 gpu=2 labels=kai.scheduler/node-pool:b
    queue qa labels=kai.scheduler/node-pool:a
    queue qb labels=kai.scheduler/node-pool:b
    group runs queue=qa preemptible=no labels=kai.scheduler/node-pool:a
    group g queue=qa labels=kai.scheduler/node-pool:a
    pod runs-0 gpu=2 on=a1
    pod g-0 gpu=2
"""


def test_the_queue_of_the_other_pool_comes_with_it() -> None:
    """Pool a is full; pool b has room, and a queue of its own."""
    found = explanation(FULL, config=A, shards=[A, B])
    assert suggested(found)["nodePool"] == ["node pool b instead of node pool a, in queue qb"]
    assert flags(found, "nodePool") == ["--set workload/ns/g.nodePool=b", "--set workload/ns/g.queue=qb"]
    assert ("pool", True) in constraints(found)
    texts = {each.kind: each.text for each in found.constraints}
    assert texts["pool"] == "pool: node pool a (1 GPU node full); it starts in node pool b"
    assert texts["room"] == "room: node pool a: 1 GPU node full"


def test_with_shares_of_the_cluster_the_queue_stays() -> None:
    shared = FULL.replace("queue qa labels=kai.scheduler/node-pool:a", "queue qa")
    found = explanation(shared, config=Config(node_pool="a"), shards=SHARED)
    assert suggested(found)["nodePool"] == ["node pool b instead of node pool a"]


def test_what_is_in_no_pool_may_be_one() -> None:
    found = explanation(
        """
        node n gpu=1
        node b1 gpu=2 labels=kai.scheduler/node-pool:b
        queue q
        queue qb labels=kai.scheduler/node-pool:b
        group g queue=q
        pod g-0 gpu=2
        """,
        shards=[B, REST],
    )
    assert suggested(found)["nodePool"] == ["node pool b instead of no node pool, in queue qb"]
    assert {each.text for each in found.constraints if each.kind == "pool"} == {
        "pool: no node pool (1 GPU node full); it starts in node pool b"
    }


def test_another_pool_that_is_full_does_not_help() -> None:
    full = (
        FULL + "\n    group other queue=qb preemptible=no labels=kai.scheduler/node-pool:b\n    pod other-0 gpu=1 on=b1"
    )
    found = explanation(full, config=A, shards=[A, B])
    assert "nodePool" not in suggested(found)
    assert helpless(found)["nodePool"] == "another node pool (1 of 1 tried)"
    assert "pool" not in dict(constraints(found))


def test_the_shard_of_the_workload_explains_it() -> None:
    """Where another shard was asked: what it says of its own pool is no answer."""
    found = explanation(FULL, config=B, shards=[A, B])
    assert found.reason is not None
    assert found.queue == "qa"
    assert suggested(found)["nodePool"] == ["node pool b instead of node pool a, in queue qb"]
    whole = Config(node_pools=("a", "b"))
    assert suggested(explanation(FULL, config=whole, shards=[A, B])) == suggested(found)


def test_without_other_shards_nothing_is_said_of_pools() -> None:
    found = explanation(FULL, config=A)
    assert "nodePool" not in {**suggested(found), **helpless(found)}
    assert {each.text for each in found.constraints if each.kind == "room"} == {"room: 1 GPU node full"}


def test_the_flag_changes_the_label_of_a_group_or_a_bare_pod() -> None:
    cluster = cluster_of("node n\ngroup g\npod g-0\npod bare")
    workloads = workloads_of(cluster)
    change = read_setting("workload/g.nodePool=b", cluster, Config(), workloads)
    assert change == InPool("ns/g", "b", LABEL)
    assert changed(cluster, [change]).cluster().pod_groups["ns/g"].labels == {LABEL: "b"}
    bare = read_setting("workload/bare.nodePool=b", cluster, Config(), workloads)
    moved = changed(cluster, [bare]).cluster()
    assert moved.pods["ns/bare"].labels == {LABEL: "b"}
    back = read_setting("workload/bare.nodePool=none", moved, Config(), workloads_of(moved))
    assert LABEL not in changed(moved, [back]).cluster().pods["ns/bare"].labels
    with pytest.raises(FieldError, match="write a node pool, or none"):
        read_setting("workload/g.nodePool=", cluster, Config(), workloads)


def test_trials_decide_all_shards_or_one() -> None:
    cluster = cluster_of(FULL)
    one, every = Trials(cluster, B, NOW_NS, shards=[A, B]), Trials(cluster, A, NOW_NS, shards=[A, B]).of_all_shards()
    assert "ns/g" not in one.base.first.groups
    assert every.base.first.groups.keys() == {"ns/g", "ns/runs"}
    assert every.of_all_shards() is every
    assert every.cycle_cost == 2 * one.cycle_cost
