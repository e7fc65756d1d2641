"""The wall clock may jump: nobody waits longer for it, loses the lease by it, or is evicted before its time."""

from __future__ import annotations

import signal

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import SYSTEM_NAMESPACE, StartOperator
from tests.cluster.control_plane import ADMIN, OPERATOR, ControlPlane
from tests.cluster.faults import evictions
from tests.cluster.processes import wait_until

HOUR_S = 3600
JUMPS = {"forward": signal.SIGUSR1, "back": signal.SIGUSR2, "further-back": signal.SIGUSR2, "again": signal.SIGUSR1}
BOUND_S = 1.0
SHORT_S = 4.0
TAKES_S = 10.0  # an eviction, on a machine that is busy with other things


def tear(cluster: Cluster, gang: str) -> None:
    """One of the gang's two pods goes; return when it is seen to be incomplete."""
    cluster.delete("Pod", f"{gang}-1", grace_s=0)

    def is_stale() -> bool:
        return names.STALE_ANNOTATION in cluster.get("PodGroup", gang)["metadata"].get("annotations", {})

    wait_until(is_stale, f"{gang} being stale")


def test_an_hour_forward_and_back(cluster: Cluster, own_plane: ControlPlane, operator: StartOperator) -> None:
    cluster.add_nodes(2, gpus=8)
    cluster.add_queues("team")
    one, audit = operator(entry=("tests.cluster.altered", "jumping", str(HOUR_S))), own_plane.audit
    one.process.wait_until(lambda: bool(one.logs("lease.held")), "the lease")
    mark = audit.mark()
    for name, grace in (("whole", "10m"), ("torn", "30m"), ("short", f"{SHORT_S:.0f}s")):
        cluster.create_all(objects.gang(name, 2, stalenessGracePeriod=grace))
    cluster.wait_bound([f"{name}-{n}" for name in ("whole", "torn", "short") for n in range(2)])
    tear(cluster, "torn")
    lease = cluster.get("Lease", "kai-scheduler", SYSTEM_NAMESPACE)["spec"]
    for name, number in JUMPS.items():
        one.process.signal(number)
        cluster.create(objects.pod(name))
        cluster.wait_bound([name], timeout_s=10.0)
    made = {asked.name: asked.received_s for asked in audit.since(mark, ADMIN, "pods") if asked.verb == "create"}
    took_s = {bind.name: bind.answered_s - made[bind.name] for bind in audit.bindings(mark) if bind.name in JUMPS}
    assert took_s.keys() == JUMPS.keys()
    assert max(took_s.values()) <= BOUND_S, took_s
    assert evictions(audit, mark) == {}, "the half hour of the torn gang is not over"
    after = cluster.get("Lease", "kai-scheduler", SYSTEM_NAMESPACE)["spec"]
    same = ("holderIdentity", "acquireTime", "leaseTransitions")
    assert [after.get(field) for field in same] == [lease.get(field) for field in same]
    assert one.logs("lease.lost") == []
    assert one.get("/readyz")[0] == 200
    # Time goes on after a jump: at double speed at the most, until the clocks agree again.
    one.process.signal(signal.SIGUSR1)
    tear(cluster, "short")
    wait_until(lambda: evictions(audit, mark), "an eviction", SHORT_S + TAKES_S)
    assert evictions(audit, mark) == {"short-0": 1}
    gone = {asked.name: asked.received_s for asked in audit.since(mark, subject="pods") if asked.verb == "delete"}
    assert gone["short-0"] - gone["short-1"] >= SHORT_S / 2
    assert [asked.name for asked in audit.since(mark, OPERATOR, "pods") if asked.verb == "delete"] == ["short-0"]
    assert cluster.bound().keys() == {"whole-0", "whole-1", "torn-0", *JUMPS}
