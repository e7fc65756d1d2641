"""Several shards in one process, with shares of their own and of the whole cluster (semantics 2.8, 11.3)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_sched import Cluster, Config, run_cycle
from kai_sched.answers.trial import decide_unasked
from kai_sched.cycle.shards import AllShards, ShardCycles
from kai_sched.model import objects as o
from kai_sched.model.config import CLUSTER, POOL
from kai_sched.model.queue_tree import path_to_root
from kai_sched.plan.effects import Pipeline
from tests.oracle.between import moved_on, stale_noted, stamped
from tests.oracle.pools import decide_pools, only, shards
from tests.properties.clusters import NOW_NS
from tests.properties.crowds import FULL, Crowd, crowds
from tests.properties.deciders import Plan, plan_of
from tests.properties.plans import text_of
from tests.properties.pools import LABEL, POOLS, pools
from tests.properties.test_evictions import CONFIGS, TIMELESS, decided

MORE = settings(max_examples=4 * settings().max_examples)
TIGHT_POOLS = pools(Crowd(tight=True, movable=True), (1, 3), (2, 5), (4, 10))
BOTH = st.one_of(pools(FULL), TIGHT_POOLS, pools(Crowd(limits=True, flat=True)))


def begin(config: Config, fair_share: str = CLUSTER) -> ShardCycles:
    return AllShards(shards(config, POOLS, fair_share), decide_unasked).begin()


def plans(cluster: Cluster, cycles: ShardCycles, now_ns: int = NOW_NS) -> list[Plan]:
    """What each shard has decided, as if it were alone."""
    cycles.decide(cluster, now_ns)
    found = []
    for config, result in zip(cycles.shards.configs, cycles.results, strict=True):
        own = only(cluster, config)
        plan = plan_of(cluster, result)
        found.append(replace(plan, stands={key: plan.stands[key] for key in own.pods if key in plan.stands}))
    return found


@MORE
@given(BOTH, CONFIGS, st.sampled_from([CLUSTER, CLUSTER, POOL]))
def test_equals_the_twin(objects: list[o.Object], config: Config, fair_share: str) -> None:
    """Each shard decides what its twin does, which counts the pods of the other pools one by one."""
    if fair_share == POOL:
        objects = [_of_both(item) for item in objects]
    cluster = Cluster.of(objects)
    theirs = decide_pools(cluster, shards(config, POOLS, fair_share), NOW_NS)
    for config_of_pool, plan in zip(
        shards(config, POOLS, fair_share), plans(cluster, begin(config, fair_share)), strict=True
    ):
        twin = theirs.of[config_of_pool.node_pool]
        stands = {task.pod.key: twin.pods[task.pod.key] for task in twin.world.tasks}
        settled = {
            key: ("Pending", "") if status == "Releasing" and not cluster.pods[key].node else (status, node)
            for key, (status, node) in stands.items()
        }
        lefts = [(each.action, each.cause, each.pod) for each in twin.evictions]
        ours = [(each.action, each.cause, each.pod) for each in plan.evictions]
        assert plan.stands == settled
        assert sorted(ours) == sorted(lefts)


def _of_both(item: o.Object) -> o.Object:
    """Queues of pool a, of which pool b has none."""
    return replace(item, labels={LABEL: "a"}) if isinstance(item, o.Queue) else item


@given(crowds(FULL), CONFIGS)
def test_with_one_shard_the_option_changes_nothing(objects: list[o.Object], config: Config) -> None:
    cluster = Cluster.of(objects)
    alone = AllShards([replace(config, fair_share=CLUSTER)], decide_unasked).begin()
    assert text_of(alone.decide(cluster, NOW_NS)) == text_of(run_cycle(cluster, config, NOW_NS))


@MORE
@given(BOTH, CONFIGS)
def test_only_the_own_pool_pays(objects: list[o.Object], config: Config) -> None:
    """Victims, and whoever gets a place, are of the shard's own pool, and stay in it."""
    cluster, cycles = Cluster.of(objects), begin(config)
    cycles.decide(cluster, NOW_NS)
    for shard, result in zip(cycles.shards.configs, cycles.results, strict=True):
        for effect in result.effects:
            assert cluster.nodes[effect.node].labels[LABEL] == shard.node_pool
            assert cluster.pod_groups[cluster.pods[effect.pod].group_key].labels[LABEL] == shard.node_pool


@MORE
@given(BOTH, CONFIGS)
def test_limits_hold_over_all_pools(objects: list[o.Object], config: Config) -> None:
    """No queue gets above its limit by what is decided: it was above before, or is within it."""
    cluster, cycles = Cluster.of(objects), begin(config)
    before = begin(replace(config, actions=())) if config.actions else cycles
    start = {state.name: state for state in before.decide(cluster, NOW_NS).queues}
    for state in cycles.decide(cluster, NOW_NS).queues:
        for held, limit, had in zip(state.allocated, state.limit, start[state.name].allocated, strict=True):
            assert held <= max(limit, had) + 1e-6


@pytest.mark.slow
@given(pools(TIMELESS), st.sampled_from(["minimal", "original"]))
def test_nobodys_reclaim_circulates(objects: list[o.Object], victims: str) -> None:
    """Over the cycles of all shards, without news: evictions end, and then nothing changes any more."""
    cluster, now_ns = Cluster.of(objects), NOW_NS
    cycles, history = begin(Config(victims=victims)), []
    for _ in range(14):
        result = cycles.decide(cluster, now_ns)
        plan = plan_of(cluster, result)
        history.append((dict(cluster.pods), decided(plan)))
        lost = {each.pod: each.action for each in plan.evictions}
        found = moved_on(cluster, plan.stands, lost, now_ns, devices=plan.devices)
        found = stamped(cluster, found, plan.stands, lost, now_ns)
        cluster, now_ns = Cluster.of(stale_noted(found, now_ns)), now_ns + 10**10
    assert not any(plan[1] for _, plan in history[-3:])
    assert history[-1] == history[-2] == history[-3]


@given(TIGHT_POOLS)
def test_promises_count_in_the_other_pools(objects: list[o.Object]) -> None:
    """What the next cycle counts for a shard before it decides is what it left behind, as long as nothing changes."""
    cluster, cycles = Cluster.of(objects), begin(Config())
    cycles.decide(cluster, NOW_NS)
    for place, (config, result) in enumerate(zip(cycles.shards.configs, cycles.results, strict=True)):
        tracker = cycles.trackers[place]
        promised = {each.pod: each.node for each in result.effects if isinstance(each, Pipeline)}
        assert tracker.pipelined == promised
        counted = cycles.shards.count(cluster, config, NOW_NS, cycles.shards.caches[place], promised)
        fresh = cycles.shards.count(cluster, config, NOW_NS, cycles.shards.caches[place], {})
        assert counted.capacity == fresh.capacity
        waiting = [cluster.pods[key] for key in promised if not cluster.pods[key].node]
        for name, amounts in counted.queues.items():
            own = [
                pod for pod in waiting if name in path_to_root(cluster.queues, cluster.pod_groups[pod.group_key].queue)
            ]
            gpus = sum(dict(pod.shape.request).get("gpu", 0.0) for pod in own)
            assert amounts.held[2] == fresh.queues[name].held[2] + gpus
            assert amounts.requested == fresh.queues[name].requested
