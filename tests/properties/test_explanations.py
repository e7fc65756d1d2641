"""Explanations hold: what is proposed starts the group, nothing smaller of its kind does, and what is said to block it
does. ``explanations`` judges by whole simulations of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
from kai_sched.model.config import POOL
from tests.oracle.pools import shards as shards_of
from tests.properties.clusters import NOW_NS, Spice, clusters
from tests.properties.crowds import FULL, Crowd, crowds
from tests.properties.explanations import smaller, starts
from tests.properties.pools import LABEL, POOLS, pools
from tests.properties.shares import Sharing
from tests.properties.test_numa import scenes
from tests.scenarios.table import read_text

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


Shards = Sequence[Config]
Case = tuple[list[o.Object], Shards]
ALIGNED = replace(CONFIG, plugins={**CONFIG.plugins, "numa": {}})
CASES: st.SearchStrategy[Case] = st.one_of(
    CLUSTERS.map(lambda objects: (objects, [CONFIG])),
    clusters(Spice(topology=True)).map(lambda objects: (objects, [CONFIG])),
    scenes().map(lambda text: (list(read_text(text, "numa")[0].objects), [ALIGNED])),
    st.builds(
        lambda objects, both: (own_queues(objects, both), shards_of(CONFIG, POOLS, POOL)),
        st.one_of(pools(Crowd(limits=True)), pools(Crowd(tight=True, movable=True), (1, 3), (2, 5), (4, 10))),
        st.booleans(),
    ),
)


def own_queues(objects: list[o.Object], both: bool) -> list[o.Object]:
    """The queues are in the first pool; with ``both`` the second one has the same under other names, and its groups
    are in these.
    """
    first, second = ({LABEL: pool} for pool in POOLS)
    found: list[o.Object] = []
    for item in objects:
        if isinstance(item, o.Queue):
            parent = f"b{item.parent}" if item.parent else ""
            found.append(replace(item, labels=first))
            found += [replace(item, name=f"b{item.name}", uid=f"b{item.uid}", parent=parent, labels=second)] * both
        elif both and isinstance(item, o.PodGroup) and item.labels[LABEL] == POOLS[1]:
            found.append(replace(item, queue=f"b{item.queue}"))
        else:
            found.append(item)
    return found


def explained(objects: list[o.Object], shards: Shards) -> list[Explanation]:
    """The explanations of the first groups that wait."""
    cluster = Cluster.of(objects)
    trials, workloads = Trials(cluster, shards[0], NOW_NS, shards=shards), workloads_of(cluster)
    groups = trials.of_all_shards().outcome().first.groups if len(shards) > 1 else trials.outcome().first.groups
    waiting = sorted(key for key, group in groups.items() if group.reason is not None)
    return [explain(trials, workloads.of(key), workloads) for key in waiting[:GROUPS_MAX]]


def judge(found: Explanation, cluster: Cluster, shards: Shards) -> None:
    group = found.workload.group
    assert starts(cluster, shards, group) == found.starts, found
    for proposed, _ in found.suggestions:
        assert starts(cluster, shards, group, proposed.changes), f"it does not start: {proposed}"
        assert proposed.exact or len(proposed.changes) > 1, f"one amount can be searched in whole: {proposed}"
        for less in smaller(proposed, cluster, group, found.priority):
            assert not starts(cluster, shards, group, less), f"{less} is less than {proposed}"
    for each in found.constraints:
        if each.necessary:
            assert starts(cluster, shards, group, each.without), f"without it, it still waits: {each}"
    if found.constraints and not found.constraints[0].necessary:
        every = [change for each in found.constraints for change in each.without]
        assert starts(cluster, shards, group, every), f"without all of them it still waits: {found.constraints}"
        for each in found.constraints:
            rest = [change for other in found.constraints if other is not each for change in other.without]
            assert not starts(cluster, shards, group, rest), f"it is not needed: {each}"
    if found.when is not None and found.when.never:
        running = sorted({pod.group_key for pod in cluster.pods.values() if pod.node and not pod.has_ended} - {group})
        for many in range(1, ENDS_MAX + 1):
            for ended in combinations(running[:ENDERS_MAX], many):
                assert not starts(cluster, shards, group, [Remove(each) for each in ended]), f"it starts after {ended}"


@given(CASES)
@settings(max_examples=max(5, settings().max_examples // 10))
def test_explanations_hold(case: Case) -> None:
    cluster = Cluster.of(case[0])
    for found in explained(*case):
        judge(found, cluster, case[1])


@pytest.mark.long
@given(CASES)
@settings(max_examples=250)
def test_explanations_hold_for_long(case: Case) -> None:
    cluster = Cluster.of(case[0])
    for found in explained(*case):
        judge(found, cluster, case[1])


@given(CASES, st.randoms(use_true_random=False))
@settings(max_examples=max(5, settings().max_examples // 10))
def test_the_order_of_the_input_does_not_matter(case: Case, rng: object) -> None:
    objects, shards = case
    shuffled = list(objects)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert explained(objects, shards) == explained(shuffled, shards)
