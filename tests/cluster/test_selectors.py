"""Selectors of devices that harm whoever evaluates them, on a real API server: nobody else waits for them."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from kai_sched.api import names
from tests.cluster import claims, objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import SYSTEM_NAMESPACE, StartOperator
from tests.cluster.processes import wait_until
from tests.unit.selectors.commands import SLOW

RATE = 200  # pods a second
SECONDS = 10


def selecting(name: str, expression: str) -> Object:
    """A claim for one device that the expression selects."""
    content = claims.claim(name)
    exactly: dict[str, Any] = content["spec"]["devices"]["requests"][0]["exactly"]
    exactly["selectors"] = [{"cel": {"expression": expression}}]
    return content


def bound_after_s(pod: Object) -> float:
    """How long it waited for its node, in whole seconds, as the API server notes times."""
    (bound,) = (each for each in pod["status"]["conditions"] if each["type"] == names.POD_SCHEDULED)
    times = (bound["lastTransitionTime"], pod["metadata"]["creationTimestamp"])
    after, before = map(datetime.fromisoformat, times)
    return (after - before).total_seconds()


def prepare(cluster: Cluster) -> None:
    cluster.add_queues("team")
    cluster.create(claims.device_class())
    for name in cluster.add_nodes(20, gpus=0):
        cluster.create(claims.resource_slice(name))


@pytest.mark.alone
def test_a_selector_that_takes_hours_stops_neither_lease_nor_pages_nor_binds(
    cluster: Cluster, operator: StartOperator
) -> None:
    """While 200 pods a second come; the pod with the selector is told, and so is one that divides by zero."""
    prepare(cluster)
    one = operator()
    wait_until(lambda: one.logs("lease.held"), "the lease")
    for name, expression in (("slow", SLOW), ("zero", "1/0 == 1"), ("good", "true")):
        cluster.create(selecting(name, expression))
        cluster.create(claims.pod(name, name))
    slowest_s, oldest_s, started, made = 0.0, 0.0, time.monotonic(), 0
    while (passed_s := time.monotonic() - started) < SECONDS:
        due = min(int(passed_s * RATE), made + RATE // 4)
        cluster.create_all(objects.pod(f"p-{n}", gpus=0) for n in range(made, due))
        made = due
        before = time.monotonic()
        assert one.get("/healthz", timeout_s=5.0) == (200, "ok\n")
        slowest_s = max(slowest_s, time.monotonic() - before)
        lease = cluster.get("Lease", "kai-scheduler", SYSTEM_NAMESPACE)["spec"]
        oldest_s = max(oldest_s, (datetime.now(UTC) - datetime.fromisoformat(lease["renewTime"])).total_seconds())
    cluster.wait_bound([*(f"p-{n}" for n in range(made)), "good"], timeout_s=60.0)
    waited_s = max(bound_after_s(each) for each in cluster.list("Pod") if each["spec"].get("nodeName"))
    print(f"{made} pods bound in {waited_s:.0f} s; /healthz {slowest_s:.2f} s, lease {oldest_s:.1f} s old at most")
    assert made > SECONDS * RATE / 4
    assert waited_s <= 5.0
    assert slowest_s < 1.0
    assert oldest_s < 6.0
    assert one.logs("lease.lost") == one.logs("cycle.failed") == []
    for name, text in (("slow", "could not be evaluated"), ("zero", "division by zero")):
        wait_until(
            lambda name=name, text=text: (
                text in cluster.wait_condition("Pod", name, "PodScheduled", status="False")["message"]
            ),
            f"{name} being told",
            timeout_s=90.0,  # that it was being evaluated may have been told before; new words have to wait
        )


def test_a_cold_start_with_a_selector_that_fails_binds_everybody_else(
    cluster: Cluster, operator: StartOperator
) -> None:
    prepare(cluster)
    for n, expression in enumerate(["1/0 == 1", "9223372036854775807 + 1 == 1", "[1][5] == 1", SLOW]):
        cluster.create(selecting(f"c-{n}", expression))
        cluster.create(claims.pod(f"bad-{n}", f"c-{n}"))
    cluster.create(claims.device_class("broken", selectors=[{"cel": {"expression": "1/0 == 1"}}]))
    cluster.create_all(objects.pod(f"p-{n}", gpus=0) for n in range(20))
    cluster.create(selecting("good", f"device.driver == '{claims.DRIVER}'"))
    cluster.create(claims.pod("good", "good"))
    one = operator()
    wait_until(lambda: one.logs("lease.held"), "the lease")
    began = time.monotonic()
    cluster.wait_bound([*(f"p-{n}" for n in range(20)), "good"], timeout_s=30.0)
    print(f"all others bound {time.monotonic() - began:.1f} s after the lease")
    assert one.logs("cycle.failed") == []
