"""Objects that cycles cannot be decided with, and cycles that do not end, on a real API server: others are served."""

from __future__ import annotations

import json
import time

import pytest

from kai_sched.api import names
from tests.cluster import claims, objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.processes import wait_until

MANY = 1000
OTHERS = 100
SERVED_S = 5.0
TOLD_S = 15.0
FAILING = "1 / 0 == 1"


def selecting(name: str, expression: str, namespace: str = "default") -> Object:
    """A claim for a device that the expression selects."""
    content = claims.claim(name)
    content["metadata"]["namespace"] = namespace
    content["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": expression}}]
    return content


def prepare(cluster: Cluster) -> None:
    cluster.add_queues("team")
    cluster.add_namespace("evil")
    cluster.create(claims.device_class())
    for name in cluster.add_nodes(4):
        cluster.create(claims.resource_slice(name, 2))


def test_a_thousand_claims_that_fail_are_there_before_the_start(cluster: Cluster, operator: StartOperator) -> None:
    prepare(cluster)
    cluster.create_all([selecting(f"bad-{n}", FAILING, "evil") for n in range(MANY)])
    cluster.create_all([claims.pod(f"bad-{n}", f"bad-{n}", namespace="evil") for n in range(MANY)])
    cluster.create(selecting("good", f"device.driver == '{claims.DRIVER}'"))
    cluster.create(claims.pod("good", "good"))
    others = [f"other-{n}" for n in range(OTHERS)]
    cluster.create_all([objects.pod(name, gpus=0) for name in others])
    one = operator()
    wait_until(lambda: one.logs("lease.held"), "the lease", 30.0)
    started = time.monotonic()
    cluster.wait_bound([*others, "good"], timeout_s=60.0)
    served_s = time.monotonic() - started
    assert cluster.bound("evil") == {}
    condition = cluster.wait_condition("Pod", "bad-7", names.POD_SCHEDULED, "evil", status="False")
    assert "bad-7" in condition["message"]
    cluster.create(objects.pod("late", gpus=0))
    cluster.wait_bound(["late"], timeout_s=SERVED_S)
    warm_s = max(each["ms"] for each in one.logs("cycle.done")[-3:]) / 1e3
    print(f"others bound {served_s:.2f} s after the lease; warm cycles took {warm_s:.2f} s at most")
    assert served_s < SERVED_S
    assert warm_s < 1.0
    assert one.logs("cycle.failed") == []
    assert one.get("/readyz/scheduling")[0] == 200


def test_a_class_that_fails_for_its_devices_is_unusable_and_nothing_else(
    cluster: Cluster, operator: StartOperator
) -> None:
    prepare(cluster)
    cluster.create(claims.device_class("gpu-broken", selectors=[{"cel": {"expression": FAILING}}]))
    content = claims.claim("of-broken")
    content["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "gpu-broken"
    cluster.create_all([content, claims.pod("of-broken", "of-broken")])
    cluster.create_all([claims.claim("good"), claims.pod("good", "good"), objects.pod("plain", gpus=0)])
    operator()
    cluster.wait_bound(["good", "plain"], timeout_s=30.0)
    condition = cluster.wait_condition("Pod", "of-broken", names.POD_SCHEDULED, status="False")
    assert "gpu-broken" in condition["message"]
    assert "of-broken" not in cluster.bound()


@pytest.mark.alone
def test_a_cycle_that_does_not_end_is_told_and_another_replica_leads(cluster: Cluster, operator: StartOperator) -> None:
    cluster.add_queues("team")
    cluster.add_nodes(1)
    one = operator("--cycle-timeout", "25", entry=("tests.cluster.altered", "busy", "3600"))
    wait_until(lambda: one.logs("lease.held"), "the lease", 30.0)
    cluster.create(objects.pod("before"))
    cluster.wait_bound(["before"])
    standby = operator()
    cluster.create(objects.pod("slow"))
    started = time.monotonic()
    wait_until(lambda: one.get("/readyz/scheduling")[0] == 503, "readiness telling it", TOLD_S)
    checks = json.loads(one.get("/readyz/scheduling")[1])["checks"]
    assert checks["cycle"].startswith("a cycle has been running for 1")
    assert one.get("/healthz") == (200, "ok\n"), "it may still end"
    assert one.metrics()["kai_cycle_running_seconds", ()] > 10.0
    assert one.metrics()["kai_ready", (("check", "cycle"),)] == 0.0
    wait_until(lambda: one.logs("cycle.late"), "the log telling it", TOLD_S)
    assert time.monotonic() - started < TOLD_S
    wait_until(lambda: standby.logs("lease.held"), "another replica leading", 60.0)
    assert cluster.wait_bound(["slow"], timeout_s=20.0)
    assert one.process.wait(90.0) == 1
    assert [line["problem"][:30] for line in one.logs("cycle.lasts")] == ["a cycle has been running for 2"]
