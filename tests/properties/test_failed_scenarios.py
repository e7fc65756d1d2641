"""A cycle that fails, wherever and whyever: it leaves nothing behind, and the next one is decided as from scratch."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched import Cache, Store, run_cycle
from kai_sched.cycle import run
from kai_sched.lowering import cache as cells
from kai_sched.lowering import constraints, jobs, lower, nodes, term_roles, terms
from kai_sched.lowering.cached_rows import Names, RowTable
from kai_sched.lowering.crowding import Crowding
from kai_sched.lowering.errors import LoweringError
from kai_sched.model import objects as o
from kai_sched.model.constraints import PodTerm, Requirement
from tests.properties.clusters import NOW_NS, Spice, clusters
from tests.properties.plans import CONFIG, text_of
from tests.properties.snapshots import snapshot_of
from tests.properties.test_cache import live_on

SPICE = Spice(pod_affinity=True, bind_requests=True)
# Where a cycle may break: whoever looks the function up, and its name.
STAGES: tuple[tuple[Any, str], ...] = (
    (Cache, "_sync_bindings"),
    (Cache, "_sync_nodes"),
    (Cache, "_sync_groups"),
    (Cache, "_sync_pods"),
    (Cache, "_pod_cells"),
    (Cache, "_group_cells"),
    (Cache, "_match_again"),
    (Cache, "_match_all"),
    (Crowding, "is_over"),
    (Crowding, "read"),
    (RowTable, "put"),
    (RowTable, "_claim"),
    (RowTable, "remove"),
    (RowTable, "ordered"),
    (Names, "row"),
    (terms.TermBook, "learn"),
    (terms.TermBook, "label_set"),
    (terms.TermBook, "rematch"),
    (cells, "make_layout"),
    *((lower, name) for name in ("node_list", "lower_queues", "lower_jobs", "memberships", "lower_classes")),
    *((lower, name) for name in ("job_equivalence", "lower_topologies", "make_sets", "make_jobs")),
    *((lower, name) for name in ("lower_nodes", "lower_signatures", "freeze")),
    (jobs, "take"),
    (lower, "lower_devices"),
    (nodes, "_mig_gpus"),
    (nodes, "_devices"),
    (term_roles, "label_column"),
    (constraints, "label_column"),
    *((run, name) for name in ("lower_settings", "solve", "lift", "next_deadline")),
)
FAULTS: tuple[type[BaseException], ...] = (ValueError, MemoryError, KeyboardInterrupt)


class Breaking:
    """Stands for a function: fails in its ``nth`` call, before or after it has done its work; later calls are well."""

    def __init__(self, original: Callable[..., Any], fault: type[BaseException], nth: int, late: bool) -> None:
        self._original, self._fault, self._late = original, fault, late
        self._calls_left = nth

    def __call__(self, *arguments: Any) -> Any:
        self._calls_left -= 1
        fails = self._calls_left == 0
        if fails and not self._late:
            raise self._fault("by the test")
        result = self._original(*arguments)
        if fails:
            raise self._fault("by the test")
        return result

    def __get__(self, owner: object, _: type) -> Callable[..., Any]:
        return lambda *arguments: self(owner, *arguments)


@pytest.mark.slow
@given(
    clusters(SPICE),
    st.sampled_from(STAGES),
    st.sampled_from(FAULTS),
    st.integers(1, 6),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_a_failed_cycle_leaves_nothing_behind(
    objects: list[o.Object],
    stage: tuple[Any, str],
    fault: type[BaseException],
    nth: int,
    late: bool,
    rng: random.Random,
) -> None:
    store, cache = Store(), Cache()
    for item in objects:
        store.put(item)
    for cycle in range(4):
        if rng.random() < 0.5:
            fail_once(store, cache, stage, Breaking(getattr(*stage), fault, nth, late))
            if rng.random() < 0.5:
                store.put(o.Pod("ns", f"after{cycle}", o.Shape((("cpu", 500.0), ("pods", 1.0))), queue="q0"))
        view, now_ns = store.cluster(), NOW_NS + cycle * 10**9
        if rng.random() < 0.5:
            assert snapshot_of(view, CONFIG, now_ns, cache) == snapshot_of(view, CONFIG, now_ns)
        warm = run_cycle(view, CONFIG, now_ns, cache)
        assert text_of(warm) == text_of(run_cycle(view, CONFIG, now_ns)), f"cycle {cycle}"
        live_on(store, warm.pods, rng, cycle)


def fail_once(store: Store, cache: Cache, stage: tuple[Any, str], breaking: Breaking) -> bool:
    """Run a cycle in which the stage breaks; whether it did, as not every cycle comes through every stage."""
    with pytest.MonkeyPatch.context() as patch, suppress(*FAULTS, LoweringError):
        patch.setattr(*stage, breaking)
        run_cycle(store.cluster(), CONFIG, NOW_NS, cache)
        return False
    return True


@pytest.mark.parametrize(("owner", "name"), STAGES, ids=[f"{owner.__name__}.{name}" for owner, name in STAGES])
def test_each_stage_can_break(owner: Any, name: str) -> None:
    """The property above says something about each of them: a cold cycle, or one after some news, does break there."""
    store, cache = Store(), Cache()
    share = o.Share(-1.0, -1.0, 1.0)
    anti = PodTerm("zone", (Requirement("app", "In", ("web",)),), (), (Requirement("team", "Exists"),))
    shape = o.Shape((("gpu", 1.0), ("pods", 1.0)), node_selector=(("zone", "x"),), anti_affinity=(anti,))
    store.put(o.Queue("q0", cpu=share, memory=share, gpu=share))
    store.put(o.Node("n", labels={"zone": "x"}, allocatable={"gpu": 8.0, "pods": 110.0}))
    store.put(o.PodGroup("ns", "g", queue="q0"))
    store.put(o.Pod("ns", "a", o.Shape((("gpu", 1.0), ("pods", 1.0))), group="g", scheduler="kai-scheduler"))
    store.put(o.BindRequest("ns", "a", "a", "n"))
    broke = fail_once(store, cache, (owner, name), Breaking(getattr(owner, name), ValueError, 1, late=True))
    run_cycle(store.cluster(), CONFIG, NOW_NS, cache)
    store.put(o.Namespace("ns", {"team": "red"}))
    store.put(o.Pod("ns", "a", o.Shape((("gpu", 1.0), ("pods", 1.0))), group="g", scheduler="kai-scheduler", node="n"))
    store.put(o.Pod("ns", "b", shape, labels={"app": "web"}, queue="q0", scheduler="kai-scheduler"))
    broke |= fail_once(store, cache, (owner, name), Breaking(getattr(owner, name), ValueError, 1, late=True))
    assert broke
