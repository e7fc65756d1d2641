"""Properties of reclaim by steady shares (semantics 4.9) on random clusters."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_sched import Cluster, Config, run_cycle
from kai_sched.model import objects as o
from kai_sched.model.config import ACTIONS, OPERATOR_PLUGINS
from tests.oracle.reclaim import diverge
from tests.oracle.world import world_of
from tests.properties.clusters import NOW_NS
from tests.properties.crowds import Crowd, crowds
from tests.properties.deciders import by_scheduler, by_twin
from tests.properties.test_evictions import decided, jobs_of
from tests.properties.test_minimal import ANY, check

STEADY = {"steadyFairShareReclaim": "true"}
PLUGINS = {**OPERATOR_PLUGINS, "proportion": STEADY}
CONFIGS = st.builds(
    Config,
    actions=st.sampled_from([ACTIONS, ("reclaim",), ("allocate", "reclaim")]),
    plugins=st.sampled_from([PLUGINS, {**PLUGINS, "proportion": {**STEADY, "relcaimerSaturationMultiplier": "1.5"}}]),
    allow_consolidating_reclaim=st.sampled_from([True, True, False]),
    use_scheduling_signatures=st.booleans(),
)
SCATTERED = st.one_of(
    crowds(Crowd(movable=True), (2, 6), (2, 6), (4, 14)),
    crowds(Crowd(tight=True, movable=True), (1, 4), (2, 5), (6, 14)),
    crowds(Crowd(sub_groups=True, picky=True, limits=True), (2, 6), (2, 6), (4, 14)),
    crowds(Crowd(gangs=True, topology=True), (2, 6), (2, 5), (4, 12)),
)
MORE = settings(max_examples=4 * settings().max_examples)


@MORE
@given(SCATTERED, CONFIGS)
def test_equals_the_twin(objects: list[o.Object], config: Config) -> None:
    ours, theirs = (decider(Cluster.of(objects), config, NOW_NS) for decider in (by_scheduler, by_twin))
    assert decided(ours) == decided(theirs)


@MORE
@given(SCATTERED)
def test_nobody_falls_below_what_it_may_keep(objects: list[o.Object]) -> None:
    """Where the ordinary reclaim takes nothing, whoever loses has what it may keep, where the paths part."""
    config = Config(actions=("reclaim",), plugins=PLUGINS)
    if by_scheduler(Cluster.of(objects), Config(actions=("reclaim",)), NOW_NS).evictions:
        return
    world, jobs = jobs_of(objects, config)
    result = run_cycle(Cluster.of(objects), config, NOW_NS)
    held = {queue.name: queue.allocated[2] for queue in result.queues}
    groups = {job.group.key: job for job in world.jobs}
    lost = {key for key, state in result.pods.items() if state.status == "Releasing"}
    for left in by_scheduler(Cluster.of(objects), config, NOW_NS).evictions:
        winner, victim = diverge(world, groups[left.cause], jobs[left.pod])
        if left.pod in lost:
            assert held[victim.queue.name] >= victim.keep - 1e-6
        assert winner.allocated[2] < winner.keep


@MORE
@given(ANY)
def test_it_comes_to_rest(objects: list[o.Object]) -> None:
    """Queues do not take from each other in turn: cycle after cycle, until nothing changes any more."""
    check(objects, config=Config(plugins=PLUGINS))


@pytest.mark.long
@settings(max_examples=3000)
@given(ANY)
def test_it_comes_to_rest_of_3000(objects: list[o.Object]) -> None:
    """The same for so many."""
    check(objects, config=Config(plugins=PLUGINS))


@given(SCATTERED)
def test_without_weights_apart_nothing_changes(objects: list[o.Object]) -> None:
    """In a cluster with one leaf queue there is nobody to take from, so the setting changes nothing."""
    one = [replace(each, queue="only") if isinstance(each, o.PodGroup) else each for each in objects]
    free = o.Share(-1.0, -1.0, 1.0)
    found = [each for each in one if not isinstance(each, o.Queue)]
    found.append(o.Queue("only", uid="only", cpu=free, memory=free, gpu=replace(free, quota=0.0)))
    plain, steady = (
        by_scheduler(Cluster.of(found), Config(plugins=each), NOW_NS) for each in (OPERATOR_PLUGINS, PLUGINS)
    )
    assert decided(plain) == decided(steady)


def test_the_shares_of_the_example() -> None:
    """Of 12 GPUs three queues of the same weight may keep 4 each, whatever they ask for."""
    free = o.Share(-1.0, -1.0, 1.0)
    objects: list[o.Object] = [o.Node("n", "n", {}, {"cpu": 8000.0, "pods": 110.0, "gpu": 12.0})]
    objects += [o.Queue(name, uid=name, cpu=free, memory=free, gpu=o.Share(0.0, -1.0, 1.0)) for name in "abc"]
    world = world_of(Cluster.of(objects), Config(plugins=PLUGINS), NOW_NS)
    assert [account.keep for account in world.accounts.values()] == [4.0, 4.0, 4.0]
