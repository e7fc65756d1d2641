"""The cycles of several shards as one result."""

from __future__ import annotations

from dataclasses import replace

from kai_sched import Config, library, run_cycle
from kai_sched.answers.trial import decide_unasked
from kai_sched.cycle.pool_amounts import together
from kai_sched.cycle.shards import AllShards, last_known, merged
from kai_sched.model.config import CLUSTER
from kai_sched.model.hints import PoolAmounts, QueueAmounts, SchedulingHints
from kai_sched.model.objects import Node, Pod, Queue
from kai_sched.model.store import Change, Store
from kai_sched.plan.effects import Evict
from tests.scenarios.objects import NOW_NS
from tests.scenarios.table import cluster_of

TEXT = """
node a1 gpu=2 labels=kai.scheduler/node-pool:a
node b1 gpu=2 labels=kai.scheduler/node-pool:b
queue qa gpu=0 labels=kai.scheduler/node-pool:a
queue ra gpu=1 labels=kai.scheduler/node-pool:a
queue qb labels=kai.scheduler/node-pool:b
group w queue=qa min=1 labels=kai.scheduler/node-pool:a
group v queue=ra labels=kai.scheduler/node-pool:a
group g queue=qb labels=kai.scheduler/node-pool:b
pod w-0..1 gpu=1 on=a1
pod v-0 gpu=1
pod g-0 gpu=3
pod h gpu=1 foreign=other on=b1
"""
SHARDS = [Config(node_pool=pool) for pool in "ab"]


def test_what_several_shards_decide_is_one_result() -> None:
    cluster = cluster_of(TEXT)
    results = [run_cycle(cluster, config, NOW_NS) for config in SHARDS]
    found = merged(cluster, results)
    assert [type(each) for each in found.effects][:1] == [Evict]
    assert set(found.effects) == {effect for result in results for effect in result.effects}
    assert found.groups == {**results[0].groups, **results[1].groups}
    assert list(found.groups) == sorted(found.groups)
    assert found.nodes == {**results[0].nodes, **results[1].nodes}
    assert [state.name for state in found.queues] == ["qa", "ra", "qb"]
    assert found.pods["ns/v-0"] == results[0].pods["ns/v-0"]
    assert found.pods["ns/g-0"] == results[1].pods["ns/g-0"]
    assert found.pods["ns/h"] == results[1].pods["ns/h"]
    assert found.line == {"ns/v": 0, "ns/g": 1} or found.line == {"ns/g": 0}
    assert found.tried["reclaim"] == {
        name: sum(result.tried.get("reclaim", {}).get(name, 0) for result in results) for name in found.tried["reclaim"]
    }


def test_of_one_shard_it_is_its_own_result() -> None:
    cluster = cluster_of(TEXT)
    result = run_cycle(cluster, SHARDS[0], NOW_NS)
    assert merged(cluster, [result]) is result


def test_what_a_pool_brings_is_what_it_had_without_the_others() -> None:
    """Counted before a cycle and after one that decides nothing, told of others or not."""
    cluster = cluster_of(TEXT.replace(" labels=kai.scheduler/node-pool:a\nqueue", "\nqueue"))
    config = Config(node_pool="a", fair_share=CLUSTER, actions=())
    shards = AllShards([config, Config(node_pool="b", fair_share=CLUSTER, actions=())], decide_unasked)
    before = shards.count(cluster, config, NOW_NS, shards.caches[0], {})
    assert before.capacity[2] == 2.0
    assert before.queues["qa"] == QueueAmounts((2000.0, 2e9, 2.0), (0.0, 0.0, 0.0), (2000.0, 2e9, 2.0))
    assert run_cycle(cluster, Config(node_pool="a"), NOW_NS).pool == PoolAmounts(), "nobody asks"
    others = PoolAmounts((1.0, 2.0, 3.0), {"qa": QueueAmounts((0.1, 0.2, 0.3), (0.0, 0.0, 0.1), (0.1, 0.2, 0.7))})
    assert run_cycle(cluster, config, NOW_NS).pool == before
    assert run_cycle(cluster, config, NOW_NS, hints=SchedulingHints(elsewhere=others)).pool == before
    assert together([before, others]).queues["qa"].held == (2000.1, 2e9 + 0.2, 2.3)


