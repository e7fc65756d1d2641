"""Metrics: the names of API 9.1 and 9.2, what they say, and that nothing is left behind."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kai_sched.model.objects import Pod, PodGroup, Queue, Shape, Share
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Bind, Effect, Evict, Pipeline
from kai_sched.plan.reasons import Reason
from kai_sched.plan.result import CycleResult, GroupState, QueueState
from kai_sched.telemetry.metrics import CycleTimes, Metrics
from kai_sched.telemetry.series import SERIES_MAX, Series
from kai_sched.telemetry.unexpected import FaultLog

TIMES = CycleTimes(whole_s=0.25, open_s=0.1, actions_s={"allocate": 0.0125}, close_s=0.05)

# API 9.1 and 9.2, as far as this version has something to say.
CONTRACT = {
    "kai_e2e_scheduling_latency_milliseconds": "gauge",
    "kai_open_session_latency_milliseconds": "gauge",
    "kai_close_session_latency_milliseconds": "gauge",
    "kai_action_scheduling_latency_milliseconds": "gauge",
    "kai_task_scheduling_latency_milliseconds": "histogram",
    "kai_task_bind_latency_milliseconds": "histogram",
    "kai_podgroups_scheduled_by_action": "counter",
    "kai_podgroups_acted_on_by_action": "counter",
    "kai_scenarios_simulation_by_action": "counter",
    "kai_scenario_search_jobs_total": "counter",
    "kai_scenario_search_action_budget_exhausted_total": "counter",
    "kai_usage_query_latency_milliseconds": "histogram",
    "kai_total_preemption_attempts": "counter",
    "kai_pod_group_evicted_pods_total": "counter",
    "kai_queue_fair_share_cpu_cores": "gauge",
    "kai_queue_fair_share_memory_gb": "gauge",
    "kai_queue_fair_share_gpu": "gauge",
    "kai_queue_info": "gauge",
    "kai_queue_deserved_gpus": "gauge",
    "kai_queue_quota_cpu_cores": "gauge",
    "kai_queue_quota_memory_bytes": "gauge",
    "kai_queue_allocated_gpus": "gauge",
    "kai_queue_allocated_cpu_cores": "gauge",
    "kai_queue_allocated_memory_bytes": "gauge",
    "kai_queue_cpu_usage": "gauge",
    "kai_queue_memory_usage": "gauge",
    "kai_queue_gpu_usage": "gauge",
}
# Ours, in docs/metrics.md.
OURS = {
    "kai_api_request_errors_total": "counter",
    "kai_lost_writes_total": "counter",
    "kai_faults_total": "counter",
    "kai_watch_restarts_total": "counter",
    "kai_pending_pods": "gauge",
    "kai_pending_podgroups": "gauge",
    "kai_queue_requested_gpus": "gauge",
    "kai_queue_requested_cpu_cores": "gauge",
    "kai_queue_requested_memory_bytes": "gauge",
    "kai_queue_limit_gpus": "gauge",
    "kai_queue_limit_cpu_cores": "gauge",
    "kai_queue_limit_memory_bytes": "gauge",
    "kai_longest_first_start_wait_seconds": "gauge",
    "kai_podgroup_first_start_wait_seconds": "histogram",
    "kai_evictions_total": "counter",
    "kai_bind_failures_total": "counter",
    "kai_recording_failures_total": "counter",
    "kai_webhook_certificate_end_timestamp_seconds": "gauge",
    "kai_memory_limit_bytes": "gauge",
    "kai_build_info": "gauge",
    "kai_waiting": "gauge",
    "kai_cycle_failures_total": "counter",
    "kai_cycle_running_seconds": "gauge",
    "kai_last_successful_cycle_timestamp_seconds": "gauge",
    "kai_quarantined_objects": "gauge",
    "kai_leader": "gauge",
    "kai_ready": "gauge",
}


def types(text: str) -> dict[str, str]:
    heads = (line.split() for line in text.splitlines() if line.startswith("# TYPE "))
    return {name: kind for _, _, name, kind in heads}


def values(metrics: Metrics, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """Each series of that name by its labels."""
    families = text_string_to_metric_families(metrics.render().decode())
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return {tuple(sorted(sample.labels.items())): sample.value for sample in samples}


def state(name: str, fair: tuple[float, float, float], allocated: tuple[float, float, float]) -> QueueState:
    unlimited = (math.inf, math.inf, math.inf)
    return QueueState(name, "", 0, 100, unlimited, unlimited, fair, allocated, (0.0, 0.0, 0.0), allocated)


def result(effects: tuple[Effect, ...] = (), queues: tuple[QueueState, ...] = ()) -> CycleResult:
    return CycleResult(effects, (), {}, {}, queues, {}, 0.0)


def labels(name: str, shown: str | None = None, display: str = "") -> tuple[tuple[str, str], ...]:
    return (
        ("queue_display_name", display),
        ("queue_metadata_name", name),
        ("queue_name", name if shown is None else shown),
    )


def test_names_and_types_are_those_of_the_contract() -> None:
    text = Metrics().render().decode()
    ours = {name: kind for name, kind in types(text).items() if name.startswith("kai_")}
    assert ours == CONTRACT | OURS
    assert {"process_resident_memory_bytes", "process_cpu_seconds_total", "python_info"} <= types(text).keys()


def test_the_prefix_is_the_namespace() -> None:
    assert "team_queue_info" in types(Metrics("team").render().decode())
    assert "queue_info" in types(Metrics("").render().decode())


def test_two_of_them_do_not_meet() -> None:
    first, second = Metrics(), Metrics()
    first.observe_cycle(Cluster.of([]), result(), TIMES)
    assert values(first, "kai_e2e_scheduling_latency_milliseconds") == {(): 250.0}
    assert values(second, "kai_e2e_scheduling_latency_milliseconds") == {(): 0.0}


def test_a_cycle_is_measured_in_milliseconds() -> None:
    metrics = Metrics()
    metrics.observe_cycle(Cluster.of([]), result(), TIMES)
    assert values(metrics, "kai_open_session_latency_milliseconds") == {(): 100.0}
    assert values(metrics, "kai_close_session_latency_milliseconds") == {(): 50.0}
    assert values(metrics, "kai_action_scheduling_latency_milliseconds") == {(("action", "allocate"),): 12.5}


def test_failing_cycles_and_what_is_left_out_are_counted() -> None:
    metrics = Metrics()
    assert values(metrics, "kai_cycle_failures_total") == {(): 0.0}
    metrics.observe_failure()
    metrics.observe_success(1234.5)
    metrics.watch_cycle(lambda: 12.5)
    assert values(metrics, "kai_cycle_running_seconds") == {(): 12.5}
    metrics.observe_left_out({"Pod": 2, "Node": 1})
    metrics.observe_left_out({"Node": 1})
    assert values(metrics, "kai_cycle_failures_total") == {(): 1.0}
    assert values(metrics, "kai_last_successful_cycle_timestamp_seconds") == {(): 1234.5}
    assert values(metrics, "kai_quarantined_objects") == {(("kind", "Node"),): 1.0, (("kind", "Pod"),): 0.0}


def test_groups_are_counted_not_pods() -> None:
    """Two pods of one group and one without a group: two groups. What only has room in view is not scheduled."""
    pods = [
        Pod("ml", name, Shape(), group=group) for name, group in (("a-0", "a"), ("a-1", "a"), ("b", ""), ("c", "c"))
    ]
    effects = (*(Bind(f"ml/{name}", "", "node-1") for name in ("a-0", "a-1", "b")), Pipeline("ml/c", "", "node-1"))
    metrics = Metrics()
    for _ in range(2):
        metrics.count_cycle(Cluster.of(pods), result(effects))
    # As text, for this client's parser appends "_total" too.
    assert 'kai_podgroups_scheduled_by_action{action="allocate"} 4\n' in metrics.render().decode()


def evict(name: str, action: str, cause: str, group: str = "ml/train") -> Evict:
    return Evict(f"ml/{name}", name, "node-1", action, cause, group, (("gpu", 1.0),), "", False, ())


def test_groups_for_which_room_is_made_are_counted() -> None:
    effects = (
        evict("a", "preempt", "ml/x"),
        evict("b", "preempt", "ml/x"),
        evict("c", "preempt", "ml/y"),
        evict("d", "reclaim", "ml/z"),
        evict("e", "stalegangeviction", ""),
    )
    metrics = Metrics()
    assert "\nkai_total_preemption_attempts 0\n" in metrics.render().decode()
    metrics.count_cycle(Cluster.of([]), result(effects))
    text = metrics.render().decode()
    counted = [line for line in text.splitlines() if line.startswith("kai_podgroups_scheduled_by_action{")]
    assert sorted(counted) == [
        f'kai_podgroups_scheduled_by_action{{action="{action}"}} {count}'
        for action, count in (("allocate", 0), ("preempt", 2), ("reclaim", 1))
    ]
    assert "\nkai_total_preemption_attempts 2\n" in text


def test_evicted_pods_are_counted_by_group_and_action() -> None:
    group = PodGroup("ml", "train", uid="u", labels={"kai.scheduler/node-pool": "large"})
    metrics = Metrics()
    for name in ("a", "b"):
        metrics.observe_eviction(evict(name, "reclaim", "ml/x"), Cluster.of([group]))
    metrics.observe_eviction(evict("c", "preempt", "ml/x", "pod:ml/c"), Cluster.of([group]))
    found = values(metrics, "kai_pod_group_evicted_pods_total")
    assert {tuple(value for _, value in sorted(labels)): count for labels, count in found.items()} == {
        ("reclaim", "ml", "large", "train", "u"): 2.0,
        ("preempt", "ml", "default", "c", ""): 1.0,
    }


class Time:
    """A clock that tests set."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def evicted_groups(metrics: Metrics) -> list[str]:
    found = values(metrics, "kai_pod_group_evicted_pods_total")
    return sorted(dict(labels)["podgroup"] for labels in found)


