"""What people see of pods and pod groups on a real API server, that it is right in the end, and written only once."""

from __future__ import annotations

from collections import Counter

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.audit import Request
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster, condition_of
from tests.cluster.control_plane import OPERATOR, ControlPlane
from tests.cluster.operator_process import Operator
from tests.cluster.processes import wait_until

BURST = 60


def status_of(cluster: Cluster, group: str) -> Object:
    """The status of a pod group; empty where it has none."""
    status: Object = cluster.get("PodGroup", group).get("status", {})
    return status


def wait_scheduling_condition(cluster: Cluster, group: str, reason: str) -> Object:
    """Wait until the newest scheduling condition of the group gives that reason, and return it."""

    def told() -> Object:
        conditions = status_of(cluster, group).get("schedulingConditions")
        assert conditions, "no scheduling condition"
        newest: Object = conditions[-1]
        assert [one["reason"] for one in newest["reasons"]] == [reason], f"{newest}"
        return newest

    return wait_until(told, f"{group} being told {reason}")


def wait_nothing_waits(cluster: Cluster, group: str) -> None:
    """Wait until the group has no scheduling condition any more."""
    wait_until(lambda: "schedulingConditions" not in status_of(cluster, group), f"{group} having no condition")


def test_a_pod_without_room_is_unschedulable_until_there_is_room(live: Cluster) -> None:
    live.add_nodes(1, gpus=1)
    live.add_queues("team")
    live.create(objects.pod("large", gpus=2))
    told = live.wait_condition("Pod", "large", names.POD_SCHEDULED, status="False", reason=names.UNSCHEDULABLE)
    assert "GPU" in told["message"]
    event = live.wait_event("large", names.UNSCHEDULABLE)
    assert (event["type"], event["source"]["component"]) == ("Warning", "kai-scheduler")
    described = live.kubectl("describe", "pod", "large")
    assert told["message"] in described
    assert "kai-scheduler" in described
    live.add_nodes(1, gpus=2, prefix="late")
    live.wait_bound(["large"])
    live.wait_condition("Pod", "large", names.POD_SCHEDULED, status="True")
    assert "late-0" in live.wait_event("large", names.SCHEDULED)["message"]


def test_pods_that_no_new_node_would_help_are_not_unschedulable(live: Cluster) -> None:
    live.add_nodes()
    live.add_queues("limited", limit=1)
    live.add_queues("guaranteed", quota=1)
    live.create_all(objects.gang("over-limit", 2, "limited"))
    live.create_all(objects.gang("over-quota", 2, "guaranteed", preemptibility="non-preemptible"))
    group, *members = objects.gang("incomplete", 3, "guaranteed")
    live.create_all([group, members[0], members[1]])
    expected = {
        "over-limit-0": names.QUEUE_OVER_LIMIT,
        "over-quota-1": names.QUEUE_OVER_QUOTA,
        "incomplete-0": names.GANG_NOT_READY,
    }
    for pod, reason in expected.items():
        live.wait_condition("Pod", pod, names.POD_SCHEDULED, status="False", reason=reason)
    # The pod groups give the reasons of API 6.3, with the amounts.
    over = wait_scheduling_condition(live, "over-limit", "OverLimit")
    details = over["reasons"][0]["details"]["queueDetails"]
    assert (details["name"], details["queueResourceLimits"][objects.GPU]) == ("limited", "1")
    assert details["podGroupRequestedResources"][objects.GPU] == "2"
    over = wait_scheduling_condition(live, "over-quota", "NonPreemptibleOverQuota")
    assert over["reasons"][0]["details"]["queueDetails"]["queueDeservedResources"][objects.GPU] == "1"
    event = live.wait_event("incomplete", names.NOT_READY)
    assert (event["type"], event["involvedObject"]["kind"]) == ("Normal", "PodGroup")
    assert "schedulingConditions" not in status_of(live, "incomplete")


