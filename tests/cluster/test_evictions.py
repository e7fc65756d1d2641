"""Evictions on a real API server: shares are taken back, priorities and places matter, nobody goes for nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.cluster import objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.processes import wait_until
from tests.cluster.proxy import Proxy


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


def test_a_queue_takes_its_share_back_from_a_borrower(ready: Cluster) -> None:
    two_queues(ready, 4)
    ready.add_nodes(1, gpus=8)
    ready.create_all(singles("lent", 8, "borrower"))
    ready.wait_bound([f"lent-{n}" for n in range(8)])
    ready.create_all(singles("own", 4, "owner"))
    ready.wait_bound([f"own-{n}" for n in range(4)])
    left = living(ready, "lent")
    assert len(left) == 4
    gone = sorted({f"lent-{n}" for n in range(8)} - left)[0]
    told = ready.wait_event(gone, "Evict")
    assert "reclaim" in told["message"]
    assert "default/own-" in told["message"]
    assert told["metadata"]["annotations"]["evictor-action-type"] == "reclaim"
    assert ready.wait_event(told["metadata"]["annotations"]["evictor-pod-group-name"], "Evicting")


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


def test_scattered_room_is_made_whole(ready: Cluster) -> None:
    """One GPU is free on each of two nodes; the pod that needs two gets them once another has moved."""
    ready.add_queues("team")
    ready.add_nodes(2, gpus=2)
    for n in range(2):
        other = f"node-{1 - n}"
        ready.patch("Node", other, {"spec": {"unschedulable": True}})
        ready.create(objects.pod(f"small-{n}"))
        ready.wait_bound([f"small-{n}"])
        ready.patch("Node", other, {"spec": {"unschedulable": None}})
    ready.create(objects.pod("large", gpus=2))
    moved = wait_until(lambda: {"small-0", "small-1"} - living(ready, "small"), "a pod being moved")
    (name,) = moved
    ready.wait_bound(["large"])
    ready.create(objects.pod(name))  # as its controller would
    nodes = ready.wait_bound(["small-0", "small-1", "large"])
    assert nodes["small-0"] == nodes["small-1"] != nodes["large"]


def test_an_elastic_group_grows_shrinks_to_its_minimum_and_grows_again(ready: Cluster) -> None:
    two_queues(ready, 6)
    ready.add_nodes(1, gpus=6)
    ready.create_all([objects.pod_group("elastic", "borrower", 2), *_members()])
    ready.wait_bound([f"elastic-{n}" for n in range(6)])
    ready.create_all(singles("own", 4, "owner"))
    ready.wait_bound([f"own-{n}" for n in range(4)])
    assert len(living(ready, "elastic")) == 2
    for n in range(4):
        ready.delete("Pod", f"own-{n}", "default", grace_s=0)
    ready.create_all(pod for pod in _members() if pod["metadata"]["name"] not in living(ready, "elastic"))
    ready.wait_bound([f"elastic-{n}" for n in range(6)])


def _members() -> list[Object]:
    return [objects.pod(f"elastic-{n}", "borrower", group="elastic") for n in range(6)]


def test_a_broken_gang_is_evicted_after_its_grace(ready: Cluster) -> None:
    ready.add_queues("team")
    ready.add_nodes(1)
    ready.create_all(objects.gang("pair", 2, stalenessGracePeriod="3s"))
    ready.wait_bound(["pair-0", "pair-1"])
    ready.delete("Pod", "pair-1", "default", grace_s=0)
    wait_until(lambda: not living(ready, "pair"), "the rest of the gang being evicted")
    assert "incomplete" in ready.wait_event("pair", "Evict")["message"]


def test_a_crash_between_two_evictions_is_put_right(cluster: Cluster, operator: StartOperator, proxy: Proxy) -> None:
    """The gang of four needs all of the room; the process dies after the first eviction."""
    two_queues(cluster, 4)
    cluster.add_nodes(1, gpus=4)
    first = operator(proxy=proxy)
    cluster.create_all(singles("lent", 4, "borrower"))
    cluster.wait_bound([f"lent-{n}" for n in range(4)])
    held = proxy.add("DELETE", "/pods/", let_pass=1, hold=True)
    cluster.create_all(objects.gang("own", 4, "owner"))
    held.wait_hits(1)
    first.kill()
    proxy.remove(held)
    operator(proxy=proxy)
    cluster.wait_bound([f"own-{n}" for n in range(4)], timeout_s=90)
    assert living(cluster, "lent") == set()


def test_a_victim_made_anew_is_not_evicted_in_its_stead(
    cluster: Cluster, operator: StartOperator, proxy: Proxy
) -> None:
    two_queues(cluster, 1)
    cluster.add_nodes(1, gpus=1)
    operator(proxy=proxy)
    cluster.create(objects.pod("victim", "borrower"))
    cluster.wait_bound(["victim"])
    held = proxy.add("DELETE", "/pods/", hold=True)
    cluster.create(objects.pod("own", "owner"))
    held.wait_hits(1)
    cluster.delete("Pod", "victim", "default", grace_s=0)
    made = cluster.create(objects.pod("victim", "borrower"))["metadata"]["uid"]
    proxy.remove(held)
    cluster.wait_bound(["own"])
    assert cluster.pod("victim")["metadata"]["uid"] == made
    assert "deletionTimestamp" not in cluster.pod("victim")["metadata"]


def test_nobody_is_evicted_for_a_group_that_went_away(cluster: Cluster, operator: StartOperator, proxy: Proxy) -> None:
    """The first eviction hangs; the gang for which it was decided is deleted: no other pod goes for it."""
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