def test_cycles_that_promise_nothing_new_have_nothing_to_say() -> None:
    cluster = cluster_of(TEXT)
    cycles = AllShards(SHARDS, decide_unasked).begin()
    cycles.decide(cluster, NOW_NS)
    assert cycles.changed, "a pod waits for the room of another"
    cycles.decide(cluster, NOW_NS)
    assert not cycles.changed


def test_what_any_shard_leaves_out_is_left_out() -> None:
    cluster = cluster_of(TEXT)
    results = [run_cycle(cluster, config, NOW_NS) for config in SHARDS]
    faults: list[dict[Change, str]] = [{(Pod, "ns/x"): "1", (Node, "a1"): "2"}, {(Pod, "ns/x"): "1", (Queue, "q"): "3"}]
    found = merged(cluster, [replace(each, left_out=more) for each, more in zip(results, faults, strict=True)])
    assert found.left_out == {(Pod, "ns/x"): "1", (Node, "a1"): "2", (Queue, "q"): "3"}


DEVICES = """
node na labels=kai.scheduler/node-pool:a
node nb labels=kai.scheduler/node-pool:b
deviceclass fabric
slice all devices=d0
resourceclaim c gets=fabric
resourceclaim d gets=fabric
queue qa labels=kai.scheduler/node-pool:a
queue qb labels=kai.scheduler/node-pool:b
group g queue=qa labels=kai.scheduler/node-pool:a
group h queue=qb labels=kai.scheduler/node-pool:b
pod g-0 devices=c
pod h-0 devices=d
"""


def test_pools_give_a_device_that_they_share_away_once() -> None:
    store = Store.of(cluster_of(DEVICES))
    devices = store.cluster().resource_slices["all"]
    store.put(replace(devices, devices=tuple(replace(each, node="", everywhere=True) for each in devices.devices)))
    found = AllShards(SHARDS, library.decide).begin().decide(store.cluster(), NOW_NS)
    assert [effect.pod for effect in found.effects] == ["ns/g-0"]
    assert found.pods["ns/h-0"].status == "Pending"


def test_pools_give_a_claim_for_one_pod_to_one_pod() -> None:
    cluster = cluster_of("""
node na labels=kai.scheduler/node-pool:a
node nb labels=kai.scheduler/node-pool:b
pv disk claim=data modes=ReadWriteOncePod
pvc data volume=disk modes=ReadWriteOncePod
queue qa labels=kai.scheduler/node-pool:a
queue qb labels=kai.scheduler/node-pool:b
group g queue=qa labels=kai.scheduler/node-pool:a
group h queue=qb labels=kai.scheduler/node-pool:b
pod g-0 claims=data
pod h-0 claims=data
""")
    found = AllShards(SHARDS, decide_unasked).begin().decide(cluster, NOW_NS)
    assert [effect.pod for effect in found.effects] == ["ns/g-0"]


def test_a_pod_that_was_left_out_is_in_no_shard() -> None:
    cluster = cluster_of(TEXT)
    first, second = (run_cycle(cluster, config, NOW_NS) for config in SHARDS)
    without = replace(second, pods={key: state for key, state in second.pods.items() if key != "ns/g-0"})
    assert "ns/g" in without.groups
    assert merged(cluster, [replace(first, pods={}), without]).pods.keys() == {"ns/h"}


def test_what_was_known_of_a_shard_stands_for_what_is_still_there() -> None:
    cluster = cluster_of(TEXT)
    result = run_cycle(cluster, SHARDS[0], NOW_NS)
    assert result.effects
    less = cluster_of("\n".join(line for line in TEXT.splitlines() if "v-0" not in line and "group v" not in line))
    found = last_known(result, less)
    assert (found.effects, found.evicted, dict(found.tried)) == ((), (), {})
    assert found.pods == {key: state for key, state in result.pods.items() if key != "ns/v-0"}
    assert found.groups.keys() == {"ns/w"}
    assert found.queues == result.queues
    assert found.nodes == result.nodes
