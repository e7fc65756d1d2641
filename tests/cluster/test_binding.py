"""Pods and gangs on a real API server: what is bound, what is not, and where."""

from __future__ import annotations

import pytest

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.processes import wait_until

# As somebody writes it who has read docs/install.md.
TWO_TEAMS = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata:
  name: research
spec:
  resources:
    cpu: {quota: -1, limit: -1, overQuotaWeight: 1}
    memory: {quota: -1, limit: -1, overQuotaWeight: 1}
    gpu: {quota: 4, limit: -1, overQuotaWeight: 1}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata:
  name: vision
spec:
  parentQueue: research
  resources:
    cpu: {quota: -1, limit: -1, overQuotaWeight: 1}
    memory: {quota: -1, limit: -1, overQuotaWeight: 1}
    gpu: {quota: 4, limit: -1, overQuotaWeight: 1}
---
apiVersion: v1
kind: Pod
metadata:
  name: single
  labels:
    kai.scheduler/queue: vision
spec:
  schedulerName: kai-scheduler
  containers:
  - name: main
    image: python:3.11
    resources:
      limits:
        nvidia.com/gpu: 1
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata:
  name: pair
spec:
  queue: vision
  minMember: 2
---
apiVersion: v1
kind: Pod
metadata:
  name: pair-0
  annotations:
    pod-group-name: pair
spec:
  schedulerName: kai-scheduler
  containers:
  - name: main
    image: python:3.11
    resources:
      requests:
        cpu: 500m
      limits:
        nvidia.com/gpu: "1"
---
apiVersion: v1
kind: Pod
metadata:
  name: pair-1
  annotations:
    pod-group-name: pair
spec:
  schedulerName: kai-scheduler
  containers:
  - name: main
    image: python:3.11
