"""Which shards a process with --all-shards decides for, and which settings count for each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kai_sched.model.config import CLUSTER, Config, in_pool, pool_of_conditions
from kai_sched.model.objects import Phase
from kai_sched.model.shards import UnservedPool, pool_texts, shards_of, unserved_pools
from tests.scenarios.table import cluster_of

A, B = Config(node_pool="a"), Config(node_pool="b", actions=("allocate",))


def test_each_shard_has_its_own_settings_in_the_order_of_names() -> None:
    found = shards_of(Config(), {"x": B, "default": Config(), "m": A})
    assert list(found.configs) == ["default", "m", "x"]
    assert found.configs == {"default": Config(), "m": A, "x": B}
    assert found.whole == Config(node_pools=("", "a", "b"))
    assert found.problems == {}


def test_without_a_shard_named_default_the_rest_of_the_cluster_is_served_all_the_same() -> None:
    base = Config(staleness_grace_s=7.0)
    assert shards_of(base, {"a": A}).configs == {"a": A, "default": base}
    rest = Config(actions=("allocate",))
    assert shards_of(base, {"rest": rest}).configs == {"rest": rest}


def test_of_two_shards_with_one_node_pool_the_first_is_served() -> None:
    found = shards_of(Config(), {"y": A, "x": A})
    assert list(found.configs) == ["default", "x"]
    assert found.problems["y"].startswith("spec.partitionLabelValue: shard x has node pool a already")


def test_what_objects_are_read_with_is_that_of_the_process() -> None:
    found = shards_of(Config(), {"a": replace(A, scheduler_name="mine", queue_label="team")})
    assert found.configs["a"] == A
    assert found.problems["a"].startswith("scheduler_name, queue_label: with --all-shards")


def test_with_shares_of_the_cluster_all_shards_divide_alike() -> None:
    own = replace(A, fair_share=CLUSTER, full_hierarchy_fairness=False, plugins={"proportion": {"kValue": "2"}})
    base = Config(fair_share=CLUSTER)
    found = shards_of(base, {"a": own})
    assert found.configs["a"] == replace(A, fair_share=CLUSTER, plugins={"proportion": {}})
    assert found.problems["a"].startswith("full_hierarchy_fairness, plugins.proportion: ")
    alone = replace(own, fair_share="pool")
    assert shards_of(Config(), {"a": alone}).configs["a"] == alone


def test_zones_are_read_where_some_shard_aligns_to_them() -> None:
    numa = replace(A, plugins={**A.plugins, "numa": {"ignoreList": "cpu"}})
    found = shards_of(Config(), {"a": numa, "b": B})
    assert found.whole.plugins["numa"] == {"ignoreList": "cpu"}
    assert "numa" not in found.configs["b"].plugins


def test_what_nodes_report_of_zones_is_read_with_the_arguments_of_one_shard() -> None:
    first, second = ({**A.plugins, "numa": {"reconstructAvailable": each}} for each in ("true", "false"))
    found = shards_of(Config(), {"b": replace(B, plugins=second), "a": replace(A, plugins=first)})
    assert found.configs["b"].plugins["numa"] == found.whole.plugins["numa"] == {"reconstructAvailable": "true"}
    assert found.problems["b"].startswith("plugins.numa: with --all-shards")
    assert "a" not in found.problems


def test_without_a_label_of_node_pools_one_shard_is_served() -> None:
    """Each of several would decide for the whole cluster."""
    base = Config(node_pool_label="")
    found = shards_of(base, {"b": replace(B, node_pool_label=""), "a": replace(A, node_pool_label="")})
    assert found.configs == {"default": base}
    assert in_pool({"any": "label"}, found.whole)
    assert list(found.problems) == ["a", "b"]
    assert found.problems["a"].endswith("set --nodepool-label-key")


def test_objects_are_in_one_of_the_pools_of_the_process() -> None:
    label = "kai.scheduler/node-pool"
    some, all_but_default = Config(node_pools=("", "a")), Config(node_pools=("a",))
    assert [in_pool(labels, some) for labels in ({}, {label: "a"}, {label: "b"}, {label: ""})] == [
        True,
        True,
        False,
        False,
    ]
    assert not in_pool({}, all_but_default)
    assert [pool_of_conditions(labels, some) for labels in ({}, {label: "a"})] == ["default", "a"]
    assert pool_of_conditions({label: "b"}, A) == "a"


def test_pools_that_no_shard_has_are_told() -> None:
    cluster = cluster_of("""
        node n
        node m labels=kai.scheduler/node-pool:b
        node o labels=kai.scheduler/node-pool:b
        group g labels=kai.scheduler/node-pool:b
        group h labels=kai.scheduler/node-pool:a
        group k labels=kai.scheduler/node-pool:c
        pod g-0
        pod h-0
        pod k-0
    """)
    found = unserved_pools(cluster, Config(node_pools=("", "a")))
    assert {pool: (each.nodes, each.workloads) for pool, each in found.items()} == {"b": (2, 1), "c": (0, 1)}
    assert "no SchedulingShard has it, so 2 nodes and 1 workload are left alone" in found["b"].text("b")


def test_what_has_ended_and_what_is_of_another_scheduler_is_no_workload_without_a_shard() -> None:
    """Nor is a PodGroup without pods, which may be anybody's."""
    cluster = cluster_of("""
        node n
        group mine labels=kai.scheduler/node-pool:b
        group ended labels=kai.scheduler/node-pool:b
        group others labels=kai.scheduler/node-pool:c
        group empty labels=kai.scheduler/node-pool:d
        pod mine-0
        pod mine-1
        pod ended-0
        pod others-0
        pod bare labels=kai.scheduler/node-pool:b
        pod bare-ended labels=kai.scheduler/node-pool:e
    """)
    changes: dict[str, dict[str, Any]] = {
        "mine-1": {"phase": Phase.SUCCEEDED},
        "ended-0": {"phase": Phase.FAILED},
        "others-0": {"scheduler": "default-scheduler"},
        "bare": {"group": ""},
        "bare-ended": {"group": "", "phase": Phase.SUCCEEDED},
    }
    pods = {key: replace(pod, **changes.get(pod.name, {})) for key, pod in cluster.pods.items()}
    found = unserved_pools(replace(cluster, pods=pods), Config(node_pools=("",)))
    assert {pool: (each.nodes, each.workloads) for pool, each in found.items()} == {"b": (0, 2)}


def test_only_the_first_node_pools_are_named() -> None:
    found = {f"p{n:02}": UnservedPool(0, 1) for n in reversed(range(13))}
    named, others = pool_texts(found)
    assert list(named) == [f"p{n:02}" for n in range(10)]
    assert others.startswith("3 more node pools have no SchedulingShard")
    assert pool_texts({"a": UnservedPool(1, 0)})[1] == ""