def test_a_pod_group_shows_what_it_holds_and_why_it_waits_until_it_does_not(live: Cluster) -> None:
    live.add_nodes(1, gpus=2)
    live.add_queues("team", quota=8)
    live.create_all(objects.gang("train", 3, preemptibility="non-preemptible"))
    told = wait_scheduling_condition(live, "train", "PodSchedulingErrors")
    facts = {key: told[key] for key in ("type", "nodePool", "status", "reason", "transitionID")}
    assert facts == {
        "type": names.UNSCHEDULABLE_ON_NODE_POOL,
        "nodePool": "default",
        "status": "True",
        "reason": "Unschedulable",
        "transitionID": "1",
    }
    event = live.wait_event("train", names.UNSCHEDULABLE)
    assert (event["type"], event["involvedObject"]["kind"]) == ("Normal", "PodGroup")
    requested = wait_until(lambda: status_of(live, "train").get("resourcesStatus"), "what the group asks for")
    assert requested == {"requested": {objects.GPU: "3", "cpu": "300m", "memory": str(3 * 64 * 2**20)}}
    head, row = live.kubectl("get", "podgroups").splitlines()
    at = {name: row[head.index(name) :].split()[0] for name in ("QUEUE", "MIN-MEMBER", "GPU-REQUESTED")}
    assert at == {"QUEUE": "team", "MIN-MEMBER": "3", "GPU-REQUESTED": "3"}
    assert "PodSchedulingErrors" in row

    live.add_nodes(1, gpus=2, prefix="late")
    wait_nothing_waits(live, "train")
    held = wait_until(lambda: status_of(live, "train")["resourcesStatus"].get("allocated"), "what the group holds")
    assert held[objects.GPU] == "3"
    assert status_of(live, "train")["resourcesStatus"]["allocatedNonPreemptible"] == held
    assert names.LAST_START_ANNOTATION in live.get("PodGroup", "train")["metadata"]["annotations"]
    for n in range(3):
        live.delete("Pod", f"train-{n}")
    wait_until(lambda: not status_of(live, "train").get("resourcesStatus"), "the group holding nothing")


def test_a_group_that_lost_pods_it_needs_is_stale_until_it_has_them_again(live: Cluster) -> None:
    def noted() -> bool:
        return names.STALE_ANNOTATION in live.get("PodGroup", "train")["metadata"].get("annotations", {})

    live.add_nodes()
    live.add_queues("team")
    group, *members = objects.gang("train", 2)
    live.create_all([group, *members])
    live.wait_bound(["train-0", "train-1"])
    live.delete("Pod", "train-1")
    wait_until(noted, "the group being noted as stale")
    live.wait_event("train", names.STALE_JOB)
    live.create(members[1])
    live.wait_bound(["train-1"])
    wait_until(lambda: not noted(), "the group being noted no longer")


def test_no_pod_that_is_bound_is_left_with_a_condition_that_says_otherwise(live: Cluster) -> None:
    live.add_queues("team")
    live.create_all(objects.pod(f"burst-{n}") for n in range(BURST))

    # Nodes come while the conditions are being written, and again after that.
    live.wait_condition("Pod", "burst-0", names.POD_SCHEDULED, status="False")
    live.add_nodes(1, gpus=BURST // 2, prefix="first")
    wait_until(lambda: len(live.bound()) == BURST // 2, "half of them being bound")
    live.add_nodes(1, gpus=BURST, prefix="second")
    nodes = live.wait_bound([f"burst-{n}" for n in range(BURST)])
    assert Counter(nodes.values()) == {"first-0": BURST // 2, "second-0": BURST // 2}

    def right() -> bool:
        pods = live.list("Pod", "default")
        statuses = Counter((condition_of(pod, names.POD_SCHEDULED) or {}).get("status") for pod in pods)
        assert statuses == {"True": BURST}
        assert {pod["status"]["phase"] for pod in pods} == {"Running"}
        return True

    wait_until(right, "all conditions being right")


def writes_of(plane: ControlPlane, mark: int) -> list[Request]:
    """What the operator wrote since the mark, its lease aside."""
    found = plane.audit.since(mark, OPERATOR)
    return [request for request in found if request.is_write and request.subject != "leases"]


def test_nothing_is_written_while_nothing_changes(
    live: Cluster, shared_operator: Operator, plane: ControlPlane
) -> None:
    def renewals(mark: int) -> int:
        return len([one for one in plane.audit.since(mark, OPERATOR, "leases") if one.verb == "update"])

    def quiet() -> bool:
        """Whether nothing was written between two renewals of the lease."""
        mark = plane.audit.mark()
        wait_until(lambda: renewals(mark) >= 2, "the lease being renewed twice")
        return not writes_of(plane, mark)

    live.add_nodes(1, gpus=2)
    live.add_queues("team", "other", limit=6)
    live.create_all([*objects.gang("waits", 4), *objects.gang("runs", 2, "other"), objects.pod("over", "other", 7)])
    live.create_all([*objects.gang("incomplete", 3)[:2], objects.pod("lost", "nowhere"), objects.pod("bare", None)])
    wait_until(quiet, "all being told", 60.0)
    # Cycles that change nothing write nothing: news of nodes, of pods of others, of our own kinds.
    mark, cycles = plane.audit.mark(), len(shared_operator.logs("cycle.done"))
    live.kubectl("label", "node", "node-0", "colour=green")
    live.create(objects.pod("theirs", scheduler="other", gpus=0))
    live.kubectl("annotate", "queue", "team", "note=seen")
    live.kubectl("annotate", "podgroup", "waits", "note=seen")
    wait_until(lambda: len(shared_operator.logs("cycle.done")) > cycles, "another cycle")
    wait_until(lambda: renewals(mark) >= 3, "the lease being renewed three more times")
    assert [(one.verb, one.subject, one.name) for one in writes_of(plane, mark)] == []
