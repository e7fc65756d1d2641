"""The proofs that spare the search scenarios change nothing: without them the scheduler decides the same, only later.

A kernel that was compiled into others cannot be taken out of them, so all of this is about interpreted kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_sched import Cluster, Config
from kai_sched.model import objects as o
from kai_sched.model.config import ACTIONS, OPERATOR_PLUGINS
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.eviction.tables import Search
from tests.afresh import afresh
from tests.properties.clusters import NOW_NS
from tests.properties.crowds import Crowd, crowds
from tests.properties.deciders import Plan, plan_of

run, search, minimal, choice, costs = afresh(
    "cycle.run",
    "solver.eviction.original.search",
    "solver.eviction.minimal.search",
    "solver.eviction.minimal.choice",
    "solver.eviction.minimal.node_costs",
)
OK = int(Verdict.OK)
# What each proof says when it cannot tell.
WHO_KNOWS: dict[str, Callable[..., Any]] = {
    "all_victims_come_back": lambda *_: False,
    "may_leave": lambda *_: True,
    "refute": lambda *_: OK,
    "may_suffice": lambda *_: True,
    "tried_before": lambda *_: 0,
    "is_by_itself": lambda *_: False,
    "all_have_gone": lambda *_: False,
}
# Victims of several nodes together, which those of one node at a time would mostly forestall.
ONLY_GANGS = {name: arguments for name, arguments in OPERATOR_PLUGINS.items() if name != "sg-nodelocalgreedy"}
CONFIGS = st.builds(
    Config,
    actions=st.sampled_from(
        [ACTIONS, ("reclaim",), ("consolidation", "reclaim"), ("preempt", "reclaim"), ("consolidation", "preempt")]
    ),
    plugins=st.sampled_from([OPERATOR_PLUGINS, OPERATOR_PLUGINS, ONLY_GANGS]),
    max_consolidation_preemptees=st.sampled_from([-1, 2]),
    allow_consolidating_reclaim=st.sampled_from([True, True, False]),
    use_scheduling_signatures=st.booleans(),
    victims=st.just("original"),
)
# The more of the crowd is plain, the more proofs there are.
PLAIN = Crowd(deep=True, movable=True)
MIXED = Crowd(deep=True, sub_groups=True, limits=True, times=True)
SOCIAL = Crowd(deep=True, sub_groups=True, limits=True, social=True, picky=True)
MORE = settings(max_examples=16 * settings().max_examples)
# Many nodes, so that there are many prefixes of them.
WIDE = crowds(PLAIN, (3, 9), (1, 3), (4, 14))


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Let these proofs know nothing."""
    kept = {name: getattr(search, name) for name in names}
    for name in names:
        setattr(search, name, WHO_KNOWS[name])
    try:
        yield
    finally:
        for name in names:
            setattr(search, name, kept[name])


def decide(objects: list[o.Object], config: Config) -> Plan:
    cluster = Cluster.of(objects)
    return plan_of(cluster, run.run_cycle(cluster, config, NOW_NS))


@pytest.mark.slow
@MORE
@given(st.one_of(crowds(PLAIN), crowds(MIXED)), CONFIGS)
def test_proofs_change_nothing(objects: list[o.Object], config: Config) -> None:
    """Where they do, those that make the difference are named."""
    plan = decide(objects, config)
    with without(*WHO_KNOWS):
        plain = decide(objects, config)
    if plan == plain:
        return
    wrong = []
    for name in WHO_KNOWS:
        with without(*(other for other in WHO_KNOWS if other != name)):
            if decide(objects, config) != plain:
                wrong.append(name)
    raise AssertionError(f"these proofs are wrong: {wrong}\nwith them:    {plan}\nwithout them: {plain}")


def come_to(objects: list[o.Object], config: Config) -> list[tuple[int, frozenset[int]]]:
    """All scenarios, as search and victims, that searches come to in which none is good; each where it comes first."""
    found: dict[tuple[int, frozenset[int]], None] = {}

    def perform(*arguments: Any) -> bool:
        scene: Search = arguments[-1]
        victims = scene.lists.scenario[: scene.counts.scenario[0]]
        found[int(scene.counts.clock[0]), frozenset(victims.tolist())] = None
        return False

    kept = search.simulate_new_scenario
    search.simulate_new_scenario = perform
    try:
        run.run_cycle(Cluster.of(objects), config, NOW_NS)
    finally:
        search.simulate_new_scenario = kept
    return list(found)


@pytest.mark.slow
@settings(max_examples=4 * settings().max_examples)
@given(WIDE, st.sampled_from(["consolidation", "reclaim"]))
def test_what_is_passed_over_was_tried_before(objects: list[o.Object], action: str) -> None:
    """A search that passes over prefixes of nodes that it knows comes to the same scenarios in the same order."""
    config = Config((action,), ONLY_GANGS, use_scheduling_signatures=False, victims="original")
    others = [name for name in WHO_KNOWS if name != "tried_before"]
    with without(*others):
        scenarios = come_to(objects, config)
    with without(*WHO_KNOWS):
        assert scenarios == come_to(objects, config)


def asked_again(*arguments: Any) -> tuple[int, int]:
    """``clear_node``, as if the first victim after those that were skipped had gone first."""
    skipped, _ = arguments[2]
    outcome, _ = CLEAR_NODE(*arguments)
    return outcome, skipped + 1 if skipped < 20 else 0


def no_bound(*arguments: Any) -> int:
    """``least_cost`` of nodes that may serve the task, as if nothing were known."""
    t, n, _, ctx, _ = arguments
    verdict = ctx.finder.verdicts[ctx.snapshot.classes.signature[ctx.snapshot.tasks.cls[t]], n]
    return 0 if verdict == OK else int(costs.NEVER)


CLEAR_NODE, LEAST_COST = choice.clear_node, costs.least_cost
OF_MINIMAL: dict[str, tuple[Any, Callable[..., Any]]] = {
    "refute": (minimal, lambda *_: OK),
    "may_supply": (minimal, lambda *_: True),
    "shares_forbid_all": (minimal, lambda *_: False),
    "can_clear_no_node": (minimal, lambda *_: False),
    "hosts_suffice": (minimal, lambda *_: True),
    "some_victim_is_unneeded": (minimal, lambda *_: True),
    "can_be_cleared": (costs, lambda *_: True),
    "least_cost": (costs, no_bound),
    "clear_node": (choice, asked_again),
}


@pytest.mark.slow
@MORE
@given(st.one_of(crowds(PLAIN), crowds(MIXED), crowds(SOCIAL)), CONFIGS, st.sampled_from([*OF_MINIMAL, ""]))
def test_proofs_of_the_minimal_search_change_nothing(objects: list[o.Object], config: Config, one: str) -> None:
    """That no set of victims will do, that shares keep too many, that a node is too small: one of them, or all."""
    config = replace(config, victims="minimal")
    plan = decide(objects, config)
    off = {name: given for name, given in OF_MINIMAL.items() if one in ("", name)}
    kept = {name: getattr(module, name) for name, (module, _) in off.items()}
    for name, (module, unknowing) in off.items():
        setattr(module, name, unknowing)
    try:
        assert decide(objects, config) == plan
    finally:
        for name, (module, _) in off.items():
            setattr(module, name, kept[name])