def test_the_series_of_a_group_go_some_minutes_after_it_and_the_contract_s_labels_stay() -> None:
    clock = Time()
    metrics = Metrics(clock=clock)
    groups = [PodGroup("ml", name, uid=name) for name in ("stays", "goes", "anew")]
    both = Cluster.of(groups)
    for name in ("stays", "goes", "anew"):
        metrics.observe_eviction(evict("a", "reclaim", "ml/x", f"ml/{name}"), both)
    # The group of that name is another one by now.
    left = Cluster.of([groups[0], PodGroup("ml", "anew", uid="other")])
    for _ in range(5):
        clock.now += 100.0
        metrics.forget_groups(left)
    assert evicted_groups(metrics) == ["anew", "goes", "stays"]
    for _ in range(2):
        clock.now += 100.0
        metrics.forget_groups(left)
    assert evicted_groups(metrics) == ["stays"]
    (labels,) = values(metrics, "kai_pod_group_evicted_pods_total")
    assert [name for name, _ in labels] == ["action", "namespace", "nodepool", "podgroup", "uid"]


def test_many_groups_that_lost_pods_are_bounded_in_number_memory_and_time() -> None:
    metrics, nothing = Metrics(), Cluster.of([])
    for number in range(3 * SERIES_MAX // 2):
        metrics.observe_eviction(evict("a", "reclaim", "ml/x", f"ml/g{number}"), nothing)
    began = time.process_time()
    text = metrics.render()
    assert time.process_time() - began < 0.5  # about 0.03 on an idle machine
    assert text.count(b"kai_pod_group_evicted_pods_total{") == SERIES_MAX
    assert b'podgroup="g0"' not in text
    assert f'podgroup="g{3 * SERIES_MAX // 2 - 1}"'.encode() in text


def test_label_values_are_escaped() -> None:
    series = Series("s", "what", ("a",))
    series.add(('x"\\\n',))
    assert series.render().splitlines()[2] == r's{a="x\"\\\n"} 1'


def test_what_waits_is_shown_by_queue_and_reason() -> None:
    def group(name: str, queue: str, counts: dict[str, int], code: str | None) -> GroupState:
        reason = Reason(code, "because") if code else None
        return GroupState(f"ml/{name}", queue, 50, True, 1, counts, {}, reason)

    groups = [
        group("a", "team-a", {"Pending": 3, "Running": 1}, "OverLimit"),
        group("b", "team-a", {"Pending": 1, "Gated": 1}, "OverLimit"),
        group("c", "team-a", {"Gated": 2}, "NotReady"),
        group("d", "team-b", {"Pipelined": 2}, None),
        group("e", "team-b", {"Running": 2}, None),
    ]
    metrics = Metrics()
    cluster = Cluster.of([Queue("team-a"), Queue("team-b")])
    metrics.show_pending(cluster, replace(result(), groups={each.key: each for each in groups}))

    def shown(name: str) -> dict[tuple[str, str], float]:
        return {(dict(key)["queue"], dict(key)["reason"]): value for key, value in values(metrics, name).items()}

    assert shown("kai_pending_pods") == {
        ("team-a", "NotReady"): 2,
        ("team-a", "OverLimit"): 5,
        ("team-b", "Pipelined"): 2,
    }
    assert shown("kai_pending_podgroups") == {
        ("team-a", "NotReady"): 1,
        ("team-a", "OverLimit"): 2,
        ("team-b", "Pipelined"): 1,
    }


def test_depths_failures_and_restarts_are_shown() -> None:
    metrics = Metrics()
    metrics.watch("binds", lambda: 7)
    metrics.count_failure("PATCH", "pods/status", 409)
    metrics.count_restart("pods")
    metrics.count_lost_write("queue full")
    assert values(metrics, "kai_waiting") == {(("what", "binds"),): 7}
    assert values(metrics, "workqueue_depth") == {(("name", "binds"),): 7}
    failed = (("code", "409"), ("resource", "pods/status"), ("verb", "PATCH"))
    assert values(metrics, "kai_api_request_errors_total") == {failed: 1}
    assert values(metrics, "kai_watch_restarts_total") == {(("resource", "pods"),): 1}
    assert values(metrics, "kai_lost_writes_total") == {(("why", "queue full"),): 1}


def test_faults_are_counted_by_part() -> None:
    faults = FaultLog()
    for part in ("intake", "binder", "intake"):
        faults.note(part, "Pod a/a", ValueError("unexpected"))
    shown = Metrics(faults=faults).render().decode()
    assert 'kai_faults_total{part="binder"} 1.0' in shown
    assert 'kai_faults_total{part="intake"} 2.0' in shown


@pytest.mark.alone
@pytest.mark.slow
def test_it_is_rendered_while_it_changes() -> None:
    metrics, stop = Metrics(), threading.Event()

    def change() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            metrics.observe_eviction(evict("a", "reclaim", "ml/x", f"ml/g{number}"), Cluster.of([]))
            metrics.count_cycle(Cluster.of([]), result((evict("a", f"action-{number}", "ml/x"),)))
            metrics.observe_cycle(Cluster.of([Queue(f"q{number}")]), result(), TIMES)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(20):
            metrics.render()
    finally:
        stop.set()
        thread.join()


def test_queues_have_their_quota_and_shares() -> None:
    none = Share(-1, -1, 1)
    queues = [
        Queue("team-a", display_name='A "team"', cpu=Share(2500), memory=Share(3e9), gpu=Share(1.5)),
        Queue("team-b", cpu=none, memory=none, gpu=none),
    ]
    states = (
        state("team-a", (1500.0, 2.5e9, 16 / 3), (1250.0, 1e9, 1 / 3)),
        state("team-b", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
    )
    metrics = Metrics()
    metrics.observe_cycle(Cluster.of(queues), result(queues=states), TIMES)
    first, second = labels("team-a", display='A "team"'), labels("team-b")
    assert values(metrics, "kai_queue_info") == {first: 1.0, second: 1.0}
    assert values(metrics, "kai_queue_deserved_gpus") == {first: 1.5, second: -1.0}
    assert values(metrics, "kai_queue_quota_cpu_cores") == {first: 2.5, second: -1.0}
    assert values(metrics, "kai_queue_quota_memory_bytes") == {first: 3e9, second: -1.0}
    assert values(metrics, "kai_queue_allocated_gpus") == {first: 0.3333, second: 0.0}
    assert values(metrics, "kai_queue_requested_gpus") == {first: 0.3333, second: 0.0}
    assert values(metrics, "kai_queue_allocated_cpu_cores") == {first: 1.25, second: 0.0}
    assert values(metrics, "kai_queue_allocated_memory_bytes") == {first: 1e9, second: 0.0}
    shown = labels("team-a", 'A "team"', 'A "team"')
    assert values(metrics, "kai_queue_fair_share_cpu_cores") == {shown: 1.5, second: 0.0}
    assert values(metrics, "kai_queue_fair_share_memory_gb") == {shown: 2.5, second: 0.0}
    assert values(metrics, "kai_queue_fair_share_gpu") == {shown: 16 / 3, second: 0.0}


def test_a_queue_that_is_gone_leaves_nothing_behind() -> None:
    metrics = Metrics()
    states = (state("team-a", (0.0, 0.0, 1.0), (0.0, 0.0, 1.0)),)
    metrics.observe_cycle(Cluster.of([Queue("team-a")]), result(queues=states), TIMES)
    metrics.observe_cycle(Cluster.of([]), result(), TIMES)
    assert 'queue_name="' not in metrics.render().decode()


def test_a_queue_that_the_cycle_left_out_has_a_quota_only() -> None:
    metrics = Metrics()
    metrics.observe_cycle(Cluster.of([Queue("orphan", parent="nobody", gpu=Share(2))]), result(), TIMES)
    assert values(metrics, "kai_queue_deserved_gpus") == {labels("orphan"): 2.0}
    assert values(metrics, "kai_queue_fair_share_gpu") == {}


@pytest.mark.parametrize(("created_to_sent_s", "sum_ms"), [(0.012, 12.0), (-3.0, 0.0)])
def test_bindings_are_measured(created_to_sent_s: float, sum_ms: float) -> None:
    metrics = Metrics()
    metrics.observe_binding(created_to_sent_s, 0.004)
    assert values(metrics, "kai_task_scheduling_latency_milliseconds_sum") == {(): sum_ms}
    assert values(metrics, "kai_task_bind_latency_milliseconds_sum") == {(): 4.0}
    bounds = [dict(key)["le"] for key in values(metrics, "kai_task_bind_latency_milliseconds_bucket")]
    assert bounds == [f"{5.0 * 2**k}" for k in range(10)] + ["+Inf"]


def test_no_series_of_the_client_s_own() -> None:
    assert "_created" not in Metrics().render().decode()
