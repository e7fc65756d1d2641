"""The wall clock may jump: nobody waits longer for it, loses the lease by it, or is evicted before its time."""

from __future__ import annotations

import signal

from tests.cluster import objects
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import SYSTEM_NAMESPACE, StartOperator
from tests.cluster.control_plane import ADMIN, ControlPlane
from tests.cluster.faults import evictions
from tests.cluster.processes import wait_until

HOUR_S = 3600
JUMPS = {"forward": signal.SIGUSR1, "back": signal.SIGUSR2, "further-back": signal.SIGUSR2, "again": signal.SIGUSR1}
BOUND_S = 1.0


def test_an_hour_forward_and_back(cluster: Cluster, own_plane: ControlPlane, operator: StartOperator) -> None:
    cluster.add_nodes(2, gpus=8)
    cluster.add_queues("team")
    one = operator(entry=("tests.cluster.altered", "jumping", str(HOUR_S)))
    one.process.wait_until(lambda: bool(one.logs("lease.held")), "the lease")
    mark = own_plane.audit.mark()
    # A whole gang, one that has a grace of two hours, and one that an hour is too long for.
    gangs = {"whole": "10m", "patient": "2h", "short": "30m"}
    torn = ("patient", "short")
    for name, grace in gangs.items():
        cluster.create_all(objects.gang(name, 2, stalenessGracePeriod=grace))
    members = [f"{name}-{n}" for name in gangs for n in range(2)]
    cluster.wait_bound(members)
    for name in torn:
        cluster.delete("Pod", f"{name}-1", grace_s=0)
    stale = lambda name: cluster.get("PodGroup", name)["metadata"].get("annotations")  # noqa: E731
    wait_until(lambda: all(map(stale, torn)), "the torn gangs being stale")
    names = [name for name in members if name not in ("patient-1", "short-1")]
    lease = cluster.get("Lease", "kai-scheduler", SYSTEM_NAMESPACE)["spec"]
    for name, number in JUMPS.items():
        one.process.signal(number)
        cluster.create(objects.pod(name))
        cluster.wait_bound([name], timeout_s=10.0)
        names.append(name)
    audit = own_plane.audit
    made = {one.name: one.received_s for one in audit.since(mark, ADMIN, "pods") if one.verb == "create"}
    took_s = {bind.name: bind.answered_s - made[bind.name] for bind in audit.bindings(mark) if bind.name in JUMPS}
    assert took_s.keys() == JUMPS.keys()
    assert max(took_s.values()) <= BOUND_S, took_s
    assert evictions(audit, mark) == {}
    after = cluster.get("Lease", "kai-scheduler", SYSTEM_NAMESPACE)["spec"]
    same = ("holderIdentity", "acquireTime", "leaseTransitions")
    assert [after.get(field) for field in same] == [lease.get(field) for field in same]
    assert one.logs("lease.lost") == []
    assert one.get("/readyz")[0] == 200
    assert cluster.bound().keys() == {*names}
