"""Evictions on a real API server: shares are taken back, priorities and places matter, nobody goes for nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.control_plane import ADMIN, OPERATOR, ControlPlane
from tests.cluster.faults import evictions
from tests.cluster.processes import wait_until
from tests.cluster.proxy import Proxy

GRACE = {"terminationGracePeriodSeconds": 30}
EVICTED = "kai_pod_group_evicted_pods_total"


@pytest.fixture
def ready(cluster: Cluster, defaults: None, operator: StartOperator) -> Cluster:
    """A cluster with the priority classes, and the operator."""
    assert defaults is None
    operator()
    return cluster


def two_queues(cluster: Cluster, quota: float) -> None:
    """``owner`` is promised so many GPUs; ``borrower`` nothing, but it may borrow."""
    cluster.apply(objects.queue("owner", quota=quota))
    cluster.apply(objects.queue("borrower", quota=0))


def singles(prefix: str, count: int, queue: str) -> Sequence[Object]:
    return [objects.pod(f"{prefix}-{n}", queue) for n in range(count)]


def living(cluster: Cluster, prefix: str) -> set[str]:
    pods = cluster.list("Pod", "default")
    names = {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
    return {name for name in names if name.startswith(prefix)}


def test_a_queue_takes_its_share_back_from_a_borrower(ready: Cluster, own_plane: ControlPlane) -> None:
    mark = own_plane.audit.mark()
    two_queues(ready, 4)
    ready.add_nodes(1, gpus=8)
    ready.create_all(singles("lent", 8, "borrower"))
    ready.wait_bound([f"lent-{n}" for n in range(8)])
    ready.create_all(singles("own", 4, "owner"))
    ready.wait_bound([f"own-{n}" for n in range(4)])
    left = living(ready, "lent")
    assert len(left) == 4
    gone = {f"lent-{n}" for n in range(8)} - left
    assert evictions(own_plane.audit, mark) == dict.fromkeys(gone, 1)
    told = ready.wait_event(sorted(gone)[0], "Evict")
    assert "evicted by reclaim for default/own-" in told["message"]
    assert "\n" not in told["message"]
    assert told["metadata"]["annotations"]["evictor-action-type"] == "reclaim"
    winner = told["metadata"]["annotations"]["evictor-pod-group-name"]
    assert "this frees 0.1 CPU cores, 1 GPU, 64Mi memory on node-0" in ready.wait_event(winner, "Evicting")["message"]


def test_the_winner_starts_when_the_room_is_really_free(
    cluster: Cluster, defaults: None, own_plane: ControlPlane, operator: StartOperator
) -> None:
    """The victim has half a minute to end, and nobody is there to end it: until then all is told and nothing bound."""
    assert defaults is None
    replica = operator("--update-pod-eviction-condition")
    cluster.add_queues("team")
    cluster.add_nodes(1, gpus=1)
    cluster.create_all(
        [objects.pod_group("train", priorityClassName="train"), objects.pod("train", group="train", **GRACE)]
    )
    wait_until(lambda: cluster.pod("train")["status"].get("phase") == "Running", "the pod running")
    own_plane.stop_kwok()
    mark = own_plane.audit.mark()
    cluster.create_all([objects.pod_group("serve", priorityClassName="inference"), objects.pod("serve", group="serve")])
    wait_until(lambda: not living(cluster, "train"), "the pod leaving")
    target = cluster.wait_condition("Pod", "train", names.DISRUPTION_TARGET, status="True")
    assert target["reason"] == names.PREEMPTION_BY_SCHEDULER
    text = "pod default/train is evicted by preempt for default/serve, which has the higher priority in the same queue"
    assert target["message"].startswith(text)
    assert cluster.wait_event("train", "Evict")["message"] == target["message"]
    waits = cluster.wait_condition("Pod", "serve", names.POD_SCHEDULED, status="False", reason=names.PIPELINED)
    assert waits["message"].startswith("preempt evicts 1 pod of default/train for default/serve")
    assert cluster.wait_event("serve", "Evicting")["message"] in waits["message"]
    cluster.add_nodes(1, gpus=0, prefix="news")
    cluster.create(objects.pod("bystander", gpus=0))
    cluster.wait_bound(["bystander"])
    assert "serve" not in cluster.bound()
    own_plane.start_kwok()
    cluster.wait_bound(["serve"])
    assert evictions(own_plane.audit, mark) == {"train": 1}
    counted = {dict(labels)["action"]: value for (name, labels), value in replica.metrics().items() if name == EVICTED}
    assert counted == {"preempt": 1.0}


def test_inference_preempts_training_in_its_queue(ready: Cluster) -> None:
    ready.add_queues("team")
    ready.add_nodes(1, gpus=2)
    for name in ("train-0", "train-1"):
        ready.create(objects.pod_group(name, priorityClassName="train"))
        ready.create(objects.pod(name, group=name))
    ready.wait_bound(["train-0", "train-1"])
    ready.create(objects.pod_group("serve", priorityClassName="inference"))
    ready.create(objects.pod("serve", group="serve"))
    ready.wait_bound(["serve"])
    assert len(living(ready, "train")) == 1
    (victim,) = {"train-0", "train-1"} - living(ready, "train")
    group = wait_until(lambda: _with_eviction_time(ready, victim), "the time of the eviction on the pod group")
    assert "preempt" in ready.wait_event(group["metadata"]["name"], "Evict")["message"]


def _with_eviction_time(cluster: Cluster, name: str) -> Object:
    group = cluster.get("PodGroup", name, "default")
    assert "kai.scheduler/last-eviction-timestamp" in group["metadata"].get("annotations", {})
    return group


def test_scattered_room_is_made_whole(ready: Cluster, own_plane: ControlPlane) -> None:
    """One GPU is free on each of two nodes; the pod that needs two gets them once a pod of a ReplicaSet has moved."""
    own_plane.start_controller_manager("replicaset-controller")
    ready.add_queues("team")
    ready.add_nodes(2, gpus=2)
    for count, other in ((1, "node-1"), (2, "node-0")):
        ready.patch("Node", other, {"spec": {"unschedulable": True}})
        ready.apply(replica_set("small", count))
        wait_until(lambda count=count: len(ready.bound()) == count, f"{count} bound pods")
        ready.patch("Node", other, {"spec": {"unschedulable": None}})
    before, mark = ready.bound(), own_plane.audit.mark()
    assert sorted(before.values()) == ["node-0", "node-1"]
    ready.create(objects.pod("large", gpus=2))
    ready.wait_bound(["large"])
    wait_until(lambda: len(ready.bound()) == 3, "the moved pod's successor")
    after = ready.bound()
    home = after.pop("large")
    assert sorted(after.values()) == [({"node-0", "node-1"} - {home}).pop()] * 2
    (moved,) = before.keys() - after.keys()
    assert evictions(own_plane.audit, mark) == {moved: 1}
    assert "moved by consolidation for default/large" in ready.wait_event(moved, "Evict")["message"]


def replica_set(name: str, replicas: int) -> Object:
    template = objects.pod(name, labels={"app": name})
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": objects.meta(name, "default"),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": template["metadata"]["labels"]}, "spec": template["spec"]},
        },
    }


def test_an_elastic_group_grows_shrinks_to_its_minimum_and_grows_again(ready: Cluster, own_plane: ControlPlane) -> None:
    """Six GPUs, four of them promised to others, who ask for them one by one, and for a fifth that is not theirs."""
    mark = own_plane.audit.mark()
    ready.apply(objects.queue("owner", quota=4, weight=0))
    ready.apply(objects.queue("borrower", quota=0))
    ready.add_nodes(1, gpus=6)
    ready.create_all([objects.pod_group("elastic", "borrower", 2), *_members()])
    ready.wait_bound([f"elastic-{n}" for n in range(6)])
    for n in range(4):
        ready.create(objects.pod(f"own-{n}", "owner"))
        ready.wait_bound([f"own-{n}"])
        assert len(living(ready, "elastic")) == 5 - n
    ready.create(objects.pod("own-4", "owner"))
    told = ready.wait_condition("Pod", "own-4", names.POD_SCHEDULED, status="False", reason=names.UNSCHEDULABLE)
    assert "reclaim" in told["message"]
    assert len(living(ready, "elastic")) == 2
    found = evictions(own_plane.audit, mark)
    assert (len(found), set(found.values())) == (4, {1})
    for n in range(5):
        ready.delete("Pod", f"own-{n}", "default", grace_s=0)
    ready.create_all(pod for pod in _members() if pod["metadata"]["name"] not in living(ready, "elastic"))
    ready.wait_bound([f"elastic-{n}" for n in range(6)])


def _members() -> list[Object]:
    return [objects.pod(f"elastic-{n}", "borrower", group="elastic") for n in range(6)]


def test_a_broken_gang_is_evicted_after_its_grace(ready: Cluster, own_plane: ControlPlane) -> None:
    """One gang lost a pod for good; the other's was made anew, but somebody else has its place."""
    ready.add_queues("team")
    ready.add_nodes(1, gpus=4)
    mark = own_plane.audit.mark()
    for name in ("pair", "torn"):
        ready.create_all(objects.gang(name, 2, stalenessGracePeriod="4s", preemptibility="non-preemptible"))
    ready.wait_bound(["pair-0", "pair-1", "torn-0", "torn-1"])
    for name in ("pair-1", "torn-1"):
        ready.delete("Pod", name, "default", grace_s=0)
    ready.create(objects.pod("rival", gpus=2))
    ready.wait_bound(["rival"])
    ready.create(objects.pod("torn-1", group="torn"))
    wait_until(lambda: living(ready, "pair") | living(ready, "torn") == {"torn-1"}, "the rest of both being evicted")
    for name in ("pair", "torn"):
        assert (
            "below its minimum for longer than its staleness grace period" in ready.wait_event(name, "Evict")["message"]
        )
    assert evictions(own_plane.audit, mark) == {"pair-0": 1, "torn-0": 1}
    times = {
        (request.user, request.name): request.received_s
        for request in own_plane.audit.since(mark, subject="pods")
        if request.verb == "delete"
    }
    for name in ("pair", "torn"):
        lasted_s = times[OPERATOR, f"{name}-0"] - times[ADMIN, f"{name}-1"]
        assert 3.0 <= lasted_s <= 15.0  # the grace, less what its beginning is rounded by


