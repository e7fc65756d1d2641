"""Requests that hang, that are refused for what an object says, lists that expire half-way: all others go on."""

from __future__ import annotations

import time
from functools import partial

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.client import ADMISSION, Object, Refused
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import SYSTEM_NAMESPACE, StartOperator
from tests.cluster.control_plane import ControlPlane
from tests.cluster.faults import assert_bound_once, wait_seen
from tests.cluster.operator_process import Operator
from tests.cluster.processes import wait_until
from tests.cluster.proxy import Proxy

SOON_S = 5.0
COUNT = "count/podgroups.scheduling.run.ai"


def on(role: str) -> Object:
    return {"nodeSelector": {"role": role}}


def living(cluster: Cluster, name: str) -> bool:
    found = cluster.find("Pod", name)
    return found is not None and "deletionTimestamp" not in found["metadata"]


def test_binds_that_hang_keep_nobody_else_waiting(
    cluster: Cluster, own_plane: ControlPlane, proxy: Proxy, operator: StartOperator
) -> None:
    """As behind a slow webhook on pods/binding: evictions, lists and statuses go on, and then the binds are made."""
    cluster.apply(objects.queue("owner", quota=8))
    cluster.apply(objects.queue("borrower", quota=0))
    cluster.add_nodes(1, gpus=1, prefix="full", role="full")
    cluster.add_nodes(1, gpus=20, prefix="slow", role="slow")
    operator("--connections", "8", proxy=proxy)
    cluster.create(objects.pod("lent", "borrower", **on("full")))
    cluster.wait_bound(["lent"])
    mark = own_plane.audit.mark()
    slow = [f"slow-{n}" for n in range(12)]
    held = proxy.add("POST", "/pods/(slow|own).*/binding", hold=True)
    cluster.create_all(objects.pod(name, "borrower", **on("slow")) for name in slow)
    held.wait_hits(5)
    listed = proxy.add("GET", "/api/v1/nodes([?](?!.*watch)|$)", times=0)
    with proxy.rule("GET", "/api/v1/nodes.*watch=", status=410, times=1) as gone:
        assert proxy.cut_streams("/api/v1/nodes")
        gone.wait_hits()
        wait_until(lambda: listed.seen > 0, "nodes being listed anew", SOON_S)
    cluster.create(objects.pod("own", "owner", **on("full")))
    wait_until(lambda: not living(cluster, "lent"), "the borrower leaving", SOON_S)
    cluster.create(objects.pod("waits", "owner", gpus=9, **on("full")))
    cluster.wait_condition("Pod", "waits", "PodScheduled", status="False")
    assert cluster.bound().keys() <= {"lent"}
    proxy.remove(held)
    cluster.wait_bound([*slow, "own"])
    assert_bound_once(cluster, own_plane.audit, mark, [*slow, "own"])


def test_a_list_that_expires_half_way_begins_anew(
    cluster: Cluster, own_plane: ControlPlane, proxy: Proxy, operator: StartOperator
) -> None:
    cluster.add_nodes(1, gpus=12)
    cluster.add_queues("team")
    pods = [f"p{n}" for n in range(12)]
    cluster.create_all(objects.pod(name) for name in pods)
    mark = own_plane.audit.mark()
    expired = [proxy.add("GET", f"/{kind}[?].*continue=", status=410, times=2) for kind in ("pods", "podgroups")]
    cluster.create_all(objects.pod_group(f"g{n}") for n in range(12))
    one = operator(proxy=proxy, entry=("tests.cluster.altered", "paged", "5"))
    cluster.wait_bound(pods)
    wait_seen(one, "all pods", pods=12)
    assert [rule.hits for rule in expired] == [2, 2]
    assert_bound_once(cluster, own_plane.audit, mark, pods)


def owned(cluster: Cluster, namespace: str, name: str) -> None:
    """A Job that no controller looks at, and its pod."""
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}}
    marks = {names.QUEUE_LABEL: "team"}
    meta = objects.meta(name, namespace, labels=marks)
    job = cluster.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
    pod = objects.pod(f"{name}-0", namespace=namespace)
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job["metadata"]["uid"]}
    pod["metadata"]["ownerReferences"] = [reference]
    cluster.create(pod)


