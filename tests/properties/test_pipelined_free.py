"""Groups pipelined onto room that is free already, with the original's victims: bound when that comes again."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched import Cluster, Config, CycleResult, run_cycle
from kai_sched.cycle.hint_tracker import HintTracker
from kai_sched.model import objects as o
from kai_sched.model.hints import SchedulingHints
from kai_sched.plan.effects import Bind, Pipeline
from tests.properties.clusters import NOW_NS, clusters
from tests.properties.crowds import FULL, Crowd, crowds
from tests.properties.deciders import Decider, Plan, cycles, plan_of
from tests.scenarios.table import evictions

CONFIG = Config(victims="original")
TIMELESS = Crowd(sub_groups=True, picky=True, limits=True)
TIGHT = crowds(Crowd(tight=True, movable=True), (1, 3), (2, 5), (6, 14))


def keeping() -> Decider:
    """The scheduler as the operator runs it: each cycle is told what the one before promised."""
    tracker = HintTracker()

    def decide(cluster: Cluster, config: Config, now_ns: int) -> Plan:
        result = run_cycle(cluster, config, now_ns, hints=tracker.next_hints())
        tracker.record(cluster, result, config)
        return plan_of(cluster, result)

    return decide


@given(st.one_of(crowds(TIMELESS), TIGHT))
def test_it_comes_to_rest(objects: list[o.Object]) -> None:
    """Without news nothing changes any more in the end, and nobody was evicted more than twice for the same group.

    Whoever is left with a promise then has lost pods before: as long as quotas do not contradict each other, nobody is.
    """
    evicted: Counter[tuple[str, str]] = Counter()
    history: list[tuple[object, Plan]] = []
    for cluster, plan in cycles(objects, keeping(), CONFIG, 60):
        evicted.update((left.pod, left.cause) for left in plan.evictions)
        history.append((cluster.pods, plan))
        if len(history) > 3 and history[-1] == history[-2] == history[-3]:
            break
    else:
        pytest.fail("no rest after 60 cycles")
    assert plan.evictions == ()
    assert max(evicted.values(), default=0) <= 2
    losers = {group_key(cluster.pods[pod]) for pod, _ in evicted}
    waiting = {group_key(cluster.pods[key]) for key, (status, _) in plan.stands.items() if status == "Pipelined"}
    assert waiting <= losers


def free_now(cluster: Cluster, result: CycleResult) -> Counter[tuple[str, str]]:
    """What is free by node and resource while all who are there stay, less what is bound in this cycle."""
    free = Counter(
        {(node.name, r): amount for node in cluster.nodes.values() for r, amount in node.allocatable.items()}
    )
    places = [(pod, pod.node) for pod in cluster.pods.values() if pod.phase in (o.Phase.PENDING, o.Phase.RUNNING)]
    places += [(cluster.pods[each.pod], each.node) for each in result.effects if isinstance(each, Bind)]
    for pod, node in places:
        free.subtract({(node, resource): amount for resource, amount in pod.shape.request})
    return free


def group_key(pod: o.Pod) -> str:
    return f"{pod.namespace}/{pod.group}" if pod.group else pod.key


@given(st.one_of(crowds(FULL), TIGHT, clusters()))
def test_a_kept_promise_costs_nobody_anything(objects: list[o.Object]) -> None:
    """Where all are told that they were promised room before: the same is decided, and what is free now is bound."""
    cluster = Cluster.of(objects)
    groups = {group_key(pod) for pod in cluster.pods.values()}
    plain = run_cycle(cluster, CONFIG, NOW_NS)
    kept = run_cycle(cluster, CONFIG, NOW_NS, hints=SchedulingHints(pipelined_free=frozenset(groups)))
    assert kept.evicted == plain.evicted
    assert [(each.pod, each.node) for each in kept.effects] == [(each.pod, each.node) for each in plain.effects]
    promised = {each.pod: each for each in plain.effects if isinstance(each, Pipeline)}
    bound = {each.pod for each in kept.effects if isinstance(each, Bind)} & promised.keys()
    assert {group_key(cluster.pods[key]) for key in bound} == plain.pipelined_free
    by_group = Counter(group_key(cluster.pods[key]) for key in promised)
    assert Counter(group_key(cluster.pods[key]) for key in bound) == {
        group: by_group[group] for group in plain.pipelined_free
    }
    assert not plain.pipelined_free & {each.cause for each in evictions(plain)}
    before, after = free_now(cluster, plain), free_now(cluster, kept)
    assert all(after[place] >= 0 for place, amount in before.items() if after[place] < amount)
    for name, node in kept.nodes.items():
        both = [node.idle[r] + node.releasing[r] for r in node.idle]
        assert both == [plain.nodes[name].idle[r] + plain.nodes[name].releasing[r] for r in node.idle]


@given(st.one_of(crowds(FULL), TIGHT))
def test_what_fits_now_is_promised_as_free(objects: list[o.Object]) -> None:
    """A group that is not marked lacks room for some promised pod, or others go for it, or one of its own moves."""
    cluster = Cluster.of(objects)
    result = run_cycle(cluster, CONFIG, NOW_NS)
    free = free_now(cluster, result)
    waiting: dict[str, list[Pipeline]] = {}
    for each in result.effects:
        if isinstance(each, Pipeline):
            waiting.setdefault(group_key(cluster.pods[each.pod]), []).append(each)
    for group in result.pipelined_free:
        for each in waiting.pop(group):
            free.subtract({(each.node, resource): amount for resource, amount in cluster.pods[each.pod].shape.request})
    causes, moved = {each.cause for each in evictions(result)}, set(result.evicted)
    for group, pipelines in waiting.items():
        left = free.copy()
        for each in pipelines:
            left.subtract({(each.node, resource): amount for resource, amount in cluster.pods[each.pod].shape.request})
        short = any(left[each.node, r] < 0 for each in pipelines for r, _ in cluster.pods[each.pod].shape.request)
        assert short or group in causes or {each.pod for each in pipelines} & moved