"""


def scheduling_condition(group: Object) -> Object | None:
    """The newest scheduling condition of a pod group."""
    found = group.get("status", {}).get("schedulingConditions") or [None]
    newest: Object | None = found[-1]
    return newest


def wait_not_placed(cluster: Cluster, group: str) -> Object:
    """Wait until the group has been tried in vain, and return what it was told."""
    return wait_until(lambda: scheduling_condition(cluster.get("PodGroup", group)), f"{group} being told why it waits")


@pytest.mark.essential
def test_queues_and_pods_applied_with_kubectl_are_bound_and_run(live: Cluster) -> None:
    live.add_nodes(2)
    live.kubectl("apply", "-f", "-", input=TWO_TEAMS)
    assert set(live.wait_bound(["single", "pair-0", "pair-1"])) == {"single", "pair-0", "pair-1"}
    for name in ("single", "pair-0", "pair-1"):
        live.kubectl("wait", "--for=jsonpath={.status.phase}=Running", f"pod/{name}", "--timeout=30s")


def test_only_pods_that_name_our_scheduler_are_bound(live: Cluster) -> None:
    live.add_nodes()
    live.add_queues("team")
    live.create(objects.pod("theirs", scheduler="default-scheduler"))
    live.create(objects.pod("last"))
    live.wait_bound(["last"])
    assert set(live.bound()) == {"last"}
    assert "conditions" not in live.pod("theirs")["status"]


@pytest.mark.essential
def test_a_gang_is_bound_as_a_whole_or_not_at_all(live: Cluster) -> None:
    live.add_nodes(2, gpus=4)
    live.add_queues("team")
    live.create_all(objects.gang("train", 3, gpus=4))
    told = wait_not_placed(live, "train")
    assert "2 of 3 pods of the gang fit" in told["message"]
    assert live.bound() == {}
    live.add_nodes(1, gpus=4, prefix="late")
    live.wait_bound([f"train-{n}" for n in range(3)])
    assert sorted(live.bound().values()) == ["late-0", "node-0", "node-1"]


def test_a_pod_waits_for_room_that_another_is_leaving(live: Cluster) -> None:
    live.add_nodes(1, gpus=1)
    live.add_queues("team")
    leaving = objects.pod("leaving")
    leaving["metadata"]["finalizers"] = ["example.com/held"]
    live.create(leaving)
    live.wait_bound(["leaving"])
    live.delete("Pod", "leaving", grace_s=0)
    live.create(objects.pod("next"))
    assert "node-0" in live.wait_event("next", "Pipelined")["message"]
    assert set(live.bound()) == {"leaving"}
    live.patch("Pod", "leaving", {"metadata": {"finalizers": None}}, "default")
    live.wait_bound(["next"])


def test_a_gang_that_cannot_start_leaves_its_room_to_others(live: Cluster) -> None:
    live.add_nodes(1, gpus=4)
    live.add_queues("team")
    live.create_all(objects.gang("large", 5))
    wait_not_placed(live, "large")
    live.create_all(objects.gang("small", 4))
    live.wait_bound([f"small-{n}" for n in range(4)])
    assert set(live.bound()) == {f"small-{n}" for n in range(4)}


def test_a_gang_waits_until_it_is_complete(live: Cluster) -> None:
    live.add_nodes(1)
    live.add_queues("team")
    group, *members = objects.gang("train", 3)
    live.create_all([group, *members[:2]])
    for name in ("train-0", "train-1"):
        live.wait_condition("Pod", name, names.POD_SCHEDULED, status="False", reason=names.GANG_NOT_READY)
    assert live.bound() == {}
    live.create(members[2])
    live.wait_bound(["train-0", "train-1", "train-2"])


def test_more_pods_of_a_group_than_it_needs_are_bound_as_there_is_room(live: Cluster) -> None:
    live.add_nodes(1, gpus=3)
    live.add_queues("team")
    members = [objects.pod(f"elastic-{n}", group="elastic") for n in range(4)]
    live.create_all([objects.pod_group("elastic", min_member=2), *members])
    wait_until(lambda: len(live.bound()) == 3, "three pods being bound")
    (left,) = {f"elastic-{n}" for n in range(4)} - live.bound().keys()
    live.wait_condition("Pod", left, names.POD_SCHEDULED, status="False", reason=names.UNSCHEDULABLE)


def shard(**placement: str) -> Object:
    """The shard that the operator serves where no other is named."""
    content = {"placementStrategy": placement} if placement else {}
    return {
        "apiVersion": names.CONFIG_VERSION,
        "kind": "SchedulingShard",
        "metadata": objects.meta("default"),
        "spec": content,
    }


def test_pods_are_packed_or_spread_as_the_shard_says(live: Cluster) -> None:
    live.add_nodes(2)
    live.add_queues("team")
    live.create_all([objects.pod("packed-0"), objects.pod("packed-1")])
    nodes = live.wait_bound(["packed-0", "packed-1"])
    assert len(set(nodes.values())) == 1
    live.apply(shard(gpu="spread", cpu="spread"))
    (full,) = set(nodes.values())
    live.create_all([objects.pod("spread-0"), objects.pod("spread-1")])
    nodes = live.wait_bound(["spread-0", "spread-1"])
    assert full not in (nodes["spread-0"], nodes["spread-1"])
    live.apply(shard(gpu="binpack", cpu="binpack"))
    live.create_all([objects.pod("again-0"), objects.pod("again-1")])
    nodes = live.wait_bound(["again-0", "again-1"])
    assert nodes["again-0"] == nodes["again-1"]


def test_a_cordoned_node_and_a_tainted_one_get_no_pods(live: Cluster) -> None:
    live.add_nodes(2)
    live.add_queues("team")
    live.kubectl("cordon", "node-0")
    live.kubectl("taint", "node", "node-1", "dedicated=infra:NoSchedule")
    live.create(objects.pod("first"))
    told = live.wait_condition("Pod", "first", names.POD_SCHEDULED, status="False", reason=names.UNSCHEDULABLE)
    assert "taint" in told["message"]
    live.kubectl("uncordon", "node-0")
    assert live.wait_bound(["first"]) == {"first": "node-0"}


def test_room_is_given_again_once_pods_have_ended(live: Cluster) -> None:
    live.add_nodes(1, gpus=1)
    live.add_queues("team")
    live.create_all([objects.pod("first"), objects.pod("second")])
    wait_until(lambda: len(live.bound()) == 1, "one pod being bound")
    (first,) = live.bound()
    (second,) = {"first", "second"} - {first}
    live.wait_condition("Pod", second, names.POD_SCHEDULED, status="False", reason=names.UNSCHEDULABLE)
    live.delete("Pod", first)
    live.wait_bound([second])
