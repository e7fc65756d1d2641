"""Whichever objects make cycles raise: they are found, the rest is decided, and no room is given away twice."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched import Config, Store, run_cycle
from kai_sched.cycle.left_out import leave_out, view_without
from kai_sched.cycle.quarantine import RETRY_S, Quarantine
from kai_sched.model import objects as o
from kai_sched.model.store import Change, Cluster
from kai_sched.plan.effects import Bind, Pipeline
from kai_sched.plan.result import CycleResult
from tests.properties.clusters import NOW_NS, Spice, clusters
from tests.properties.plans import text_of
from tests.properties.test_cache import live_on

SPICE = Spice(pod_affinity=True, bind_requests=True)
KINDS: tuple[type[o.Object], ...] = (o.Pod, o.Pod, o.PodGroup, o.Node, o.Queue)
CONFIG = Config()


@pytest.mark.slow
@given(clusters(SPICE), st.integers(1, 4), st.randoms(use_true_random=False))
def test_the_culprits_are_found_and_all_others_go_on(
    objects: list[o.Object], n_culprits: int, rng: random.Random
) -> None:
    store, poison, time = Store(), dict[Change, o.Object](), [0.0]
    for item in objects:
        store.put(item)

    def run(view: Cluster, *arguments: Any) -> CycleResult:
        result = run_cycle(view, *arguments)
        for (kind, key), item in poison.items():
            found = view.table(kind).get(key)
            if found is item or (found is not None and kind is not o.Pod):
                raise ArithmeticError(key)
        return result

    quarantine = Quarantine(run)
    for cycle in range(3):
        view, now_ns = store.cluster(), NOW_NS + cycle * 10**9
        if cycle == 1:
            poison |= choose(view, n_culprits, rng)
        poison = {name: item for name, item in poison.items() if view.table(name[0]).get(name[1]) is item}
        time[0] += 1.0
        outcome = quarantine.run_cycle(view, CONFIG, now_ns, lambda: time[0], read_all=rng.random() < 0.3)
        left_out = set(outcome.result.left_out)
        assert {pod_of(name, view) for name in left_out} == set(poison)
        if poison:
            check(view, outcome.result, set(poison))
            left = view_without(view, leave_out(view, left_out, keep=True), CONFIG, object())
            cold = run_cycle(left, CONFIG, now_ns)
            assert outcome.result.effects == cold.effects, "the cache knows what is missing"
            assert dict(outcome.result.pods) == dict(cold.pods)
            again = quarantine.run_cycle(view, CONFIG, now_ns, lambda: time[0])
            assert text_of(again.result) == text_of(outcome.result)
        live_on(store, {**dict.fromkeys(view.pods, UNSEEN), **outcome.result.pods}, rng, cycle)
    poison = {}
    time[0] += 2 * RETRY_S
    view = store.cluster()
    healthy = quarantine.run_cycle(view, CONFIG, NOW_NS, lambda: time[0])
    assert healthy.result.left_out == {}
    assert text_of(healthy.result) == text_of(run_cycle(view, CONFIG, NOW_NS))


def pod_of(name: Change, view: Cluster) -> Change:
    """A bind request goes with its pod: where only it changed, it is suspected first."""
    return (o.Pod, view.bind_requests[name[1]].pod_key) if name[0] is o.BindRequest else name


class _Unseen:
    status = "unknown"


UNSEEN = _Unseen()


def choose(view: Cluster, n_culprits: int, rng: random.Random) -> dict[Change, o.Object]:
    found: dict[Change, o.Object] = {}
    for _ in range(n_culprits):
        kind = rng.choice(KINDS)
        if keys := sorted(view.table(kind)):
            key = rng.choice(keys)
            found[kind, key] = view.table(kind)[key]
    return found


def check(view: Cluster, result: CycleResult, left_out: set[Change]) -> None:
    """Nothing new where something that is left out is, and nobody goes because somebody is missing."""
    pods = [view.pods[key] for kind, key in left_out if kind is o.Pod]
    nodes = {pod.node for pod in pods if pod.node} | {key for kind, key in left_out if kind is o.Node}
    placed = [effect for effect in result.effects if isinstance(effect, Bind | Pipeline)]
    assert not nodes & {effect.node for effect in placed}
    assert not {(o.Pod, effect.pod) for effect in placed} & left_out
    groups = {key for kind, key in left_out if kind is o.PodGroup}
    assert not groups & {f"{pod.namespace}/{pod.group}" for pod in (view.pods[effect.pod] for effect in placed)}
    for key, reason in ((key, state.reason) for key, state in result.groups.items()):
        if key in groups and reason is not None:
            assert reason.code == "SchedulerError"
