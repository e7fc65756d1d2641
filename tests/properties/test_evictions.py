"""Properties of the evicting actions on random crowded clusters, one cycle at a time and many in a row.

They hold for the scheduler as soon as it has all actions, and for its slow twin, which decides the same.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_sched import Cache, Cluster, Config, Store, run_cycle
from kai_sched.model import objects as o
from kai_sched.model.config import ACTIONS, OPERATOR_PLUGINS
from tests.oracle.reclaim import entitled, needs, plus, quota, ratio, within
from tests.oracle.world import ACTIVE, Job, World, world_of
from tests.properties.clusters import NOW_NS, clusters
from tests.properties.crowds import FULL, Crowd, crowds
from tests.properties.deciders import Decider, Left, Plan, by_scheduler, by_twin, cycles
from tests.properties.plans import check_domains, text_of
from tests.scenarios.table import evictions

DECIDERS = [by_twin, by_scheduler]
ALL = Config()
ORIGINAL = Config(victims="original")
ACTIVE_SETS = st.sampled_from(
    [ACTIONS, ACTIONS, ("reclaim",), ("preempt",), ("consolidation",), ("reclaim", "preempt")]
)
ONLY_GANGS = {name: arguments for name, arguments in OPERATOR_PLUGINS.items() if name != "sg-nodelocalgreedy"}
CONFIGS = st.builds(
    Config,
    actions=ACTIVE_SETS,
    plugins=st.sampled_from([OPERATOR_PLUGINS, OPERATOR_PLUGINS, ONLY_GANGS]),
    max_consolidation_preemptees=st.sampled_from([-1, 1, 2, 16]),
    allow_consolidating_reclaim=st.sampled_from([True, True, False]),
    use_scheduling_signatures=st.booleans(),
    victims=st.sampled_from(["minimal", "original"]),
)
# Without times and torn gangs the clock has no part in what is decided.
TIMELESS = Crowd(sub_groups=True, picky=True, limits=True)
# Few nodes and many groups: departments hold more than their shares.
TIGHT = crowds(Crowd(tight=True, movable=True), (1, 3), (2, 5), (6, 14))
# Whom one action moves another may rob of the new place.
MOVABLE = crowds(Crowd(movable=True), (2, 5), (1, 4), (6, 14))
# Pods that have to share topology domains, and move between them.
IN_DOMAINS = st.one_of(
    crowds(Crowd(topology=True, sub_groups=True, picky=True, limits=True), (2, 6)),
    crowds(Crowd(topology=True, gangs=True, sub_groups=True), (2, 6)),
    crowds(Crowd(topology=True, movable=True, tight=True), (2, 6), (2, 5), (4, 12)),
)
MORE = settings(max_examples=4 * settings().max_examples)
each_decider = pytest.mark.parametrize("decider", DECIDERS)


def decide_once(objects: list[o.Object], decider: Decider, config: Config) -> Plan:
    return decider(Cluster.of(objects), config, NOW_NS)


def jobs_of(objects: list[o.Object], config: Config = ALL) -> tuple[World, dict[str, Job]]:
    """The world before the cycle, and the job of each pod."""
    world = world_of(Cluster.of(objects), config, NOW_NS)
    return world, {task.pod.key: task.job for task in world.tasks if task.job}


def decided(plan: Plan) -> tuple[object, ...]:
    """The plan with the pods that leave together as a set: which of them is named first means nothing."""
    together: list[tuple[str, str, set[str]]] = []
    for left in plan.evictions:
        if not together or together[-1][:2] != (left.action, left.cause):
            together.append((left.action, left.cause, set()))
        together[-1][2].add(left.pod)
    return plan.stands, together


def wanted(plan: Plan) -> list[Left]:
    """The evictions that are for somebody."""
    return [left for left in plan.evictions if left.action != "stalegangeviction"]


@MORE
@given(st.one_of(crowds(), TIGHT), CONFIGS)
def test_equals_the_twin(objects: list[o.Object], config: Config) -> None:
    """The same pods end in the same places, and the same ones are evicted for the same groups in turn."""
    ours, theirs = (decide_once(objects, decider, config) for decider in (by_scheduler, by_twin))
    assert decided(ours) == decided(theirs)


@MORE
@given(IN_DOMAINS, CONFIGS)
def test_equals_the_twin_in_domains(objects: list[o.Object], config: Config) -> None:
    """With topology constraints of those that ask and of those that move."""
    ours, theirs = (decide_once(objects, decider, config) for decider in (by_scheduler, by_twin))
    assert decided(ours) == decided(theirs)


@each_decider
@given(objects=IN_DOMAINS, config=CONFIGS)
def test_no_gang_is_spread(decider: Decider, objects: list[o.Object], config: Config) -> None:
    """Over the domains of a level that it requires, whoever is moved or comes; later chunks of v0.17.0 may be."""
    config = replace(config, victims="minimal")
    check_domains(Cluster.of(objects), decide_once(objects, decider, config).stands)


@pytest.mark.slow
@MORE
@given(clusters(), CONFIGS)
def test_equals_the_twin_where_much_is_wrong(objects: list[o.Object], config: Config) -> None:
    """On overcommitted nodes, with broken sub-groups and pods in every state, too."""
    ours, theirs = (decide_once(objects, decider, config) for decider in (by_scheduler, by_twin))
    assert decided(ours) == decided(theirs)


@given(crowds(), CONFIGS)
def test_effects_are_where_pods_end(objects: list[o.Object], config: Config) -> None:
    """Whoever has got a place, now or later, is told so once, and nobody else is; those who move hear it twice."""
    result = run_cycle(Cluster.of(objects), config, NOW_NS)
    lefts = evictions(result)
    told = [(type(each).__name__, each.pod, each.node) for each in result.effects if each not in lefts]
    words = {"Binding": "Bind", "Pipelined": "Pipeline"}
    ends = [(words[state.status], key, state.node) for key, state in result.pods.items() if state.status in words]
    assert sorted(told) == sorted(ends)
    waits = {pod: node for word, pod, node in told if word == "Pipeline"}
    assert [each.moves_to for each in lefts] == [waits.get(each.pod, "") for each in lefts]


@given(st.one_of(crowds(), TIGHT), CONFIGS)
def test_queues_hold_what_their_pods_do(objects: list[o.Object], config: Config) -> None:
    """After all that was tried and taken back, and with all that is promised."""
    result = run_cycle(Cluster.of(objects), config, NOW_NS)
    world, jobs = jobs_of(objects, config)
    held = {name: [0.0] * 3 for name in world.accounts}
    for task in world.tasks:
        if result.pods[task.pod.key].status in ACTIVE:
            for level in world.accounts[jobs[task.pod.key].queue].lineage():
                held[level.queue.name] = plus(held[level.queue.name], needs([task]))
    assert {queue.name: [*queue.allocated] for queue in result.queues} == held


@given(crowds(FULL), st.integers(2, 5))
def test_equals_the_twin_for_cycles(objects: list[o.Object], count: int) -> None:
    """Cycle after cycle, while each goes its own way."""
    ours, theirs = (list(cycles(objects, decider, ALL, count)) for decider in (by_scheduler, by_twin))
    assert [decided(plan) for _, plan in ours] == [decided(plan) for _, plan in theirs]


@given(crowds(FULL))
def test_deciding_again_decides_the_same(objects: list[o.Object]) -> None:
    """Two cycles without news are one: the same result, byte for byte, with or without a cache."""
    store, cache = Store(), Cache()
    for item in objects:
        store.put(item)
    results = [text_of(run_cycle(store.cluster(), ALL, NOW_NS, cache)) for _ in range(2)]
    assert results == [text_of(run_cycle(Cluster.of(objects), ALL, NOW_NS))] * 2


@given(crowds(FULL), st.randoms(use_true_random=False))
def test_order_of_the_input_does_not_matter(objects: list[o.Object], rng: random.Random) -> None:
    """The same objects in any order give the same result, byte for byte."""
    first = text_of(run_cycle(Cluster.of(objects), ALL, NOW_NS))
    shuffled = objects.copy()
    rng.shuffle(shuffled)
    assert text_of(run_cycle(Cluster.of(shuffled), ALL, NOW_NS)) == first


@MORE
@each_decider
@given(objects=st.one_of(crowds(), MOVABLE), config=CONFIGS)
def test_nobody_is_evicted_in_vain(decider: Decider, objects: list[o.Object], config: Config) -> None:
    """Who is evicted for a group makes room for it, or for one that took over what the group had been promised.

    Only what runs is evicted, and nobody twice. As in v0.17.0, one action of ``victims: original`` may undo another's.
    """
    config = replace(config, victims="minimal")
    plan = decide_once(objects, decider, config)
    pods = Cluster.of(objects).pods
    assert max(Counter(left.pod for left in plan.evictions).values(), default=1) == 1
    waiting = {node for status, node in plan.stands.values() if status == "Pipelined"}
    for left in plan.evictions:
        assert pods[left.pod].node, f"{left.pod} was nowhere"
        assert plan.stands[left.pod][0] in ("Releasing", "Pipelined")
    for left in wanted(plan):
        assert plan.places(left.cause) or pods[left.pod].node in waiting, f"{left} made room for nobody"


@each_decider
@given(objects=crowds(), config=CONFIGS)
def test_who_may_be_evicted(decider: Decider, objects: list[o.Object], config: Config) -> None:
    """No fixed work; for reclaim another queue's, for preempt the own queue's of lower priority, never the own."""
    plan = decide_once(objects, decider, config)
    world, jobs = jobs_of(objects, config)
    by_key = {job.group.key: job for job in world.jobs}
    for left in wanted(plan):
        victim, cause = jobs[left.pod], by_key[left.cause]
        assert victim.preemptible
        assert victim is not cause
        if left.action == "reclaim":
            assert victim.queue != cause.queue
        if left.action == "preempt":
            assert victim.queue == cause.queue
            assert victim.priority < cause.priority
        if left.action == "consolidation":
            assert cause.preemptible


@each_decider
@given(objects=crowds(TIMELESS))
def test_consolidation_loses_nobody(decider: Decider, objects: list[o.Object]) -> None:
    """Whoever is moved has another node to go to."""
    config = Config(("consolidation",), max_consolidation_preemptees=3)
    plan, pods = decide_once(objects, decider, config), Cluster.of(objects).pods
    for left in plan.evictions:
        status, node = plan.stands[left.pod]
        assert status == "Pipelined"
        assert node != pods[left.pod].node
    _, jobs = jobs_of(objects)
    for cause in {left.cause for left in plan.evictions}:
        moved = {jobs[left.pod].group.key for left in plan.evictions if left.cause == cause}
        assert len(moved) <= config.max_consolidation_preemptees
    for left in plan.evictions:
        assert all(task.pod.safe_to_consolidate for task in jobs[left.pod].tasks)


@MORE
@each_decider
@given(objects=crowds(Crowd(sub_groups=True, flat=True)))
def test_reclaim_starts_no_chunk_within_the_share(decider: Decider, objects: list[o.Object]) -> None:
    """A queue that loses pods for good was above its quota when the last chunk was taken (4.7)."""
    plan = decide_once(objects, decider, Config(("reclaim",)))
    world, _ = jobs_of(objects)
    places = [task for task in world.tasks if task.status == "Pending" and plan.stands[task.pod.key][0] == "Pipelined"]
    for name, account in world.accounts.items():
        gained = needs([task for task in places if task.job and task.job.queue == name])
        gone = {left.pod for left in plan.evictions if plan.stands[left.pod][0] == "Releasing"}
        lost = [needs([task for task in job.tasks if task.pod.key in gone]) for job in world.jobs if job.queue == name]
        lost = [amounts for amounts in lost if any(amounts)]
        remains = plus(account.allocated, gained)
        for amounts in lost:
            remains = plus(remains, amounts, -1)
        robbed_above = any(not within(plus(remains, amounts), quota(account)) for amounts in lost)
        assert not lost or robbed_above, f"{name} was robbed within its quota"


def with_one_waiting(crowd: list[o.Object], place: int) -> tuple[list[o.Object], str]:
    """The crowd without what waits but for one group, and that group; "" where none waits."""
    waiting = {item.group for item in crowd if isinstance(item, o.Pod) and not item.node}
    chosen = sorted(waiting)[place % len(waiting)] if waiting else ""
    return [item for item in crowd if not isinstance(item, o.Pod) or item.node or item.group == chosen], chosen


@MORE
@each_decider
@given(crowd=crowds(Crowd(flat=True, movable=True)), place=st.integers(0, 13))
def test_one_reclaim_starts_no_chunk_within_the_share(decider: Decider, crowd: list[o.Object], place: int) -> None:
    """Where one group waits alone, what its queue holds tells by which share the others are judged (4.7)."""
    objects, chosen = with_one_waiting(crowd, place)
    plan = decide_once(objects, decider, Config(("reclaim",)))
    world, jobs = jobs_of(objects)
    lost = [left.pod for left in plan.evictions if plan.stands[left.pod][0] == "Releasing"]
    asked = needs([task for task in world.tasks if task.pod.key in plan.places(f"ns/{chosen}")])
    for name in {jobs[pod].queue for pod in lost}:
        account = world.accounts[name]
        portions = [
            needs([task for task in job.tasks if task.pod.key in lost]) for job in world.jobs if job.queue == name
        ]
        remains = account.allocated
        for portion in portions:
            remains = plus(remains, portion, -1)
        mine = world.accounts[next(job.queue for job in world.jobs if job.name == chosen)]
        starved = within(plus(mine.allocated, asked), quota(mine))
        bounds = [entitled(account), *([quota(account)] if starved else [])]
        last = [plus(remains, portion) for portion in portions if any(portion)]
        assert any(not within(before, bound) for before in last for bound in bounds)


@MORE
@each_decider
@given(crowd=TIGHT, place=st.integers(0, 13))
def test_nobody_overtakes_a_sibling_that_it_takes_from(decider: Decider, crowd: list[o.Object], place: int) -> None:
    """On each level: above its share, a queue ends with less of it than each sibling that loses pods for it (4.7)."""
    objects, chosen = with_one_waiting(crowd, place)
    plan = decide_once(objects, decider, Config(("reclaim",)))
    world, jobs = jobs_of(objects)
    got = plan.places(f"ns/{chosen}") if plan.evictions else []
    lost = [left.pod for left in plan.evictions if plan.stands[left.pod][0] == "Releasing"]
    ends = {name: account.allocated for name, account in world.accounts.items()}
    robbed = set()
    for task in world.tasks:
        sign = (task.pod.key in got) - (task.pod.key in lost)
        for level in world.accounts[jobs[task.pod.key].queue].lineage() if sign else []:
            ends[level.queue.name] = plus(ends[level.queue.name], needs([task]), sign)
            robbed |= {level.queue.name} if sign < 0 else set()
    winners = world.accounts[jobs[got[0]].queue].lineage() if got else []
    for u in winners:
        for sibling in (world.accounts[name] for name in robbed - {u.queue.name}):
            for r in range(3 if sibling.parent is u.parent else 0):
                mine, theirs = (ratio(ends[each.queue.name][r], each.fair[r]) for each in (u, sibling))
                assert mine <= 1 or mine < theirs or sibling.fair[r] == 0


@each_decider
@given(objects=crowds(), config=CONFIGS)
def test_no_node_is_promised_twice(decider: Decider, objects: list[o.Object], config: Config) -> None:
    """Now the bound pods fit beside all that is there, and later all that stays and comes."""
    plan, cluster = decide_once(objects, decider, config), Cluster.of(objects)
    for name, node in cluster.nodes.items():
        now, later = 0.0, 0.0
        for key, (status, place) in plan.stands.items():
            gpus = dict(cluster.pods[key].shape.request).get("gpu", 0.0)
            now += gpus * (cluster.pods[key].node == name or (status == "Binding" and place == name))
            later += gpus * (place == name and status not in ("Releasing", "StuckInReleasing", "Succeeded"))
        assert max(now, later) <= node.allocatable["gpu"], f"{name} is promised twice"


@pytest.mark.slow
@each_decider
@given(objects=crowds(TIMELESS))
def test_it_comes_to_rest(decider: Decider, objects: list[o.Object]) -> None:
    """Without news nobody is evicted again for the same group, evictions end, and then nothing changes any more.

    By the search of the original. Minimal victims count on cycles that are given hints: see test_minimal.
    """
    seen: set[tuple[str, str]] = set()
    history = []
    for cluster, plan in cycles(objects, decider, ORIGINAL, 12):
        pairs = {(left.pod, left.cause) for left in wanted(plan)}
        assert not pairs & seen, "evicted again for the same group"
        seen |= pairs
        history.append((cluster.pods, plan))
    assert not any(plan.evictions for _, plan in history[-3:])
    assert history[-1] == history[-2] == history[-3]


@each_decider
@given(objects=crowds(TIMELESS))
def test_while_victims_leave_their_winner_waits(decider: Decider, objects: list[o.Object]) -> None:
    """A gang that has been given all its room takes nobody else's while its victims are still there.

    What a group has above its minimum is promised one by one, and may go to another queue in the next cycle (3.7).
    """
    plan, cluster = decide_once(objects, decider, ALL), Cluster.of(objects)
    gone = {left.pod for left in plan.evictions}
    leaving: list[o.Object] = []
    for item in objects:
        if isinstance(item, o.Pod) and item.key in gone:
            item = replace(item, deleted_ns=NOW_NS)
        elif isinstance(item, o.Pod) and plan.stands[item.key][0] == "Binding":
            item = replace(item, node=plan.stands[item.key][1], phase=o.Phase.RUNNING)
        leaving.append(item)
    later = decider(Cluster.of(leaving), ALL, NOW_NS + 10**9)
    sizes = Counter(f"ns/{pod.group}" for pod in cluster.pods.values())
    least = {f"ns/{item.name}": item.min_member or 1 for item in objects if isinstance(item, o.PodGroup)}
    served = {
        left.cause
        for left in wanted(plan)
        if len(plan.places(left.cause)) == sizes[left.cause] <= least.get(left.cause, 1)
    }
    assert not served & {left.cause for left in wanted(later)}
    assert not gone & {left.pod for left in later.evictions}


@each_decider
@given(objects=crowds(FULL))
def test_only_torn_gangs_are_stale(decider: Decider, objects: list[o.Object]) -> None:
    """What stale gang eviction takes is the whole of a group that lacks something and whose grace is over."""
    plan = decide_once(objects, decider, Config(("stalegangeviction",)))
    world, _ = jobs_of(objects)
    taken = {left.pod for left in plan.evictions}
    assert all(left.cause == "" for left in plan.evictions)
    for job in world.jobs:
        running = {task.pod.key for task in job.tasks if task.status == "Running"}
        grace_s = 60.0 if job.group.staleness_grace_s is None else job.group.staleness_grace_s
        since_ns = job.group.stale_since_ns or NOW_NS
        over = grace_s >= 0 and NOW_NS - since_ns >= grace_s * 1e9
        assert not running & taken or (running <= taken and over)
        simple = len(job.pod_sets) == 1
        torn = simple and 0 < len(running) < next(iter(job.pod_sets.values())).minimum
        assert not (simple and over) or (running <= taken) == (torn or not running)
