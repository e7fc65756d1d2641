"""Whatever number an object holds: it fits into the tables, and the others are decided as without it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from kai_sched import Cluster, Config, Store, run_cycle
from kai_sched.lowering.cache import Cache
from kai_sched.lowering.limits import LATEST_NS, duration, moment, whole
from kai_sched.lowering.lower import lower
from kai_sched.lowering.pod_classes import ABSENT_MAX, BASE_RESOURCES, UNKNOWN
from kai_sched.model import objects as o

UNLIMITED = o.Share(-1.0, -1.0, 1.0)
SHAPE = o.Shape((("cpu", 1000.0), ("pods", 1.0)))
HUGE = 10**40
NOW_NS = 1_800_000_000 * 10**9
PRIORITY = "kai.scheduler/task-priority"
GROUP = o.PodGroup("ml", "g", queue="q", created_ns=NOW_NS)
POD = o.Pod("ml", "p", SHAPE, group="g", scheduler="kai-scheduler")
HELD = replace(POD, name="held", node="a", phase=o.Phase.RUNNING)

EXTREMES: dict[str, list[o.Object]] = {
    **{f"task priority {text[:9]}": [replace(POD, labels={PRIORITY: text})] for text in ("9" * 63, "-" + "9" * 62)},
    **{
        f"{field} {value}": [replace(GROUP, **{field: value})]  # type: ignore[arg-type]
        for field in ("preemption_delay_s", "staleness_grace_s")
        for value in (1e300, -1e300, math.inf, -math.inf, math.nan, 9.3e9)
    },
    **{
        f"{field} {value}": [replace(GROUP, preemption_delay_s=9e9, **{field: value}), HELD]
        for field in ("created_ns", "stale_since_ns", "last_start_ns", "last_eviction_ns")
        for value in (HUGE, -HUGE, 2**63, 2**63 - 1, -(2**63))
    },
    **{f"deleted {value}": [replace(HELD, deleted_ns=value)] for value in (HUGE, -HUGE, 2**63 - 1)},
    **{f"created {value}": [replace(POD, created_ns=value)] for value in (HUGE, -HUGE, 2**63)},
    **{f"minimum {value}": [replace(GROUP, min_member=value)] for value in (2**31, 2**63, HUGE, -HUGE)},
    **{
        f"sub-group {value}": [
            replace(GROUP, min_sub_group=value, sub_groups=(o.SubGroup("x", "", value), o.SubGroup("y", "", value)))
        ]
        for value in (2**31, HUGE, -HUGE)
    },
    **{f"priority class {value}": [o.PriorityClass("c", value, True)] for value in (2**31, HUGE, -HUGE)},
    **{
        f"queue {value}": [
            o.Queue("r", priority=value, preempt_min_runtime_s=float(value), reclaim_min_runtime_s=math.inf)
        ]
        for value in (2**63, HUGE, -HUGE)
    },
}


@pytest.mark.parametrize("what", EXTREMES)
def test_others_are_scheduled(what: str) -> None:
    store = Store()
    store.put(o.Queue("q", cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED))
    store.put(o.Node("a", allocatable={"cpu": 64_000.0, "memory": 1e12, "gpu": 1.0, "pods": 110.0}))
    store.put(GROUP)
    store.put(POD)
    for item in EXTREMES[what]:
        store.put(item)
    store.put(o.Pod("ml", "other", SHAPE, queue="q", scheduler="kai-scheduler"))
    result = run_cycle(store.cluster(), Config(), NOW_NS)
    assert result.pods["ml/other"].status == "Binding"
    assert "ml/g" in result.groups
    assert result.next_deadline_ns >= 0


@pytest.mark.parametrize("seconds", [0.0, 1.5, -2.0, 1e9, 4.6e9, 1e300, math.inf, -math.inf, math.nan])
def test_durations_fit(seconds: float) -> None:
    found = duration(seconds)
    assert -LATEST_NS <= found <= LATEST_NS
    if abs(seconds) < 1e9:
        assert found == int(seconds * 1e9)


def test_sums_of_two_times_fit() -> None:
    assert moment(HUGE) + duration(math.inf) < 2**63
    assert moment(-HUGE) + duration(-math.inf) >= -(2**63)
    assert (whole(HUGE), whole(-HUGE), whole(7)) == (2**31 - 1, -(2**31), 7)


def test_a_larger_priority_goes_first_up_to_the_largest() -> None:
    """Numbers beyond 32 bits count as the largest: they still go before all others."""
    store = Store()
    store.put(o.Queue("q", cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED))
    store.put(o.Node("a", allocatable={"cpu": 1000.0, "memory": 1e12, "pods": 110.0}))
    store.put(replace(GROUP, min_member=1))
    store.put(replace(POD, name="first", created_ns=1, labels={PRIORITY: "2147483646"}))
    store.put(replace(POD, name="second", created_ns=2, labels={PRIORITY: "9" * 30}))
    assert run_cycle(store.cluster(), Config(), NOW_NS).pods["ml/second"].status == "Binding"


def test_invented_resources_share_a_column() -> None:
    """Each name that somebody makes up would else be a column of all nodes and classes."""
    names = [f"example.com/r{n:03}" for n in range(3 * ABSENT_MAX)]
    node = o.Node("a", "a", {}, {"cpu": 8000.0, "memory": 8e9, "pods": 110.0, names[-1]: 2000.0}, (), False, ())
    asks = [
        replace(POD, name=name.rpartition("/")[2], group="", queue="q", shape=o.Shape((("cpu", 1.0), (name, 1000.0))))
        for name in names
    ]
    cluster = Cluster.of([node, o.Queue("q", cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED), *asks])
    resources = lower(cluster, Config(), NOW_NS, Cache()).resources
    assert resources == (*BASE_RESOURCES, *names[:ABSENT_MAX], names[-1], UNKNOWN)
    result = run_cycle(cluster, Config(), NOW_NS)
    assert [effect.pod for effect in result.effects] == [asks[-1].key]
    waiting = next(group for key, group in result.groups.items() if key.endswith(asks[ABSENT_MAX].key))
    assert UNKNOWN in str(waiting)
