"""For each alert: series with which it fires, with which labels, and series with which it must not; promtool evaluates
them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.monitoring_files import ALERTS

JOB = {"namespace": "kai-scheduler", "job": "kai"}
ONE = {**JOB, "instance": "one"}
QUEUE = {**ONE, "queue_name": "team", "queue_metadata_name": "team", "queue_display_name": ""}
MINUTES = 120

Labels = dict[str, str]


@dataclass(frozen=True)
class AlertCase:
    """Series by their text, with a value for each minute in promtool's notation, and the labels with which the alert
    fires after ``minute``; None: it does not fire.
    """

    alert: str
    fires: Labels | None
    series: dict[str, str]
    minute: int = 90
    severity: str = field(default="warning")

    def as_test(self) -> dict[str, Any]:
        """The case as promtool reads it."""
        labels = {"alertname": self.alert, "alertstate": "firing", "severity": self.severity, **(self.fires or {})}
        expected = [] if self.fires is None else [{"labels": _series("ALERTS", labels), "value": 1}]
        query = f'ALERTS{{alertname="{self.alert}",alertstate="firing"}}'
        return {
            "name": f"{self.alert} {'fires' if expected else 'does not fire'}",
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in self.series.items()],
            "promql_expr_test": [{"expr": query, "eval_time": f"{self.minute}m", "exp_samples": expected}],
        }


def _series(name: str, labels: Labels) -> str:
    pairs = [f'{key}="{value}"' for key, value in labels.items()]
    return f"{name}{{{','.join(pairs)}}}"


def _one(name: str, **more: str) -> str:
    return _series(name, ONE | more)


def _both(
    alert: str, labels: Labels, fires: dict[str, str], silent: dict[str, str], severity: str = "warning"
) -> list[AlertCase]:
    """Series with which the alert fires, and others with which it does not."""
    return [AlertCase(alert, labels, fires, severity=severity), AlertCase(alert, None, silent, severity=severity)]


def _still(value: float) -> str:
    return f"{value:g}x{MINUTES}"


def _growing(step: float) -> str:
    return f"0+{step:g}x{MINUTES}"


def _queue(**values: float) -> dict[str, str]:
    return {_series(f"kai_queue_{name}_gpus", QUEUE): _still(value) for name, value in values.items()}


def _cycles(last_good: str, running: float, failures: float, leads: float = 1) -> dict[str, str]:
    return {
        _one("kai_last_successful_cycle_timestamp_seconds"): last_good,
        _one("kai_cycle_running_seconds"): _still(running),
        _one("kai_cycle_failures_total"): _growing(failures),
        _one("kai_leader"): _still(leads),
    }


def _waiting_binds(values: str) -> dict[str, str]:
    return {_one("kai_waiting", what="binds"): values, _one("kai_waiting", what="events"): _still(5000)}


def _callbacks(long_ones: float) -> dict[str, str]:
    return {
        _one("kai_event_loop_callback_cpu_seconds_count"): _growing(1000),
        _one("kai_event_loop_callback_cpu_seconds_bucket", le="0.5"): _growing(1000 - long_ones),
    }


def _memory(used: float, limit: str) -> dict[str, str]:
    return {_one("process_resident_memory_bytes"): _still(used), _one("kai_memory_limit_bytes"): limit}


# promtool's clock begins at 0, so 5400 is minute 90.
DAY = 86_400
REFUSED = {"verb": "POST", "resource": "pods/binding", "code": "403"}

CASES = [
    *_both("KaiSchedulerAbsent", {}, {"up": "1x120"}, {_one("kai_leader"): _still(0)}, "critical"),
    *_both(
        "KaiSchedulerNoLeader",
        JOB,
        {_one("kai_leader"): _still(0)},
        {_one("kai_leader"): _still(0), _series("kai_leader", {**JOB, "instance": "two"}): _still(1)},
        "critical",
    ),
    *_both(
        "KaiSchedulerSeveralLeaders",
        JOB,
        {_one("kai_leader"): _still(1), _series("kai_leader", {**JOB, "instance": "two"}): _still(1)},
        # Two shards, each with a leader.
        {_one("kai_leader"): _still(1), _series("kai_leader", {**ONE, "job": "other"}): _still(1)},
        "critical",
    ),
    *_both(
        "KaiSchedulerNotReady",
        {**ONE, "check": "nodes"},
        {_one("kai_ready", check="nodes"): _still(0)},
        {_one("kai_ready", check="nodes"): _still(1), _one("kai_ready", check="lease"): "0x5 1x120"},
    ),
    *_both(
        "KaiSchedulerWebhooksNotServed",
        JOB,
        {_one("kai_ready", check="webhooks"): _still(0)},
        {
            _one("kai_ready", check="webhooks"): _still(0),
            _series("kai_ready", {**JOB, "instance": "two", "check": "webhooks"}): _still(1),
        },
        "critical",
    ),
    *_both(
        "KaiSchedulerCertificateEnds",
        ONE,
        {_one("kai_webhook_certificate_end_timestamp_seconds"): _still(20 * DAY)},
        {
            _one("kai_webhook_certificate_end_timestamp_seconds"): _still(100 * DAY),
            _series("kai_webhook_certificate_end_timestamp_seconds", {**JOB, "instance": "no webhooks"}): _still(0),
        },
    ),
    *_both("KaiSchedulerNoCycle", ONE, _cycles(_still(60), 30, 0), _cycles("0+60x120", 30, 0), "critical"),
    AlertCase("KaiSchedulerNoCycle", ONE, _cycles(_still(60), 0, 2), severity="critical"),
    # Nothing changes, so that no cycle is due; a standby whose last cycle is long ago.
    AlertCase("KaiSchedulerNoCycle", None, _cycles(_still(60), 0, 0), severity="critical"),
    AlertCase("KaiSchedulerNoCycle", None, _cycles(_still(60), 30, 0, leads=0), severity="critical"),
    *_both(
        "KaiSchedulerCyclesFail",
        ONE,
        {_one("kai_cycle_failures_total"): _growing(1)},
        {_one("kai_cycle_failures_total"): "0x85 3x35"},
    ),
    *_both(
        "KaiSchedulerCycleLasts",
        ONE,
        {_one("kai_cycle_running_seconds"): _still(20)},
        {_one("kai_cycle_running_seconds"): "0 20 0 15" + " 0 3" * 60},
    ),
    *_both(
        "KaiSchedulerCyclesSlow",
        ONE,
        {_one("kai_e2e_scheduling_latency_milliseconds"): _still(2500)},
        {_one("kai_e2e_scheduling_latency_milliseconds"): "20x88 9000 20x30"},
    ),
    *_both(
        "KaiSchedulerObjectsLeftOut",
        {**ONE, "kind": "Pod"},
        {_one("kai_quarantined_objects", kind="Pod"): _still(1)},
        {_one("kai_quarantined_objects", kind="Pod"): "1x50 0x70"},
    ),
    *_both(
        "KaiSchedulerFaults",
        {**ONE, "part": "intake"},
        {_one("kai_faults_total", part="intake"): "_x85 1x40"},
        {_one("kai_faults_total", part="intake"): "1x60 2x60"},
    ),
    *_both(
        "KaiSchedulerBindsWait", {**ONE, "what": "binds"}, _waiting_binds(_still(200)), _waiting_binds("900 0" * 60)
    ),
    *_both(
        "KaiSchedulerBindsFail",
        {**JOB, "reason": "Forbidden"},
        {_one("kai_bind_failures_total", reason="Forbidden"): _growing(1)},
        {
            _one("kai_bind_failures_total", reason="Obsolete"): _growing(10),
            _one("kai_bind_failures_total", reason="Forbidden"): "0x85 5x40",
        },
    ),
    *_both(
        "KaiSchedulerRequestsFail",
        JOB | REFUSED,
        {_one("kai_api_request_errors_total", **REFUSED): _growing(30)},
        {
            _one("kai_api_request_errors_total", **REFUSED): _growing(1),
            _one("kai_api_request_errors_total", **(REFUSED | {"code": "409"})): _growing(100),
        },
    ),
    *_both(
        "KaiSchedulerWatchesRestart",
        {**ONE, "resource": "pods"},
        {_one("kai_watch_restarts_total", resource="pods"): _growing(2)},
        {_one("kai_watch_restarts_total", resource="pods"): _growing(0.2)},
    ),
    *_both(
        "KaiSchedulerWritesLost",
        {**ONE, "why": "queue full"},
        {_one("kai_lost_writes_total", why="queue full"): _growing(10)},
        {_one("kai_lost_writes_total", why="queue full"): _growing(1)},
    ),
    *_both(
        "KaiSchedulerRecordingsFail",
        ONE,
        {_one("kai_recording_failures_total"): "0x80 1x40"},
        {_one("kai_recording_failures_total"): "0x10 1x110"},
    ),
    *_both("KaiSchedulerMemoryNearLimit", ONE, _memory(95e6, _still(100e6)), _memory(50e6, _still(100e6))),
    AlertCase("KaiSchedulerMemoryNearLimit", None, _memory(95e6, " ".join(["Inf"] * MINUTES))),
    *_both("KaiSchedulerEventLoopHeld", ONE, _callbacks(1), _callbacks(0.1)),
    *_both("KaiQueueOverLimit", QUEUE, _queue(allocated=9, limit=8), _queue(allocated=9, limit=-1)),
    AlertCase("KaiQueueOverLimit", None, _queue(allocated=8, limit=8)),
    *_both(
        "KaiQueueStarved",
        QUEUE,
        _queue(deserved=8, allocated=2, requested=10),
        _queue(deserved=8, allocated=2, requested=2),
    ),
    # It asks for more than its quota, which it has; its quota is not limited.
    AlertCase("KaiQueueStarved", None, _queue(deserved=8, allocated=8, requested=10)),
    AlertCase("KaiQueueStarved", None, _queue(deserved=-1, allocated=2, requested=10)),
    *_both(
        "KaiPodGroupsWaitLong",
        {**ONE, "queue": "team"},
        {_one("kai_longest_first_start_wait_seconds", queue="team"): _still(100_000)},
        {_one("kai_longest_first_start_wait_seconds", queue="team"): _still(3600)},
        "info",
    ),
    *_both(
        "KaiQueueDoesNotExist",
        JOB,
        {_one("kai_pending_podgroups", queue="", reason="QueueDoesNotExist"): _still(2)},
        {_one("kai_pending_podgroups", queue="team", reason="OverLimit"): _still(2)},
        "info",
    ),
    *_both(
        "KaiManyEvictions",
        {**JOB, "action": "reclaim"},
        {
            _one("kai_evictions_total", action="reclaim", reason="OverQuota"): _growing(15),
            _one("kai_evictions_total", action="reclaim", reason="Moved"): _growing(15),
        },
        {_one("kai_evictions_total", action="reclaim", reason="OverQuota"): _growing(10)},
    ),
]


def promtool_tests(folder: Path) -> list[Path]:
    """The files that `promtool test rules` reads, made in the folder: one for each group of alerts, as each case is
    evaluated with all rules of its file.
    """
    made = []
    for number, group in enumerate(yaml.safe_load(ALERTS.read_text())["groups"]):
        (folder / f"rules-{number}.yaml").write_text(yaml.safe_dump({"groups": [group]}))
        names = {rule["alert"] for rule in group["rules"]}
        tests = [case.as_test() for case in CASES if case.alert in names]
        content = {"rule_files": [f"rules-{number}.yaml"], "evaluation_interval": "1m", "tests": tests}
        made.append(folder / f"tests-{number}.yaml")
        made[-1].write_text(yaml.safe_dump(content))
    return made
