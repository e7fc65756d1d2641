"""People are told where cycles are decided without an object."""

from __future__ import annotations

from typing import Any

import pytest

from kai_sched import Config, Store, run_cycle
from kai_sched.cycle.quarantine import Quarantine
from kai_sched.model import objects as o
from kai_sched.model.store import Change, Cluster
from kai_sched.plan.effects import Emit, PatchStatus, SetCondition, Write
from kai_sched.reconcile.status.reconciler import StatusReconciler

UNLIMITED = o.Share(-1.0, -1.0, 1.0)
SHAPE = o.Shape((("cpu", 1000.0), ("pods", 1.0)))
NOW_NS = 1_800_000_000 * 10**9


def writes_without(*names: Change) -> list[Write]:
    """What is written of a small cluster, in which cycles fail with these objects."""
    store = Store()
    store.put(o.Queue("q", "uid-q", cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED))
    store.put(o.Node("n", allocatable={"cpu": 64_000.0, "memory": 1e12, "pods": 110.0}))
    store.put(o.PodGroup("ml", "g", "uid-g", queue="q"))
    for name in ("a", "b"):
        store.put(o.Pod("ml", name, SHAPE, f"uid-{name}", group="g", queue="q", scheduler="kai-scheduler"))

    def run(view: Cluster, *arguments: Any) -> Any:
        result = run_cycle(view, *arguments)
        if any(key in view.table(kind) for kind, key in names):
            raise ArithmeticError("by the test")
        return result

    view = store.cluster()
    result = Quarantine(run).run_cycle(view, Config(), NOW_NS, lambda: 0.0).result
    reconciler = StatusReconciler(Config())
    reconciler.observe_queue("q", "uid-q", b"")
    reconciler.observe_pod_group("ml/g", "uid-g", b"")
    for name in ("a", "b"):
        reconciler.observe_pod(f"ml/{name}", f"uid-{name}", None)
    return reconciler.writes(view, result, NOW_NS, NOW_NS)[0]


@pytest.mark.parametrize("name", [(o.PodGroup, "ml/g"), (o.Queue, "q")])
def test_the_pods_and_their_group_say_that_it_is_left_out(name: Change) -> None:
    found = writes_without(name)
    conditions = {write.ref.key: write.reason for write in found if isinstance(write, SetCondition)}
    assert conditions == {"ml/a": "SchedulerError", "ml/b": "SchedulerError"}
    group = next(write for write in found if isinstance(write, PatchStatus) and write.ref.kind == "PodGroup")
    assert group.status["schedulingConditions"][-1]["reasons"][0]["reason"] == "SchedulerError"
    told = [write for write in found if isinstance(write, Emit) and write.ref.kind == "PodGroup"]
    assert "ArithmeticError: by the test" in told[0].message


def test_a_pod_that_is_left_out_says_so() -> None:
    found = writes_without((o.Pod, "ml/a"))
    conditions = {write.ref.key: write.reason for write in found if isinstance(write, SetCondition)}
    assert conditions == {"ml/a": "SchedulerError"}, "the other is bound"


def test_a_queue_that_is_left_out_has_a_condition() -> None:
    found = writes_without((o.Queue, "q"))
    queue = next(write for write in found if isinstance(write, PatchStatus) and write.ref.kind == "Queue")
    condition = queue.status["conditions"][-1]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Invalid", "True", "SchedulerError")
