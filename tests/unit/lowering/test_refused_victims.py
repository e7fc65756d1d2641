"""Pods that cannot be evicted: they are in classes of their own, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kai_sched import Cache, Config, Store
from kai_sched.lowering.lower import Lowered, lower
from kai_sched.model.hints import SchedulingHints
from kai_sched.model.objects import GpuShare, Node, Phase, Pod, PodGroup, Queue, Shape, Share
from kai_sched.snapshot.verdicts import Verdict

UNLIMITED = Share(-1.0, -1.0, 1.0)
WHOLE = Shape((("cpu", 1000.0), ("gpu", 1.0), ("pods", 1.0)))
HALF = Shape((("cpu", 1000.0), ("pods", 1.0)), share=GpuShare(1, 0.5))
KEYS = ("ml/whole-0", "ml/half-0", "ml/waits")


@pytest.fixture
def store() -> Store:
    """Two pods with a GPU each, two that share one, and one that waits; all of one group."""
    store = Store()
    store.put(Queue("q", cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED))
    store.put(Node("n", allocatable={"cpu": 64_000.0, "memory": 1e12, "gpu": 4.0, "pods": 110.0}))
    store.put(PodGroup("ml", "g", "g", 1, queue="q"))
    scheduler = "kai-scheduler"
    for n in range(2):
        whole = Pod("ml", f"whole-{n}", WHOLE, f"whole-{n}", 1, group="g", scheduler=scheduler)
        half = Pod("ml", f"half-{n}", HALF, f"half-{n}", 1, group="g", scheduler=scheduler, gpu_groups=("x",))
        for pod in (whole, half):
            store.put(replace(pod, node="n", phase=Phase.RUNNING))
    store.put(Pod("ml", "waits", WHOLE, "waits", 1, group="g", scheduler=scheduler))
    return store


def lowered(store: Store, *refused: str, cache: Cache | None = None) -> Lowered:
    return lower(store.cluster(), Config(), 0, cache or Cache(), SchedulingHints(refused_victims=frozenset(refused)))


def unsupported(found: Lowered) -> set[str]:
    """The pods of classes that are not supported."""
    refused = found.snapshot.classes.refused[found.snapshot.tasks.cls] == Verdict.NOT_SUPPORTED
    return {pod.key for pod in found.pods[refused]}


def test_those_on_nodes_are_in_classes_that_are_not_supported(store: Store) -> None:
    assert unsupported(lowered(store, *KEYS, "ml/gone")) == {"ml/whole-0", "ml/half-0"}


def test_nothing_else_changes(store: Store) -> None:
    before, after = lowered(store).snapshot, lowered(store, *KEYS).snapshot
    for name in ("queues", "nodes", "devices", "jobs", "sets"):
        one, other = getattr(before, name), getattr(after, name)
        for column in one._fields:
            np.testing.assert_array_equal(getattr(one, column), getattr(other, column), f"{name}.{column}")
    for column in set(before.tasks._fields) - {"cls"}:
        np.testing.assert_array_equal(getattr(before.tasks, column), getattr(after.tasks, column), column)
    for column in ("request", "quota", "shares", "portion", "memory"):
        one, other = (getattr(each.classes, column)[each.tasks.cls] for each in (before, after))
        np.testing.assert_array_equal(one, other, f"classes.{column}")


def test_a_warm_cache_keeps_none_of_it(store: Store) -> None:
    cache = Cache()
    for refused in (KEYS, (), KEYS[:1], KEYS):
        warm, cold = lowered(store, *refused, cache=cache), lowered(store, *refused)
        assert unsupported(warm) == unsupported(cold) == set(refused) - {"ml/waits"}
