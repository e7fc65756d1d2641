"""Metrics of queues: amounts, limits, who waits, and that nobody but administrators makes series of them."""

from __future__ import annotations

import math
from dataclasses import replace

from prometheus_client import CollectorRegistry, generate_latest

from kai_sched.model.objects import PodGroup, Queue, Share
from kai_sched.model.store import Cluster
from kai_sched.plan.reasons import Reason
from kai_sched.plan.result import CycleResult, GroupState, QueueState
from kai_sched.telemetry.metrics import CycleTimes, Metrics
from kai_sched.telemetry.queue_metrics import QueueMetrics
from kai_sched.telemetry.series import OTHERS, QUEUES_MAX, WAIT_BUCKETS_S
from tests.unit.telemetry.test_metrics import labels, values

NOTHING = CycleResult((), (), {}, {}, (), {}, 0.0)
TIMES = CycleTimes(whole_s=0.25, open_s=0.1, actions_s={}, close_s=0.05)
SECOND_NS = 1_000_000_000


def waiting(*states: GroupState) -> CycleResult:
    return replace(NOTHING, groups={each.key: each for each in states})


def waits(name: str, queue: str, code: str = "PodSchedulingErrors") -> GroupState:
    return GroupState(f"ml/{name}", queue, 50, True, 1, {"Pending": 2}, {}, Reason(code, "because"))


def test_requests_and_limits_have_a_series_for_each_resource() -> None:
    queues = [Queue("team", cpu=Share(0, 2500), memory=Share(0, 3e9), gpu=Share(0, 1.5)), Queue("open", gpu=Share(2))]
    queues[1] = replace(queues[1], cpu=Share(0, -1), memory=Share(0, math.inf), gpu=Share(0, -1))
    none = (0.0, 0.0, 0.0)
    state = QueueState("team", "", 0, 100, none, none, none, (500.0, 1e9, 0.5), none, (1500.0, 2e9, 8 / 3))
    metrics = Metrics()
    metrics.observe_cycle(Cluster.of(queues), replace(NOTHING, queues=(state,)), TIMES)
    team, unlimited = labels("team"), labels("open")
    assert values(metrics, "kai_queue_requested_cpu_cores") == {team: 1.5}
    assert values(metrics, "kai_queue_requested_memory_bytes") == {team: 2e9}
    assert values(metrics, "kai_queue_requested_gpus") == {team: 2.6667}
    assert values(metrics, "kai_queue_allocated_cpu_cores") == {team: 0.5}
    assert values(metrics, "kai_queue_limit_cpu_cores") == {team: 2.5, unlimited: -1.0}
    assert values(metrics, "kai_queue_limit_memory_bytes") == {team: 3e9, unlimited: -1.0}
    assert values(metrics, "kai_queue_limit_gpus") == {team: 1.5, unlimited: -1.0}


def test_labels_of_queues_are_labels_of_their_metrics() -> None:
    queues = [Queue("team", labels={"cost-center": "c7"}), Queue("open")]
    metrics = Metrics()
    chosen = (("cost-center", "cost_center", "none"), ("owner", "owner", ""))
    metrics.observe_cycle(Cluster.of(queues), NOTHING, TIMES, chosen)
    found = {dict(each)["queue_name"]: dict(each) for each in values(metrics, "kai_queue_info")}
    assert {name: (each["cost_center"], each["owner"]) for name, each in found.items()} == {
        "team": ("c7", ""),
        "open": ("none", ""),
    }
    metrics.observe_cycle(Cluster.of(queues), NOTHING, TIMES)
    assert not any("owner" in dict(each) for each in values(metrics, "kai_queue_info"))


def test_the_longest_wait_is_that_of_groups_that_never_ran_and_have_their_pods() -> None:
    groups = [
        PodGroup("ml", "old", created_ns=100 * SECOND_NS, last_start_ns=150 * SECOND_NS),
        PodGroup("ml", "small", created_ns=110 * SECOND_NS),
        PodGroup("ml", "first", created_ns=120 * SECOND_NS),
        PodGroup("ml", "second", created_ns=130 * SECOND_NS),
    ]
    states = [waits("old", "team"), waits("small", "team", "NotReady"), waits("first", "team"), waits("second", "team")]
    now_s = [200.0]
    queues = QueueMetrics("kai_", lambda: now_s[0])
    registry = CollectorRegistry()
    registry.register(queues)
    queues.show_pending(Cluster.of([Queue("team"), *groups]), waiting(*states))
    assert b'kai_longest_first_start_wait_seconds{queue="team"} 80.0' in generate_latest(registry)
    now_s[0] = 230.0
    assert b'kai_longest_first_start_wait_seconds{queue="team"} 110.0' in generate_latest(registry)
    queues.show_pending(Cluster.of([Queue("team"), *groups]), waiting(states[0]))
    assert b"kai_longest_first_start_wait_seconds{" not in generate_latest(registry)


def test_queues_that_do_not_exist_share_one_series() -> None:
    metrics = Metrics()
    states = [waits(f"g{number}", f"invented-{number}", "QueueDoesNotExist") for number in range(50)]
    metrics.show_pending(Cluster.of([]), waiting(*states))
    assert values(metrics, "kai_pending_podgroups") == {(("queue", ""), ("reason", "QueueDoesNotExist")): 50.0}


def test_first_starts_are_a_histogram_by_queue_that_goes_with_the_queue() -> None:
    metrics = Metrics()
    metrics.observe_first_start("team", 3.0)
    metrics.observe_first_start("team", 90_000.0)
    metrics.observe_first_start("other", -1.0)
    name = "kai_podgroup_first_start_wait_seconds"
    assert values(metrics, f"{name}_count") == {(("queue", "other"),): 1.0, (("queue", "team"),): 2.0}
    assert values(metrics, f"{name}_sum") == {(("queue", "other"),): 0.0, (("queue", "team"),): 90_003.0}
    found = {
        dict(each)["le"]: value for each, value in values(metrics, f"{name}_bucket").items() if "team" in str(each)
    }
    assert (found["2.0"], found["5.0"], found["86400.0"], found["259200.0"]) == (0.0, 1.0, 1.0, 2.0)
    assert len(found) == len(WAIT_BUCKETS_S) + 1
    metrics.show_pending(Cluster.of([Queue("team")]), NOTHING)
    assert values(metrics, f"{name}_count") == {(("queue", "team"),): 2.0}


def test_the_series_of_first_starts_are_bounded() -> None:
    metrics = Metrics()
    for number in range(QUEUES_MAX + 10):
        metrics.observe_first_start(f"queue-{number}", 1.0)
    found = values(metrics, "kai_podgroup_first_start_wait_seconds_count")
    assert len(found) == QUEUES_MAX + 1
    assert found[("queue", OTHERS),] == 10.0
