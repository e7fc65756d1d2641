"""What is told agrees with the end of the cycle: numbers with queues and nodes, who leaves with who is leaving."""

from __future__ import annotations

import random
import re
from collections import defaultdict

from hypothesis import example, given
from hypothesis import strategies as st

from kai_sched import Cluster, Config, CycleResult, Store, run_cycle
from kai_sched.cycle.hint_tracker import HintTracker
from kai_sched.cycle.world.pods import World, advance
from kai_sched.model import objects as o
from kai_sched.plan import waits
from kai_sched.plan.amounts import show_amount
from kai_sched.plan.reasons import OVER_LIMIT, OVER_QUOTA, Reason
from kai_sched.plan.result import QUEUE_RESOURCES, QueueState
from tests.properties.clusters import NOW_NS, clusters
from tests.properties.crowds import FULL, Crowd, crowds, make_crowd

STEP_NS = 10**10
WORLD = World(STEP_NS, frozenset({"g1", "g2"}), revives=False, restarts_clocks=False)
TIGHT = Crowd(tight=True, movable=True)
CROWDS = st.one_of(
    crowds(FULL),
    crowds(TIGHT, (1, 3), (2, 5), (6, 14)),
    crowds(Crowd(social=True, sub_groups=True, picky=True, limits=True, deep=True)),
    clusters(),
)
CONFIGS = st.sampled_from((Config(), Config(victims="original"), Config(search_work=3)))
GATE = re.compile(
    r"queue (\S+) (may hold|guarantees) (.+?)(?: to non-preemptible work)?; (?:it|such work) holds (.+?) and"
)
FREE = re.compile(r"\. Free in all: (\S+) of (\S+) ?(GPU|CPU core|memory|pod slot)?")
LACK = re.compile(r"(\d+) of (\d+) nodes lack the (.+?) it asks for \(most free on one of them: (.+?)\)")
NO_NODE = re.compile(r"no node for pod \S+: (.*?)(?:\. Free in all|; (?:consolidation|reclaim|preempt):|$)")
HELD = re.compile(r"\. Held by: (.+?)(?: and \d+ more)?(?:;|$)")


@example(make_crowd(1, 3, 1, random.Random(4), FULL), Config())  # a stale gang leaves after all else is decided
@example(make_crowd(1, 2, 9, random.Random(9), TIGHT), Config(search_work=3))  # a place is lost to a smaller group
@example(make_crowd(3, 2, 10, random.Random(1_041_509_861), TIGHT), Config(victims="original"))  # moved, then evicted
@given(CROWDS, CONFIGS)
def test_what_is_told_holds(objects: list[o.Object], config: Config) -> None:
    """Over the first cycles, in which pods leave and come back; some take their time to leave."""
    store, tracker = Store(), HintTracker()
    for item in objects:
        store.put(item)
    for number in range(4):
        cluster, now_ns = store.cluster(), NOW_NS + number * STEP_NS
        result = run_cycle(cluster, config, now_ns, hints=tracker.next_hints())
        tracker.record(cluster, result, config)
        for group in result.groups.values():
            if group.reason is not None:
                check_numbers(group.reason, result, cluster)
        check_who_leaves(result, cluster)
        advance(store, cluster, result, now_ns, WORLD)


def check_numbers(reason: Reason, result: CycleResult, cluster: Cluster) -> None:
    queues = {queue.name: queue for queue in result.queues}
    if reason.code in (OVER_LIMIT, OVER_QUOTA):
        check_gate(reason, queues[reason.queue])
    for words in NO_NODE.findall(reason.message):
        counted = sum(int(nodes) for nodes in re.findall(r"(\d+) of \d+ nodes", words))
        fits_alone = "there is room for" in words or "would fit by itself" in words
        fits_now = "later decisions of this cycle made room" in words
        assert all(words.split("; ")), f"nothing is said between two semicolons: {reason}"
        assert counted >= len(result.nodes) or fits_alone or fits_now, f"some node has no reason: {reason}"
        assert result.effects or not fits_now, f"nothing was decided in this cycle: {reason}"
    for lacking, all_nodes, asked, most in LACK.findall(reason.message):
        assert int(all_nodes) == len(result.nodes), reason
        assert any(lacks(resource, int(lacking), asked, most, result) for resource in resources(result)), reason
    for free, total, _ in FREE.findall(reason.message):
        assert any(is_free(resource, free, total, result, cluster) for resource in resources(result)), reason
    for holders in HELD.findall(reason.message):
        parents = {queue.parent for queue in result.queues}
        shown = {
            f"{queue.name} {show_amount(resource, amount)}"
            for queue in result.queues
            if queue.name not in parents
            for resource, amount in zip(QUEUE_RESOURCES, queue.allocated, strict=True)
        }
        assert set(holders.split(", ")) <= shown, reason


def check_gate(reason: Reason, queue: QueueState) -> None:
    found = GATE.search(reason.message)
    assert found is not None, reason
    bounds, held = queue.limit, queue.allocated
    if reason.code == OVER_QUOTA:
        bounds, held = queue.quota, queue.allocated_non_preemptible
    pairs = [(show_amount(r, bounds[k]), show_amount(r, held[k])) for k, r in enumerate(QUEUE_RESOURCES)]
    assert found[1] == queue.name
    assert (found[3], found[4]) in pairs, (reason, pairs)


def resources(result: CycleResult) -> list[str]:
    return sorted({resource for node in result.nodes.values() for resource in node.allocatable})


def plain(resource: str, amount: float) -> str:
    return show_amount(resource, max(0.0, amount)).split(" ", 1)[0]


def room(resource: str, result: CycleResult) -> dict[str, float]:
    return {name: node.idle[resource] + node.releasing[resource] for name, node in result.nodes.items()}


def lacks(resource: str, lacking: int, asked: str, most: str, result: CycleResult) -> bool:
    """So many nodes have less than what is asked for, and one of them has that much."""
    free = [amount for amount in room(resource, result).values() if plain(resource, amount) == most]
    short = [amount for amount in room(resource, result).values() if amount <= max(free, default=-1.0)]
    return bool(free) and len(short) >= lacking and show_amount(resource, max(free)) != asked


def is_free(resource: str, free: str, total: str, result: CycleResult, cluster: Cluster) -> bool:
    usable = [name for name, node in cluster.nodes.items() if node.takes_pods]
    there = sum(result.nodes[name].allocatable[resource] for name in usable)
    left = sum(max(0.0, room(resource, result)[name]) for name in usable)
    return (plain(resource, left), plain(resource, there)) == (free, total)


def check_who_leaves(result: CycleResult, cluster: Cluster) -> None:
    """Whoever is named is on that node and on its way out, and where nobody is named nobody is."""
    leaves: dict[str, set[str]] = defaultdict(set)
    for key, state in result.pods.items():
        node = cluster.pods[key].node or cluster.pods[key].expected_node
        if state.status == "Releasing" and state.node:
            leaves[state.node].add(key)
        elif state.status == "Pipelined" and node:
            leaves[node].add(key)
    moved = waits.moves(result.effects)
    for mates in waits.by_group(result.effects, cluster.pods).values():
        for place in mates:
            text = waits.of_pod(place, mates, result.leaving, moved)
            others = leaves[place.node] - {place.pod}
            assert set(result.leaving.get(place.node, ())) == leaves[place.node], text
            assert ("no pod is leaving" in text) <= (not any(leaves[each.node] for each in mates)), text
            assert ("leaving" not in text and "left it" not in text) <= (place.pod in moved), text
            assert ("left it" in text) == bool(others), text
