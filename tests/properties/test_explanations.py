"""Explanations hold: what is proposed starts the group, nothing smaller of its kind does, and what is said to block it
does. ``explanations`` judges by whole simulations of its own.
"""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_sched import Cluster, Config
from kai_sched.answers.changes import Remove
from kai_sched.answers.explain.explanation import Explanation, explain
from kai_sched.answers.trial import Trials
from kai_sched.answers.workloads import workloads_of
from kai_sched.model import objects as o
from tests.properties.clusters import NOW_NS, Spice, clusters
from tests.properties.crowds import FULL, Crowd, crowds
from tests.properties.explanations import smaller, starts
from tests.properties.shares import Sharing

CONFIG = Config()
GROUPS_MAX = 2  # of one cluster
ENDS_MAX, ENDERS_MAX = 3, 7  # how many running workloads end together, and of how many
CLUSTERS = st.one_of(
    clusters(),
    clusters(Spice(pod_affinity=True)),
    crowds(FULL),
    crowds(Crowd(deep=True, limits=True)),
    crowds(Crowd(tight=True, movable=True), (1, 3), (2, 5), (6, 14)),
    crowds(Crowd(gangs=True, limits=True, deep=True), (2, 5), (1, 4), (3, 9)),
    crowds(Crowd(sharing=Sharing(), limits=True)),
)


def explained(objects: list[o.Object]) -> list[Explanation]:
    """The explanations of the first groups that wait."""
    cluster = Cluster.of(objects)
    trials, workloads = Trials(cluster, CONFIG, NOW_NS), workloads_of(cluster)
    groups = trials.outcome().first.groups
    waiting = sorted(key for key, group in groups.items() if group.reason is not None)
    return [explain(trials, workloads.of(key), workloads) for key in waiting[:GROUPS_MAX]]


def judge(found: Explanation, cluster: Cluster) -> None:
    group = found.workload.group
    assert starts(cluster, CONFIG, group) == found.starts, found
    for proposed, _ in found.suggestions:
        assert starts(cluster, CONFIG, group, proposed.changes), f"it does not start: {proposed}"
        assert proposed.exact or len(proposed.changes) > 1, f"one amount can be searched in whole: {proposed}"
        for less in smaller(proposed, cluster, group, found.priority):
            assert not starts(cluster, CONFIG, group, less), f"{less} is less than {proposed}"
    for each in found.constraints:
        if each.necessary:
            assert starts(cluster, CONFIG, group, each.without), f"without it, it still waits: {each}"
    if found.constraints and not found.constraints[0].necessary:
        every = [change for each in found.constraints for change in each.without]
        assert starts(cluster, CONFIG, group, every), f"without all of them it still waits: {found.constraints}"
        for each in found.constraints:
            rest = [change for other in found.constraints if other is not each for change in other.without]
            assert not starts(cluster, CONFIG, group, rest), f"it is not needed: {each}"
    if found.when is not None and found.when.never:
        running = sorted({pod.group_key for pod in cluster.pods.values() if pod.node and not pod.has_ended} - {group})
        for many in range(1, ENDS_MAX + 1):
            for ended in combinations(running[:ENDERS_MAX], many):
                assert not starts(cluster, CONFIG, group, [Remove(each) for each in ended]), f"it starts after {ended}"


@given(CLUSTERS)
@settings(max_examples=max(5, settings().max_examples // 10))
def test_explanations_hold(objects: list[o.Object]) -> None:
    cluster = Cluster.of(objects)
    for found in explained(objects):
        judge(found, cluster)


@pytest.mark.long
@given(CLUSTERS)
@settings(max_examples=250)
def test_explanations_hold_for_long(objects: list[o.Object]) -> None:
    cluster = Cluster.of(objects)
    for found in explained(objects):
        judge(found, cluster)


@given(CLUSTERS, st.randoms(use_true_random=False))
@settings(max_examples=max(5, settings().max_examples // 10))
def test_the_order_of_the_input_does_not_matter(objects: list[o.Object], rng: object) -> None:
    shuffled = list(objects)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert explained(objects) == explained(shuffled)