def forbid_changes(cluster: Cluster, namespace: str) -> None:
    """A policy that lets nobody change pods of the namespace, in force when this returns."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}
    spec: Object = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}]}
    spec["validations"][0]["message"] = "pods of this team stay as they are"
    kind, meta = "ValidatingAdmissionPolicy", {"name": "still"}
    cluster.apply({"apiVersion": ADMISSION, "kind": kind, "metadata": meta, "spec": spec})
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    spec = {"policyName": "still", "validationActions": ["Deny"], "matchResources": where}
    cluster.apply({"apiVersion": ADMISSION, "kind": f"{kind}Binding", "metadata": meta, "spec": spec})
    cluster.create(objects.pod("probe", namespace=namespace, scheduler="nobody"))

    def holds() -> bool:
        try:
            cluster.patch("Pod", "probe", {"metadata": {"labels": {"x": str(time.time_ns())}}}, namespace)
        except Refused as refused:
            return "stay as they are" in refused.message
        return False

    wait_until(holds, "the policy being in force", 30.0)


def test_what_a_quota_or_a_policy_refuses_is_told_to_its_people_only(cluster: Cluster, operator: StartOperator) -> None:
    """The scheduler stays ready, the others go on, and it is made good once it is allowed."""
    cluster.add_nodes(1)
    cluster.add_queues("team")
    for name in ("limited", "still"):
        cluster.add_namespace(name)
    meta = objects.meta("few", "limited")
    cluster.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": {COUNT: "0"}}})
    status = {"hard": {COUNT: "0"}, "used": {COUNT: "0"}}  # as its controller would write
    cluster.patch("ResourceQuota", "few", {"status": status}, "limited", subresource="/status")
    forbid_changes(cluster, "still")
    one = operator()
    for namespace in ("limited", "still", "default"):
        owned(cluster, namespace, "job")
    told = cluster.wait_event("job", names.GROUPER_WARNING, "limited")
    assert "exceeded quota: few" in told["message"]
    told = cluster.wait_event("job-0", names.GROUPER_WARNING, "still")
    assert "pods of this team stay as they are" in told["message"]
    wait_until(lambda: _is_marked(cluster, "default"), "the pod of the others in its group")
    assert one.get("/readyz")[0] == 200, one.get("/readyz")[1]
    cluster.patch("ResourceQuota", "few", {"spec": {"hard": {COUNT: "5"}}}, "limited")
    status["hard"] = {COUNT: "5"}
    cluster.patch("ResourceQuota", "few", {"status": status}, "limited", subresource="/status")
    cluster.delete("ValidatingAdmissionPolicyBinding", "still")
    for namespace in ("limited", "still"):
        wait_until(partial(_is_marked, cluster, namespace), f"{namespace}: the pod in its group", 60.0)
        cluster.wait_bound(["job-0"], namespace)


def _is_marked(cluster: Cluster, namespace: str) -> bool:
    return names.POD_GROUP_ANNOTATION in cluster.pod("job-0", namespace)["metadata"].get("annotations", {})


def leads(operator: Operator) -> bool:
    return bool(operator.logs("lease.held"))


def test_a_lease_that_is_deleted_is_made_anew_by_its_holder(cluster: Cluster, operator: StartOperator) -> None:
    """The standby, which has seen it lead, waits."""
    cluster.add_nodes(1)
    cluster.add_queues("team")
    leader = operator()
    wait_until(lambda: leads(leader), "the lease")
    standby = operator()
    wait_until(lambda: bool(standby.logs("lease.waits")), "the standby having seen who leads")
    before = cluster.get("Lease", objects.SCHEDULER, SYSTEM_NAMESPACE)
    for n in range(2):
        cluster.delete("Lease", objects.SCHEDULER, SYSTEM_NAMESPACE)
        wait_until(lambda: _holder(cluster) == before["spec"]["holderIdentity"], "the same holder", SOON_S)
        cluster.create(objects.pod(f"p{n}"))
        cluster.wait_bound([f"p{n}"])
    assert (leader.logs("lease.lost"), leads(standby)) == ([], False)
    assert cluster.get("Lease", objects.SCHEDULER, SYSTEM_NAMESPACE)["metadata"]["uid"] != before["metadata"]["uid"]


def _holder(cluster: Cluster) -> str:
    found = cluster.find("Lease", objects.SCHEDULER, SYSTEM_NAMESPACE)
    return "" if found is None else str(found["spec"].get("holderIdentity"))