def test_a_crash_between_two_evictions_is_put_right(
    cluster: Cluster, own_plane: ControlPlane, proxy: Proxy, operator: StartOperator
) -> None:
    """The gang of four needs all of the room; the process dies after the first eviction, and another takes over."""
    mark = own_plane.audit.mark()
    two_queues(cluster, 4)
    cluster.add_nodes(1, gpus=4)
    first = operator(proxy=proxy)
    cluster.create_all(singles("lent", 4, "borrower"))
    cluster.wait_bound([f"lent-{n}" for n in range(4)])
    held = proxy.add("DELETE", "/pods/", let_pass=1, hold=True)
    cluster.create_all(objects.gang("own", 4, "owner"))
    held.wait_hits(3)
    wait_until(lambda: len(living(cluster, "lent")) == 3, "the first eviction")
    first.kill()
    proxy.remove(held)
    operator(proxy=proxy)
    cluster.wait_bound([f"own-{n}" for n in range(4)], timeout_s=90)
    assert living(cluster, "lent") == set()
    found = evictions(own_plane.audit, mark)
    # A request whose sender dies can be carried out and yet not be logged as answered: what counts is never twice.
    assert found.keys() <= {f"lent-{n}" for n in range(4)}
    assert set(found.values()) == {1}


def test_a_victim_made_anew_is_not_evicted_in_its_stead(
    request: pytest.FixtureRequest, cluster: Cluster, own_plane: ControlPlane, proxy: Proxy, operator: StartOperator
) -> None:
    """The check of the name is past when the pod is made anew: the uid in the request is what saves it."""
    mark = own_plane.audit.mark()
    two_queues(cluster, 1)
    cluster.add_nodes(1, gpus=1)
    operator(proxy=proxy)
    cluster.create(objects.pod("victim", "borrower"))
    cluster.wait_bound(["victim"])
    held = proxy.add("DELETE", "/pods/", hold=True)
    cluster.create(objects.pod("own", "owner"))
    held.wait_hits(1)
    own_plane.stop_kwok()  # it helps with a deletion by name, and may come when the pod has been made anew
    request.addfinalizer(own_plane.start_kwok)
    cluster.delete("Pod", "victim", "default", grace_s=0)
    made = cluster.create(objects.pod("victim", "borrower"))["metadata"]["uid"]
    proxy.remove(held)
    cluster.wait_bound(["own"])
    refused = wait_until(
        lambda: [one for one in own_plane.audit.since(mark, OPERATOR, "pods") if one.verb == "delete"], "the eviction"
    )
    assert [one.status for one in refused] == [409]
    cluster.wait_condition("Pod", "victim", names.POD_SCHEDULED, status="False", reason=names.UNSCHEDULABLE)
    assert cluster.pod("victim")["metadata"]["uid"] == made
    assert "deletionTimestamp" not in cluster.pod("victim")["metadata"]


