"""Every block of the scenario files as one test: a cycle on its cluster decides what was worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kai_sched import Cluster, CycleResult, run_cycle
from kai_sched.answers.trial import decide_unasked
from kai_sched.cycle.shards import AllShards
from kai_sched.model.claims.objects import ResourceSlice
from kai_sched.model.hints import SchedulingHints
from kai_sched.model.objects import Node, Queue
from tests.oracle.actions import decide
from tests.oracle.between import Stands, moved_on, objects_of, stamped
from tests.oracle.pools import decide_pools
from tests.oracle.world import RESOURCES
from tests.oracle.zones import placement_of
from tests.scenarios import numa
from tests.scenarios.claims import moved_on as moved_on_claims
from tests.scenarios.objects import NOW_NS
from tests.scenarios.table import Scenario, blocks, evictions, expand, in_words, outcome

SCENARIOS = list(blocks(Path(__file__).parent))


def by_name(found: list[tuple[str, Scenario]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("scenario", [scenario for _, scenario in found], ids=[name for name, _ in found])


@by_name(SCENARIOS)
def test_decision(scenario: Scenario) -> None:
    """What the last cycle decides, said in the words of the block, equals the block."""
    cluster, now_ns = Cluster.of(scenario.objects), NOW_NS
    hints = SchedulingHints(pipelined_free=scenario.pipelined_free)
    pools = AllShards(scenario.configs, decide_unasked).begin()

    def cycle() -> CycleResult:
        """Of the one shard, or of each of several."""
        if scenario.configs:
            return pools.decide(cluster, now_ns)
        return run_cycle(cluster, scenario.config(), now_ns, hints=hints)

    result = cycle()
    for _ in range(scenario.cycles - 1):
        stands = {key: (state.status, state.node) for key, state in result.pods.items()}
        victims = {effect.pod: effect.action for effect in evictions(result)}
        before, cluster = cluster, next_cluster(cluster, stands, victims, now_ns)
        if before.resource_claims:
            objects = objects_of(cluster)
            cluster = Cluster.of([*objects, *moved_on_claims(before, result, objects)])
        now_ns += scenario.step_ns
        result = cycle()
    got = [outcome(expected, result) for expected in scenario.expected]
    assert got == scenario.expected, f"{scenario.name} (semantics {scenario.rule})"


def next_cluster(cluster: Cluster, stands: Stands, victims: Mapping[str, str], now_ns: int) -> Cluster:
    """The cluster of the next cycle; ``victims``: pod to the action that evicted it."""
    objects = moved_on(cluster, stands, victims, now_ns)
    return Cluster.of(stamped(cluster, objects, stands, victims, now_ns))


def test_names_and_rules() -> None:
    """Each block has a name of its own, the rule it pins, and something to expect."""
    names = [name for name, _ in SCENARIOS]
    assert len(set(names)) == len(names)
    assert all(scenario.rule and scenario.expected for _, scenario in SCENARIOS)


def in_scope(scenario: Scenario) -> bool:
    """Whether the oracle knows everything that the block uses."""
    shapes = [item.shape for item in scenario.objects if hasattr(item, "shape")]
    beyond = any(s.affinity or s.anti_affinity or s.preferred_affinity or s.claims or s.config_maps for s in shapes)
    labels = [label for item in scenario.objects if isinstance(item, Node | Queue) for label in item.labels]
    special = any("mig" in label or "node-pool" in label for label in labels)
    beyond = beyond or any(isinstance(item, ResourceSlice) for item in scenario.objects)
    special = special and not scenario.configs
    return not beyond and not special and not {"restrict", "pool", "flat", "keep"} & scenario.options.keys()


@by_name([(name, scenario) for name, scenario in SCENARIOS if in_scope(scenario)])
def test_oracle(scenario: Scenario) -> None:
    """The oracle, too, decides as the block says, so that neither can be wrong in a way of its own."""
    cluster, now_ns = Cluster.of(scenario.objects), NOW_NS
    if scenario.configs:
        check_pools(scenario)
        return
    found = decide(cluster, scenario.config(), now_ns)
    for _ in range(scenario.cycles - 1):
        victims = {each.pod: each.action for each in found.evictions}
        cluster, now_ns = next_cluster(cluster, found.pods, victims, now_ns), now_ns + scenario.step_ns
        found = decide(cluster, scenario.config(), now_ns)
    accounts, machines = found.world.accounts, found.world.machines
    for expected in scenario.expected:
        match expected:
            case ["order", *pods]:
                assert [key.partition("/")[2] for key in found.placed] == pods
            case ["evicted", *pods]:
                assert [each.pod.partition("/")[2] for each in found.evictions] == pods
            case ["cause", pod, action, *cause]:
                (eviction,) = [each for each in found.evictions if each.pod == f"ns/{pod}"]
                assert (eviction.action, eviction.cause) == (action, f"ns/{cause[0]}" if cause else "")
            case ["queue", name, kind, *amounts]:
                account = accounts[name]
                vectors = {"fair_share": account.fair, "requested": account.request, "allocated": account.allocated}
                vector = vectors.get(kind, account.fixed)
                assert amounts == in_words(amounts, dict(zip(RESOURCES, vector, strict=True)))
            case ["node", name, kind, *amounts]:
                machine = machines[name]
                assert amounts == in_words(amounts, machine.idle if kind == "idle" else machine.releasing)
            case [pod, "in", *words]:
                (task,) = [each for each in found.world.tasks if each.pod.key == f"ns/{pod}"]
                assert numa.in_words(placement_of(task, machines[task.node])) == words
            case [names, status, *nodes] if names != "group":
                states = [found.pods[name if "/" in name else f"ns/{name}"] for name in expand(names)]
                assert {each for each, _ in states} == {status}
                places = [node for _, node in states if node]
                assert places == (nodes if len(nodes) > 1 else nodes * len(states))


def check_pools(scenario: Scenario) -> None:
    """The same where several shards are decided, one after the other."""
    cluster, now_ns = Cluster.of(scenario.objects), NOW_NS
    promised: dict[str, str] = {}
    for number in range(scenario.cycles):
        found = decide_pools(cluster, scenario.configs, now_ns, promised)
        evictions = [each for pool in found.of.values() for each in pool.evictions]
        if number < scenario.cycles - 1:
            promised = {key: node for key, (status, node) in found.pods.items() if status == "Pipelined"}
            victims = {each.pod: each.action for each in evictions}
            cluster, now_ns = next_cluster(cluster, found.pods, victims, now_ns), now_ns + scenario.step_ns
    accounts = list(found.of.values())[-1].world.accounts
    for expected in scenario.expected:
        match expected:
            case ["evicted", *pods]:
                assert [each.pod.partition("/")[2] for each in evictions] == pods
            case ["queue", name, kind, *amounts]:
                account = accounts[name]
                vectors = {"fair_share": account.fair, "requested": account.request, "allocated": account.allocated}
                vector = vectors.get(kind, account.fixed)
                assert amounts == in_words(amounts, dict(zip(RESOURCES, vector, strict=True)))
            case ["group", *_]:
                pass  # the twin gives no reasons
            case [names, status, *nodes]:
                states = [found.pods[f"ns/{name}"] for name in expand(names)]
                assert {each for each, _ in states} == {status}
                assert set(nodes) == {node for _, node in states if node}
