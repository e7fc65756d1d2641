"""Faults around a bind lose no pod, bind none twice, and bind nothing that has changed since it was decided."""

from __future__ import annotations

from tests.cluster import objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.control_plane import ControlPlane
from tests.cluster.faults import assert_bound_once, bindings, wait_decided, wait_seen
from tests.cluster.processes import wait_until
from tests.cluster.proxy import Proxy

PRIORITY = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 125}


def on(label: str) -> Object:
    return {"nodeSelector": {"role": label}}


def test_a_gang_that_a_kill_tore_is_completed_before_others(
    cluster: Cluster, own_plane: ControlPlane, proxy: Proxy, operator: StartOperator
) -> None:
    cluster.add_nodes(25)
    cluster.add_queues("team")
    cluster.create(PRIORITY)
    slow = proxy.add("POST", "/binding", delay_s=0.5)
    first, mark = operator(proxy=proxy), own_plane.audit.mark()
    gang = [f"gang-{n}" for n in range(200)]
    # not preemptible, so that those who come before it in the queue cannot have it evicted
    cluster.create_all(objects.gang("gang", 200, preemptibility="non-preemptible"))
    wait_until(lambda: len(cluster.bound()) >= 40, "40 pods being bound", poll_s=0.01)
    first.kill()
    assert len(cluster.bound()) < 160
    rivals = [objects.pod(f"rival-{n}", priorityClassName="high") for n in range(40)]
    cluster.create_all(rivals)
    proxy.remove(slow)
    operator(proxy=proxy)
    cluster.wait_bound(gang)
    assert_bound_once(cluster, own_plane.audit, mark, gang)


# name of the pod, and what becomes of its bind's first requests
ANSWERS: dict[str, Object] = {
    "conflict": {"status": 409, "times": 2},
    "conflict-after": {"status": 409, "after": True},
    "busy": {"status": 429, "times": 2, "retry_after_s": 1},
    "busy-without-end": {"status": 429, "times": 4},
    "broken": {"status": 500, "times": 3},
    "broken-after": {"status": 500, "after": True, "times": 1},
    "away": {"status": 503, "times": 8},
    "cut": {"cut": True, "times": 3},
    "cut-after": {"cut": True, "after": True, "times": 1},
    "late": {"delay_s": 11.0, "cut": True, "times": 1},
    "late-after": {"delay_s": 11.0, "after": True, "times": 1},
    "garbled": {"status": 502, "body": "<html>", "times": 2},
}


def test_whatever_a_bind_is_answered_each_pod_is_bound_once(
    cluster: Cluster, own_plane: ControlPlane, proxy: Proxy, operator: StartOperator
) -> None:
    cluster.add_nodes(4)
    cluster.add_queues("team")
    answers = {f"{prefix}-{name}": answer for prefix in ("gang", "single") for name, answer in ANSWERS.items()}
    rules = {name: proxy.add("POST", f"/pods/{name}/binding", **answer) for name, answer in answers.items()}
    operator(proxy=proxy)
    mark = own_plane.audit.mark()
    cluster.create(objects.pod_group("gang", min_member=len(ANSWERS)))
    cluster.create_all(objects.pod(name, group="gang" if name.startswith("gang") else None) for name in answers)
    cluster.wait_bound(answers)
    assert_bound_once(cluster, own_plane.audit, mark, answers)
    assert [name for name, rule in rules.items() if not rule.hits] == []


