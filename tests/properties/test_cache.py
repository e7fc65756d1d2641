"""Cycle after cycle on one store: with the cache of the cycles before, each is decided as from scratch."""

from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched import Cache, Store, run_cycle
from kai_sched.lowering import cached_rows
from kai_sched.lowering.cached_rows import LAID_OUT
from kai_sched.model import objects as o
from tests.properties.clusters import NOW_NS, Spice, clusters, make_cluster
from tests.properties.plans import CONFIG, text_of
from tests.properties.snapshots import snapshot_of

SPICE = Spice(pod_affinity=True, bind_requests=True)


@pytest.mark.slow
@given(clusters(SPICE), st.integers(1, 4), st.randoms(use_true_random=False), st.sampled_from([0, LAID_OUT]))
def test_warm_equals_cold(objects: list[o.Object], n_cycles: int, rng: random.Random, laid_out: int) -> None:
    """The same result in every cycle, whatever changed in between: pods, nodes, queues, groups. Of small tables and of
    large ones, whose rows are moved."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cached_rows, "LAID_OUT", laid_out)
        live(objects, n_cycles, rng)


def live(objects: list[o.Object], n_cycles: int, rng: random.Random) -> None:
    store, cache = Store(), Cache()
    for item in objects:
        store.put(item)
    for cycle in range(n_cycles + 1):
        view, now_ns = store.cluster(), NOW_NS + cycle * 10**9
        assert snapshot_of(view, CONFIG, now_ns, cache) == snapshot_of(view, CONFIG, now_ns), f"cycle {cycle}"
        warm = run_cycle(view, CONFIG, now_ns, cache=cache)
        cold = run_cycle(view, CONFIG, now_ns)
        assert text_of(warm) == text_of(cold), f"cycle {cycle}"
        live_on(store, warm.pods, rng, cycle)


@given(clusters(SPICE), clusters(SPICE))
def test_a_cache_may_change_hands(one: list[o.Object], other: list[o.Object]) -> None:
    """A cache that has seen another store's objects gives the same result as a new one."""
    cache = Cache()
    for objects in (one, other, one):
        store = Store()
        for item in objects:
            store.put(item)
        view = store.cluster()
        assert text_of(run_cycle(view, CONFIG, NOW_NS, cache=cache)) == text_of(run_cycle(view, CONFIG, NOW_NS))


def live_on(store: Store, states: object, rng: random.Random, cycle: int) -> None:
    """What happens in a cluster between two cycles: bound pods run, some things go, some change, some come."""
    view = store.cluster()
    for pod in view.pods.values():
        state = states[pod.key]  # type: ignore[index]
        luck = rng.random()
        if state.status == "Binding":
            store.put(dataclasses.replace(pod, node=state.node, phase=o.Phase.RUNNING))
        elif luck < 0.1:
            store.remove(o.Pod, pod.key)
        elif luck < 0.2 and pod.node:
            store.put(dataclasses.replace(pod, deleted_ns=NOW_NS))
        elif luck < 0.25:
            store.put(dataclasses.replace(pod, labels={"app": "db"}, gates=()))
    fresh = make_cluster(rng.randrange(1, 7), rng.randrange(1, 9), rng.randrange(1, 4), rng, SPICE)
    for item in fresh:
        if rng.random() < (0.5 if isinstance(item, o.Pod) else 0.15):
            item = dataclasses.replace(item, name=f"new{cycle}-{item.name}") if isinstance(item, o.Pod) else item
            store.put(item)
    for kind, table in ((o.Node, view.nodes), (o.Queue, view.queues), (o.PodGroup, view.pod_groups)):
        for key in table:
            if rng.random() < 0.03:
                store.remove(kind, key)
    for request in view.bind_requests.values():
        luck = rng.random()
        if luck < 0.2:
            store.remove(o.BindRequest, request.key)
        elif luck < 0.4:
            store.put(dataclasses.replace(request, is_live=not request.is_live))
