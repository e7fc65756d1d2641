"""Pods without a PodGroup are groups of one, by what their labels say."""

from __future__ import annotations

import pytest

from kai_sched import Cluster, Config, run_cycle
from kai_sched.api import names
from kai_sched.model import objects as o
from kai_sched.plan.effects import Evict

FREE = o.Share(-1.0, -1.0, 1.0)
GPU = o.Shape((("cpu", 1000.0), ("gpu", 1.0), ("pods", 1.0)))


@pytest.mark.parametrize(
    ("label", "evicted"),
    [("", ["ml/low"]), ("preemptible", ["ml/low"]), ("non-preemptible", []), ("nonsense", ["ml/low"])],
)
def test_whether_a_bare_pod_may_be_preempted_is_in_its_label(label: str, evicted: list[str]) -> None:
    labels = {names.PREEMPTIBILITY_LABEL: label} if label else {}
    objects: list[o.Object] = [
        o.Queue("q", cpu=FREE, memory=FREE, gpu=FREE),
        o.Node("n1", allocatable={"cpu": 8000.0, "memory": 1e12, "gpu": 1.0, "pods": 110.0}),
        o.PriorityClass("low", 10),
        o.PriorityClass("high", 90),
        o.Pod(
            "ml",
            "low",
            GPU,
            "u1",
            1,
            labels,
            queue="q",
            scheduler="kai-scheduler",
            priority_class="low",
            node="n1",
            phase=o.Phase.RUNNING,
        ),
        o.Pod("ml", "high", GPU, "u2", 2, queue="q", scheduler="kai-scheduler", priority_class="high"),
    ]
    result = run_cycle(Cluster.of(objects), Config(), 0)
    assert [effect.pod for effect in result.effects if isinstance(effect, Evict)] == evicted
