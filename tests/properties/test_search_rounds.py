"""Searches that are cut (``Config.search_work``): over the cycles everybody has a turn."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched import Config, Store, run_cycle
from kai_sched.cli import inputs, simulate
from kai_sched.cycle.hint_tracker import HintTracker
from kai_sched.cycle.world.pods import World, advance
from kai_sched.files.load import Loaded, SimulationCase
from kai_sched.model.hints import SchedulingHints
from kai_sched.model.objects import Object
from kai_sched.model.store import Cluster
from kai_sched.snapshot.tables import Help
from tests.properties.clusters import NOW_NS
from tests.properties.crowds import Crowd, crowds, make_crowd

STEP_NS = 10**10
WORLD = World(STEP_NS, revives=False, restarts_clocks=False)
CYCLES = 150
ANY = st.one_of(
    crowds(Crowd(sub_groups=True, picky=True, limits=True), (2, 6), (2, 6), (8, 24)),
    crowds(Crowd(flat=True), (2, 6), (2, 6), (8, 24)),
    crowds(Crowd(social=True, deep=True), (2, 6), (2, 6), (8, 24)),
)


def run(objects: Iterable[Object], config: Config, told: bool = True) -> tuple[Cluster, int]:
    """Cycles until none is due and nothing happens; returns what the cluster is then, and how many there were."""
    store, tracker = Store(), HintTracker()
    for item in objects:
        store.put(item)
    for number in range(CYCLES):
        cluster, hints = store.cluster(), tracker.next_hints()
        if not told:
            hints = replace(hints, searched={}, may_search=frozenset())
        result = run_cycle(cluster, config, NOW_NS + number * STEP_NS, hints=hints)
        tracker.record(cluster, result, config)
        if not result.effects and not (told and tracker.due):
            return cluster, number
        advance(store, cluster, result, NOW_NS + number * STEP_NS, WORLD)
    pytest.fail(f"no rest after {CYCLES} cycles")


def could_be_helped(cluster: Cluster, config: Config, cycles: int) -> list[str]:
    """The groups for which something would be done if all the time were theirs."""
    now_ns = NOW_NS + cycles * STEP_NS
    groups = sorted({pod.group_key for pod in cluster.pods.values() if not pod.node})
    alone = {
        key: run_cycle(cluster, config, now_ns, hints=SchedulingHints(may_search=frozenset({key}))) for key in groups
    }
    return [key for key, result in alone.items() if result.effects]


@given(ANY, st.sampled_from((1, 3, 10)))
def test_whoever_could_be_helped_is(objects: list[Object], work: int) -> None:
    """However little time there is, as long as it is enough for the search of that group alone; and it ends."""
    config = Config(search_work=work)
    cluster, cycles = run(objects, config)
    assert could_be_helped(cluster, config, cycles) == []


@pytest.mark.slow
def test_without_being_told_some_would_starve() -> None:
    """The property is about something: the same cycles, not told who had its turn."""
    starving = 0
    for seed in range(20):
        objects = make_crowd(4, 4, 20, random.Random(seed), Crowd(sub_groups=True, picky=True, limits=True))
        cluster, cycles = run(objects, Config(search_work=3), told=False)
        starving += could_be_helped(cluster, Config(search_work=3), cycles) != []
    assert starving > 0


def test_simulate_gives_everybody_a_turn_over_its_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    store, gave_up = Store(), "the search for victims was cut short"
    for item in make_crowd(4, 4, 20, random.Random(1), Crowd(sub_groups=True, picky=True, limits=True)):
        store.put(item)
    case = SimulationCase("crowd", "crowd", False, store, Config(search_work=3), seconds_between_cycles=10.0)
    monkeypatch.setattr(inputs, "load", lambda *_, **__: Loaded((case,), ()))
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(out := io.BytesIO()))
    read = inputs.InputOptions((), now="2026-01-01T12:00:00Z", solver="interpreted")
    options = simulate.SimulateOptions(read, 40, simulate.Shown("json"))
    assert simulate.simulate(options) == 0
    told = [cycle["podGroups"] for cycle in json.loads(out.getvalue())["cycles"]]
    cut = {key for key, reason in told[0].items() if gave_up in reason["message"]}
    assert cut
    for key in cut:
        assert any(gave_up not in pending.get(key, {"message": ""})["message"] for pending in told[1:]), key


@given(ANY)
def test_with_time_enough_nothing_is_told(objects: list[Object]) -> None:
    store = Store()
    for item in objects:
        store.put(item)
    assert run_cycle(store.cluster(), Config(), NOW_NS).searches == {}


@given(ANY, st.sampled_from((0, 2, 10)))
def test_whose_search_was_cut_has_its_turn_before_all_others(objects: list[Object], work: int) -> None:
    """In the next cycle nobody is evicted for those who had their turn."""
    store, tracker, config = Store(), HintTracker(), Config(search_work=work)
    for item in objects:
        store.put(item)
    view = store.cluster()
    first = run_cycle(view, config, NOW_NS)
    tracker.record(view, first, config)
    cut = {key for key, found in first.searches.items() if Help.TOO_LONG in found}
    second = run_cycle(view, config, NOW_NS, hints=replace(SchedulingHints(), searched=tracker.next_hints().searched))
    assert {effect.cause for effect in second.effects if getattr(effect, "cause", "")} <= cut or not cut
    assert set(second.searches) <= cut or not cut