def test_nobody_is_evicted_for_a_group_that_went_away(
    cluster: Cluster, own_plane: ControlPlane, proxy: Proxy, operator: StartOperator
) -> None:
    """The first evictions hang; the gang for which they were decided is deleted: no other pod goes for it."""
    mark = own_plane.audit.mark()
    two_queues(cluster, 12)
    cluster.add_nodes(1, gpus=12)
    operator(proxy=proxy)
    cluster.create_all(singles("lent", 12, "borrower"))
    cluster.wait_bound([f"lent-{n}" for n in range(12)])
    held = proxy.add("DELETE", "/pods/lent", hold=True)
    gang = objects.gang("own", 12, "owner")
    cluster.create_all(gang)
    held.wait_hits(8)  # as many as are sent at a time
    for pod in gang[1:]:
        cluster.delete("Pod", pod["metadata"]["name"], "default", grace_s=0)
    wait_until(lambda: not living(cluster, "own"), "the gang being gone")
    proxy.remove(held)
    wait_until(lambda: len(living(cluster, "lent")) == 4, "the evictions that were under way")
    cluster.create(objects.pod("late", "borrower"))
    cluster.wait_bound(["late"])
    assert len(living(cluster, "lent")) == 4
    found = evictions(own_plane.audit, mark)
    assert (len(found), set(found.values())) == (8, {1})
