"""The next time at which time alone may change what is decided, and what a cycle takes."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from kai_sched import Config, run_cycle
from kai_sched.model.objects import Node, Object, Phase, Pod, PodGroup, Queue, Shape, Share
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Evict

SECOND_NS = 10**9
NOW_NS = 1_000 * SECOND_NS
OPEN = Share(-1.0, -1.0, 1.0)
GPU = Shape((("cpu", 1000.0), ("gpu", 1.0), ("pods", 1.0)))
NODE = Node("n1", allocatable={"cpu": 8000.0, "memory": 1e12, "gpu": 2.0, "pods": 110.0})
QUEUE = Queue("q", cpu=OPEN, memory=OPEN, gpu=OPEN)


def next_s(*objects: Object, now_ns: int = NOW_NS, config: Config | None = None) -> float:
    """The next such time in seconds."""
    return run_cycle(Cluster.of([NODE, QUEUE, *objects]), config or Config(), now_ns).next_deadline_ns / SECOND_NS


def group(name: str, **more: float | int | None) -> PodGroup:
    return PodGroup("ml", name, name, queue="q", **more)  # type: ignore[arg-type]


def pod(name: str, of: str, node: str = "", **more: int) -> Pod:
    phase = Phase.RUNNING if node else Phase.PENDING
    return Pod("ml", name, GPU, name, group=of, node=node, phase=phase, scheduler="kai-scheduler", **more)


def test_without_anything_that_runs_out_there_is_none() -> None:
    assert next_s() == 0
    assert next_s(group("a"), pod("a-0", "a", "n1"), pod("a-1", "a")) == 0


def test_a_grace_ends() -> None:
    torn = group("a", min_member=2, stale_since_ns=990 * SECOND_NS)
    runs = pod("a-0", "a", "n1")
    assert next_s(torn, runs) == 990 + 60
    assert next_s(replace(torn, staleness_grace_s=15.0), runs) == 990 + 15
    assert next_s(replace(torn, staleness_grace_s=-1.0), runs) == 0
    assert next_s(replace(torn, staleness_grace_s=15.0), runs, now_ns=1_005 * SECOND_NS) == 0
    assert next_s(torn, runs, config=Config(staleness_grace_s=20.0)) == 990 + 20


def test_what_was_foreseen_is_decided_then_and_not_before() -> None:
    objects = [NODE, QUEUE, group("a", min_member=2, stale_since_ns=990 * SECOND_NS), pod("a-0", "a", "n1")]
    due_ns = run_cycle(Cluster.of(objects), Config(), NOW_NS).next_deadline_ns
    evicted = [
        [effect.pod for effect in run_cycle(Cluster.of(objects), Config(), now_ns).effects if isinstance(effect, Evict)]
        for now_ns in (due_ns - 1, due_ns)
    ]
    assert evicted == [[], ["ml/a-0"]]


@pytest.mark.parametrize(("eviction_s", "ends_s"), [(0, 950 + 100), (980, 980 + 100), (890, 950 + 100)])
def test_a_preemption_delay_ends(eviction_s: int, ends_s: int) -> None:
    delayed = group("a", preemption_delay_s=100.0, created_ns=950 * SECOND_NS, last_eviction_ns=eviction_s * SECOND_NS)
    assert next_s(delayed, pod("a-0", "a")) == ends_s


def test_a_minimum_runtime_ends_while_somebody_waits() -> None:
    started = group("a", last_start_ns=990 * SECOND_NS)
    runs, waits = pod("a-0", "a", "n1"), pod("b-0", "b")
    brief = replace(QUEUE, preempt_min_runtime_s=30.0, reclaim_min_runtime_s=20.0)
    assert next_s(started, runs, brief, group("b"), waits) == 990 + 20
    assert next_s(started, runs, brief, group("b"), waits, now_ns=1_011 * SECOND_NS) == 990 + 30
    assert next_s(started, runs, brief) == 0
    plugins = {**Config().plugins, "minruntime": {"defaultReclaimMinRuntime": "25s"}}
    assert next_s(started, runs, group("b"), waits, config=Config(plugins=plugins)) == 990 + 25


def test_patience_with_a_pod_that_does_not_end_runs_out() -> None:
    assert next_s(group("a"), pod("a-0", "a", "n1", deleted_ns=995 * SECOND_NS)) == 995 + 120
    assert next_s(group("a"), pod("a-0", "a", deleted_ns=995 * SECOND_NS)) == 0


def test_the_earliest_of_several_counts() -> None:
    later = group("a", min_member=2, stale_since_ns=990 * SECOND_NS)
    sooner = group("b", min_member=2, stale_since_ns=980 * SECOND_NS)
    assert next_s(later, sooner, pod("a-0", "a", "n1"), pod("b-0", "b", "n1")) == 980 + 60


def test_times_are_those_of_the_timer() -> None:
    """It ticks once whenever it is asked: before and after lowering, before the actions and after each."""
    ticks = count()
    result = run_cycle(Cluster.of([NODE, QUEUE]), Config(), NOW_NS, timer=lambda: float(next(ticks)))
    assert result.open_s == 2.0
    assert result.actions_s == dict.fromkeys(Config().actions, 1.0)
    assert result.solver_s == 7.0
    plain = run_cycle(Cluster.of([NODE, QUEUE]), Config(("allocate", "reclaim", "allocate")), NOW_NS)
    assert (plain.open_s, plain.solver_s, plain.actions_s) == (0.0, 0.0, {"allocate": 0.0, "reclaim": 0.0})
