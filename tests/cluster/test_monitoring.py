"""Alerts and boards as the real Prometheus has them: promtool evaluates the alerts on series that are written down, a
Prometheus scrapes a scheduler that works, and every expression is evaluated on that.
"""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3

from kai_sched.operator.http.authority import service_name
from kai_sched.operator.http.certificate import SECRET, SERVICE
from tests.cluster import components, objects
from tests.cluster.alert_cases import promtool_tests
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import SYSTEM_NAMESPACE, StartOperator
from tests.cluster.control_plane import ControlPlane
from tests.cluster.operator_process import Operator
from tests.cluster.processes import wait_until
from tests.cluster.prometheus import Prometheus
from tests.cluster.test_page import account
from tests.monitoring_files import ALERTS, Expression, alert_expressions, alerts, board_expressions
from tests.tree import ROOT

TOOLS = ("prometheus",)
# Panels that have nothing to show where nothing fails and nobody has to go.
EMPTY = {
    "api-server: Binds that were given up A",
    "api-server: Statuses and events that were lost A",
    "api-server: Checks of readiness that fail A",
    "decisions: Objects that cycles leave out A",
    "process: Memory B",  # there may be no limit
    "process: Unexpected exceptions A",
    "api-server: Watches that were started again A",
    "api-server: Requests that failed A",
}


def promtool(*arguments: str | Path) -> None:
    done = subprocess.run(
        [components.program("prometheus", "promtool"), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_takes_the_rules() -> None:
    promtool("check", "rules", "--lint=all", "--lint-fatal", ALERTS)


def test_each_alert_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    promtool("test", "rules", *promtool_tests(tmp_path))


@pytest.fixture
def scraped(live: Cluster, shared_operator: Operator, tmp_path: Path) -> Iterator[Prometheus]:
    """A Prometheus beside a scheduler that has started gangs, evicted a pod, and has others waiting."""
    prometheus = Prometheus(tmp_path, f"127.0.0.1:{shared_operator.port}")
    try:
        live.kubectl("apply", "--server-side", "-f", str(ROOT / "manifests/priority-classes.yaml"))
        live.add_nodes(1, gpus=4)
        live.add_queues("team", quota=4, limit=4)
        prometheus.wait_scraped()
        live.create_all(objects.gang("first", 2, priorityClassName="train"))
        live.create_all(objects.gang("second", 2, priorityClassName="train"))
        live.wait_bound(["first-0", "first-1", "second-0", "second-1"])
        # The first scrape of each counter is where its increase begins.
        prometheus.value("sum(kai_task_bind_latency_milliseconds_count) >= 4")
        live.create_all(objects.gang("urgent", 2, priorityClassName="inference"))
        live.wait_bound(["urgent-0", "urgent-1"])
        live.create_all(objects.gang("waits", 4, priorityClassName="train"))
        prometheus.value('sum(kai_pending_podgroups{queue="team"}) >= 1')
        prometheus.value('kai_podgroup_first_start_wait_seconds_count{queue="team"} == 3')
        yield prometheus
    finally:
        prometheus.process.end()


def _without_data(prometheus: Prometheus, expressions: list[Expression]) -> set[str]:
    return {each.place for each in expressions if not prometheus.query(each.text)}


def test_boards_and_alerts_work_on_a_scheduler(scraped: Prometheus, shared_operator: Operator) -> None:
    """In one test: a scheduler has to have worked for all of it."""
    expressions = [*board_expressions()]
    wait_until(lambda: _without_data(scraped, expressions) <= EMPTY, "every panel having data", 60.0)
    exported = {line.split()[2] for line in shared_operator.get("/metrics")[1].splitlines() if line[:7] == "# TYPE "}
    used = {name for each in [*alert_expressions(), *expressions] for name in each.metrics}
    assert used - exported == set()

    def evaluated() -> set[str]:
        rules = [rule for group in scraped.get("rules")["groups"] for rule in group["rules"]]
        assert [(rule["name"], rule["lastError"]) for rule in rules if rule.get("lastError")] == []
        assert {rule["health"] for rule in rules} == {"ok"}
        return {rule["name"] for rule in rules}

    assert wait_until(evaluated, "all rules being evaluated") == {rule["alert"] for rule in alerts()}
    firing = {each["labels"]["alertname"] for each in scraped.get("alerts")["alerts"] if each["state"] == "firing"}
    assert firing == set()
    # What an operator reads off the boards, once as numbers.
    assert scraped.value('kai_queue_limit_gpus{queue_metadata_name="team"}') == 4
    assert scraped.value('kai_queue_requested_gpus{queue_metadata_name="team"}') >= 6
    assert scraped.value('sum(kai_evictions_total{action="preempt", reason="Priority"})') == 2
    assert scraped.value("kai_leader") == 1
    days = "(kai_webhook_certificate_end_timestamp_seconds - time()) / 86400"
    assert 360 < scraped.value(days) < 366


def test_metrics_that_ask_for_a_token_are_scraped_over_tls(
    cluster: Cluster, own_plane: ControlPlane, system_namespace: str, operator: StartOperator, tmp_path: Path
) -> None:
    """With the rights of the manifests and of the component, and no others."""
    assert system_namespace == SYSTEM_NAMESPACE
    for path in ("rbac.yaml", "components/authenticated-metrics/rbac.yaml"):
        cluster.kubectl("apply", "-f", str(ROOT / "manifests" / path))
    login = own_plane.kubeconfig("metrics", token=own_plane.service_account_token(SYSTEM_NAMESPACE, "scheduler"))
    reader, nobody = account(cluster, own_plane, "reader"), account(cluster, own_plane, "nobody")
    role = "kai-scheduler-metrics-reader"
    cluster.kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", "--serviceaccount=default:reader")
    replica = operator("--authenticated-metrics", kubeconfig=login, webhooks=True)

    def status(token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"http://127.0.0.1:{replica.port}/metrics"
        return urllib3.request("GET", url, headers=headers, retries=False).status

    assert [status(token) for token in ("", "nonsense", nobody, reader)] == [401, 401, 403, 200]
    secret = cluster.get("Secret", SECRET, SYSTEM_NAMESPACE)
    (tmp_path / "ca.crt").write_bytes(base64.b64decode(secret["data"]["ca.crt"]))
    tls = {"ca_file": str(tmp_path / "ca.crt"), "server_name": service_name(SERVICE, SYSTEM_NAMESPACE)}
    target = f"127.0.0.1:{replica.webhook_port}"
    scrape = {"scheme": "https", "authorization": {"credentials": reader}, "tls_config": tls}
    prometheus = Prometheus(tmp_path, target, **scrape)
    try:
        prometheus.wait_scraped()
        assert prometheus.value("count(kai_leader)") == 1
    finally:
        prometheus.process.end()