def test_what_has_changed_since_it_was_decided_is_not_bound(
    cluster: Cluster, own_plane: ControlPlane, proxy: Proxy, operator: StartOperator
) -> None:
    cluster.add_nodes(1, prefix="plain", role="plain")
    cluster.add_nodes(1, prefix="cordoned", role="cordoned")
    cluster.add_nodes(1, prefix="gone", role="gone")
    cluster.add_queues("team")
    one, mark = operator("--connections", "1", proxy=proxy), own_plane.audit.mark()
    held = proxy.add("POST", "/pods/first/binding", hold=True)
    cluster.create(objects.pod("first", **on("plain")))
    held.wait_hits()
    decided = {"cordoned": "cordoned", "gone": "gone", "deleted": "plain", "anew": "plain"}
    cluster.create_all(objects.pod(name, **on(role)) for name, role in decided.items())
    wait_decided(one, 5)
    cluster.patch("Node", "cordoned-0", {"spec": {"unschedulable": True}})
    cluster.delete("Node", "gone-0")
    for name in ("deleted", "anew"):
        cluster.delete("Pod", name, grace_s=0)
    anew = cluster.create(objects.pod("anew", **on("plain")))
    cluster.create_all(objects.pod(name, **on("plain")) for name in ("later", "last"))
    cluster.add_nodes(1, prefix="other-cordoned", role="cordoned")
    cluster.add_nodes(1, prefix="other-gone", role="gone")
    wait_seen(one, "the changes", nodes=4, pods=6)
    assert cluster.bound() == {}
    proxy.remove(held)
    names = ["first", "cordoned", "gone", "anew", "later", "last"]
    nodes = cluster.wait_bound(names)
    assert (nodes["cordoned"], nodes["gone"]) == ("other-cordoned-0", "other-gone-0")
    assert cluster.pod("anew")["metadata"]["uid"] == anew["metadata"]["uid"]
    assert_bound_once(cluster, own_plane.audit, mark, names)
    asked = [entry.name for entry in own_plane.audit.since(mark, subject="pods/binding")]
    assert sorted(asked) == sorted(names)  # and nothing was left to the API server to refuse


def test_a_node_that_is_not_ready_any_more_gets_nothing_that_was_decided_for_it(
    cluster: Cluster, own_plane: ControlPlane, proxy: Proxy, operator: StartOperator
) -> None:
    own_plane.stop_kwok()  # its heartbeats would make the nodes ready again
    for role in ("plain", "moved", "alone"):
        cluster.add_nodes(1, prefix=role, role=role)
    cluster.add_queues("team")
    one, mark = operator("--connections", "1", proxy=proxy), own_plane.audit.mark()
    held = proxy.add("POST", "/pods/first/binding", hold=True)
    cluster.create(objects.pod("first", **on("plain")))
    held.wait_hits()
    cluster.create_all(objects.pod(role, **on(role)) for role in ("moved", "alone"))
    wait_decided(one, 3)
    for name, state in (("moved-0", "Unknown"), ("alone-0", "False")):
        set_ready(cluster, name, state)
    cluster.add_nodes(1, prefix="other", role="moved")
    wait_seen(one, "the changes", nodes=4, pods=3)
    assert cluster.bound() == {}
    proxy.remove(held)
    assert cluster.wait_bound(["first", "moved"])["moved"] == "other-0"
    waits = cluster.wait_condition("Pod", "alone", "PodScheduled", status="False", reason="Unschedulable")
    assert "alone-0" in waits["message"] or "not ready" in waits["message"].lower(), waits
    set_ready(cluster, "alone-0", "True")
    cluster.wait_bound(["alone"])
    assert_bound_once(cluster, own_plane.audit, mark, ["first", "moved", "alone"])
    asked = [entry.name for entry in own_plane.audit.since(mark, subject="pods/binding")]
    assert asked == ["first", "moved", "alone"]  # and nothing was left to the kubelet to refuse


def set_ready(cluster: Cluster, node: str, state: str) -> None:
    """The kubelet says so, or the controller that has heard nothing from it."""
    condition = {"type": "Ready", "status": state, "reason": "ByTheTest", "message": "by the test"}
    cluster.patch("Node", node, {"status": {"conditions": [condition]}}, subresource="/status")


