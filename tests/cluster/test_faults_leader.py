"""Who holds the lease acts, and nobody else; whoever led and however it ended, the next one goes on."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest

from tests.cluster import objects
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import SYSTEM_NAMESPACE, StartOperator
from tests.cluster.control_plane import ControlPlane
from tests.cluster.faults import assert_bound_once
from tests.cluster.operator_process import Operator
from tests.cluster.processes import wait_until
from tests.cluster.proxy import Proxy

TAKE_OVER_S = 20.0
GANG = [f"gang-{n}" for n in range(40)]


def wait_leads(operator: Operator) -> None:
    wait_until(lambda: operator.logs("lease.held"), "the lease", 60)


def role(operator: Operator) -> tuple[bool, str]:
    """Whether it says that it leads, on its page and in its metrics, and who it says does."""
    for path in ("/readyz", "/readyz/scheduling"):
        page = json.loads(operator.get(path)[1])
        assert operator.metrics()["kai_leader", ()] == float(page["leader"])
    return page["leader"], page["holder"]


def holder_of(cluster: Cluster) -> str:
    """Who leads, as the lease says."""
    return str(cluster.get("Lease", "kai-scheduler", SYSTEM_NAMESPACE)["spec"]["holderIdentity"])


def make_room(cluster: Cluster) -> None:
    cluster.add_nodes(5)
    cluster.add_queues("team")


@pytest.mark.alone
def test_a_standby_takes_over_from_a_leader_that_was_killed(
    cluster: Cluster, own_plane: ControlPlane, proxy: Proxy, operator: StartOperator
) -> None:
    make_room(cluster)
    leader = operator(proxy=proxy)
    wait_leads(leader)
    standby = operator()
    held = proxy.add("POST", "/pods/gang-3[0-9]/binding", hold=True)
    mark = own_plane.audit.mark()
    cluster.create_all(objects.gang("gang", 40))
    wait_until(lambda: len(cluster.bound()) >= 30, "30 pods being bound")
    assert standby.logs("lease.held") == []
    leader.kill()
    killed = time.monotonic()
    proxy.remove(held)
    cluster.wait_bound(GANG, timeout_s=TAKE_OVER_S)
    assert time.monotonic() - killed <= TAKE_OVER_S
    assert_bound_once(cluster, own_plane.audit, mark, GANG)


def service_account(cluster: Cluster, plane: ControlPlane, name: str) -> str:
    """The user that the audit log calls so, who may do everything."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": objects.meta(name, SYSTEM_NAMESPACE)}
    cluster.apply(account)
    cluster.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": SYSTEM_NAMESPACE}],
        }
    )
    return plane.service_account_token(SYSTEM_NAMESPACE, name)


def test_a_leader_that_was_stopped_past_its_lease_sends_nothing_more(
    cluster: Cluster, own_plane: ControlPlane, proxy: Proxy, operator: StartOperator, system_namespace: str
) -> None:
    assert system_namespace == SYSTEM_NAMESPACE
    make_room(cluster)
    token = service_account(cluster, own_plane, "stopped")
    login = own_plane.kubeconfig("stopped", proxy.url, token)
    stopped = operator("--connections", "4", kubeconfig=login)
    wait_leads(stopped)
    standby = operator()
    mark = own_plane.audit.mark()
    slow = proxy.add("POST", "/binding", delay_s=0.5)
    cluster.create_all(objects.gang("gang", 40))
    slow.wait_hits(8)
    stopped.pause()
    assert len(cluster.bound()) < 40
    wait_leads(standby)
    cluster.wait_bound(GANG)
    cluster.create_all([objects.pod("later", gpus=8), objects.pod("never", gpus=8)])
    proxy.clear()
    resumed = own_plane.audit.mark()
    stopped.resume()
    assert stopped.process.wait(60) == 1
    assert stopped.logs("lease.lost")
    user = f"system:serviceaccount:{SYSTEM_NAMESPACE}:stopped"
    sent = [entry for entry in own_plane.audit.since(resumed, user) if entry.is_write]
    assert [entry for entry in sent if entry.subject != "leases" or entry.status < 400] == []
    assert own_plane.audit.bindings(mark, user)
    assert_bound_once(cluster, own_plane.audit, mark, GANG)


def test_a_leader_that_ends_in_order_leaves_no_gap(
    cluster: Cluster, own_plane: ControlPlane, operator: StartOperator
) -> None:
    make_room(cluster)
    leader = operator()
    wait_leads(leader)
    standby = operator()
    wait_until(lambda: role(standby) == (False, holder_of(cluster)), "the standby knowing who leads")
    assert role(leader) == (True, holder_of(cluster))
    mark = own_plane.audit.mark()
    assert leader.terminate() == 0
    wait_until(lambda: standby.logs("lease.held"), "the lease", 5)
    assert role(standby) == (True, holder_of(cluster))
    cluster.create_all(objects.gang("gang", 40))
    cluster.wait_bound(GANG)
    assert_bound_once(cluster, own_plane.audit, mark, GANG)


@pytest.mark.alone
def test_a_solver_that_takes_ten_seconds_stops_neither_lease_nor_pages(
    cluster: Cluster, own_plane: ControlPlane, operator: StartOperator
) -> None:
    make_room(cluster)
    one = operator(entry=("tests.cluster.altered", "busy", "10"))
    wait_leads(one)
    mark = own_plane.audit.mark()
    cluster.create(objects.pod("slow"))
    slowest_s, oldest_s, asked, started = 0.0, 0.0, 0, time.monotonic()
    while not cluster.bound():
        before = time.monotonic()
        assert before - started < 60, "the pod is not bound"
        assert one.get("/healthz", timeout_s=5.0) == (200, "ok\n")
        slowest_s = max(slowest_s, time.monotonic() - before)
        lease = cluster.get("Lease", "kai-scheduler", SYSTEM_NAMESPACE)["spec"]
        oldest_s = max(oldest_s, (datetime.now(UTC) - datetime.fromisoformat(lease["renewTime"])).total_seconds())
        asked += 1
        time.sleep(0.05)
    assert time.monotonic() - started >= 10
    assert asked >= 10
    assert slowest_s < 1.0
    assert oldest_s < 5.0
    assert one.logs("lease.lost") == []
    assert_bound_once(cluster, own_plane.audit, mark, ["slow"])