def test_a_pod_that_goes_while_its_bind_is_on_its_way(
    cluster: Cluster, own_plane: ControlPlane, proxy: Proxy, operator: StartOperator
) -> None:
    cluster.add_nodes(1, gpus=2)
    cluster.add_queues("team")
    operator(proxy=proxy)
    mark = own_plane.audit.mark()
    held = proxy.add("POST", "/pods/(deleted|anew)/binding", hold=True, times=2)
    cluster.create_all(objects.pod(name) for name in ("deleted", "anew"))
    held.wait_hits(2)
    for name in ("deleted", "anew"):
        cluster.delete("Pod", name, grace_s=0)
    cluster.create_all(objects.pod(name) for name in ("anew", "next"))
    proxy.remove(held)
    cluster.wait_bound(["anew", "next"])
    assert_bound_once(cluster, own_plane.audit, mark, ["anew", "next"])


def test_what_the_kubelet_refuses_leaves_its_room_and_its_gang_is_filled_up(
    cluster: Cluster, own_plane: ControlPlane, operator: StartOperator
) -> None:
    own_plane.stop_kwok()
    cluster.add_nodes(1, gpus=3)
    cluster.add_queues("team")
    operator()
    mark = own_plane.audit.mark()
    cluster.create_all(objects.gang("gang", 3))
    cluster.wait_bound(["gang-0", "gang-1", "gang-2"])
    refused = {"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: not enough cpu"}}
    cluster.create(objects.pod("gang-3", group="gang"))
    cluster.wait_condition("Pod", "gang-3", "PodScheduled", status="False")
    cluster.patch("Pod", "gang-1", refused, subresource="/status")
    cluster.wait_bound(["gang-3"])
    cluster.create(objects.pod("other"))
    cluster.wait_condition("Pod", "other", "PodScheduled", status="False")
    cluster.patch("Pod", "gang-2", refused, subresource="/status")
    cluster.wait_bound(["other"])
    assert_bound_once(cluster, own_plane.audit, mark, ["gang-0", "gang-1", "gang-2", "gang-3", "other"])


def test_a_pod_that_a_finalizer_holds_keeps_its_room_until_it_goes(
    cluster: Cluster, own_plane: ControlPlane, operator: StartOperator
) -> None:
    own_plane.stop_kwok()  # its kubelets would let go of the pod
    cluster.add_nodes(1, gpus=1)
    cluster.add_queues("team")
    one, mark = operator(), own_plane.audit.mark()
    held, doomed = (objects.pod(name) for name in ("held", "doomed"))
    for pod in (held, doomed):
        pod["metadata"]["finalizers"] = ["example.com/held"]
    cluster.create(held)
    cluster.wait_bound(["held"])
    cluster.create_all([doomed, objects.pod("next")])
    cluster.wait_condition("Pod", "doomed", "PodScheduled", status="False")
    for name in ("doomed", "held"):
        cluster.delete("Pod", name, grace_s=0)
        assert cluster.pod(name)["metadata"]["deletionTimestamp"]
    cluster.create(objects.pod("marker", gpus=2))  # it has no room, as it may well come before "next"
    wait_seen(one, "all four pods", pods=4)
    assert cluster.bound().keys() == {"held"}
    cluster.patch("Pod", "held", {"metadata": {"finalizers": None}})
    cluster.wait_bound(["next"])
    assert [entry.name for entry in own_plane.audit.since(mark, subject="pods/binding")] == ["held", "next"]


def test_a_namespace_that_ends_holds_up_no_other(
    cluster: Cluster, own_plane: ControlPlane, operator: StartOperator
) -> None:
    cluster.add_namespace("ending")
    cluster.add_queues("team")
    one, mark = operator(), own_plane.audit.mark()
    cluster.create(objects.pod("refused", namespace="ending"))
    wait_seen(one, "the pod", pods=1)
    cluster.delete("Namespace", "ending")
    assert cluster.get("Namespace", "ending")["status"]["phase"] == "Terminating"
    cluster.add_nodes(1, gpus=1)
    wait_until(lambda: own_plane.audit.since(mark, subject="pods/binding"), "a try")
    cluster.create(objects.pod("other"))
    cluster.wait_bound(["other"])
    assert cluster.bound("ending") == {}
    assert one.get("/readyz/scheduling")[0] == 200
    assert sum(bindings(own_plane.audit, mark).values()) == 1
