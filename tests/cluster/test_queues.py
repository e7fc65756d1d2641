"""Queues on a real API server: limits, quotas, priorities and weights decide, and a patch of them decides at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.processes import wait_until


def pods_of(queue: str, count: int, **spec: Any) -> Sequence[Object]:
    """Pods QUEUE-0 and on, of one GPU each."""
    return [objects.pod(f"{queue}-{n}", queue, **spec) for n in range(count)]


def bound_by_queue(cluster: Cluster) -> Counter[str]:
    """How many pods of each queue are bound; the pods are named after their queues."""
    return Counter(name.rpartition("-")[0] for name in cluster.bound())


def waiting_reasons(cluster: Cluster) -> Mapping[str, int]:
    """How many pods that are not bound have which reason in their condition PodScheduled."""
    pods = [pod for pod in cluster.list("Pod", "default") if not pod["spec"].get("nodeName")]
    found = [one["reason"] for pod in pods for one in pod["status"].get("conditions", [])]
    return Counter(found) if len(found) == len(pods) else Counter()


def patch(cluster: Cluster, queue: str, gpu: str = "", spec: str = "") -> None:
    """Patch a queue with kubectl, as people do: fields of spec.resources.gpu, or of spec."""
    change = f'{{"spec": {{"resources": {{"gpu": {{{gpu}}}}}}}}}' if gpu else f'{{"spec": {{{spec}}}}}'
    cluster.kubectl("patch", "queue", queue, "--type=merge", "--patch", change)


def gpus(cluster: Cluster, queue: str, field: str) -> str | None:
    """GPUs in a field of a queue's status, such as fairShare."""
    amount: str | None = cluster.get("Queue", queue).get("status", {}).get(field, {}).get(objects.GPU)
    return amount


def test_a_limit_is_kept_and_a_patched_one_too(live: Cluster) -> None:
    live.add_nodes()
    live.add_queues("team", limit=2)
    live.create_all(pods_of("team", 4))
    wait_until(lambda: waiting_reasons(live) == {names.QUEUE_OVER_LIMIT: 2}, "two pods being told of the limit")
    assert bound_by_queue(live) == {"team": 2}
    patch(live, "team", '"limit": 3')
    wait_until(lambda: bound_by_queue(live) == {"team": 3}, "one more pod being bound")
    # An unlimited queue below a limited one is limited.
    patch(live, "org", '"limit": 3')
    patch(live, "team", '"limit": -1')
    live.create_all([objects.queue("free"), *pods_of("free", 1)])
    live.wait_bound(["free-0"])
    assert bound_by_queue(live)["team"] == 3
    patch(live, "org", '"limit": -1')
    wait_until(lambda: bound_by_queue(live)["team"] == 4, "the last pod being bound")


def test_work_that_may_not_be_evicted_stays_within_the_quota(live: Cluster) -> None:
    live.add_nodes()
    live.add_queues("team", quota=1)
    for n in range(3):
        live.create_all(objects.gang(f"team-{n}", 1, preemptibility="non-preemptible"))
    wait_until(lambda: waiting_reasons(live) == {names.QUEUE_OVER_QUOTA: 2}, "two pods being told of the quota")
    assert bound_by_queue(live).total() == 1
    patch(live, "team", '"quota": 2')
    wait_until(lambda: bound_by_queue(live).total() == 2, "one more pod being bound")
    # Work that may be evicted goes beyond it.
    live.create(objects.pod("elastic-0", "team"))
    live.wait_bound(["elastic-0"])


def test_the_borrower_of_higher_priority_gets_the_surplus_first(live: Cluster) -> None:
    low, high = objects.queue("low", quota=1, priority=100), objects.queue("high", quota=1, priority=200)
    live.create_all([low, high, *pods_of("low", 6), *pods_of("high", 4)])
    wait_until(lambda: waiting_reasons(live) == {names.UNSCHEDULABLE: 10}, "all pods being known")
    live.add_nodes(1, gpus=4)
    wait_until(lambda: bound_by_queue(live).total() == 4, "four pods being bound")
    assert bound_by_queue(live) == {"high": 3, "low": 1}
    # What the higher cannot use goes to the lower.
    live.add_nodes(1, gpus=4, prefix="late")
    wait_until(lambda: bound_by_queue(live).total() == 8, "eight pods being bound")
    assert bound_by_queue(live) == {"high": 4, "low": 4}


@pytest.mark.parametrize(
    ("gpu", "spec", "shares"),
    [
        pytest.param('"overQuotaWeight": 3', "", ("6", "2"), id="weight"),
        pytest.param("", '"priority": 200', ("8", "0"), id="priority"),
        pytest.param('"quota": 6', "", ("7", "1"), id="quota"),
        pytest.param('"limit": 3', "", ("3", "5"), id="limit"),
    ],
)
def test_a_patched_queue_gets_other_shares_and_decisions(
    live: Cluster, gpu: str, spec: str, shares: tuple[str, str]
) -> None:
    def fair_shares() -> tuple[str | None, str | None]:
        return gpus(live, "one", "fairShare"), gpus(live, "two", "fairShare")

    def told() -> bool:
        assert fair_shares() == shares
        return True

    live.create_all([objects.queue("one", quota=0), objects.queue("two", quota=0)])
    held = {"nodeSelector": {"stage": "open"}}  # so that shares are seen before they are used
    live.create_all([*pods_of("one", 8, **held), *pods_of("two", 8, **held)])
    live.add_nodes(1, gpus=8)
    wait_until(lambda: fair_shares() == ("4", "4"), "the equal shares being shown")
    patch(live, "one", gpu, spec)
    wait_until(told, "the new shares being shown")
    live.kubectl("label", "node", "node-0", "stage=open")
    wait_until(lambda: bound_by_queue(live).total() == 8, "eight pods being bound")
    assert bound_by_queue(live) == {
        name: int(share) for name, share in zip(("one", "two"), shares, strict=True) if share != "0"
    }


def test_a_queue_sums_up_what_its_pods_and_its_children_hold_and_want(live: Cluster) -> None:
    live.add_nodes(1, gpus=4)
    live.add_queues("team", "other", quota=2)
    live.create_all([*objects.gang("train", 2, gpus=2, preemptibility="non-preemptible", queue="other")])
    live.create_all(objects.gang("fixed", 1, gpus=2, preemptibility="non-preemptible", queue="team"))
    live.wait_bound(["fixed-0"])
    live.create_all([objects.pod("team-0", gpus=1), objects.pod("team-1", gpus=2)])
    expected = {
        ("team", "allocatedNonPreemptible"): "2",
        ("team", "requested"): "5",
        ("other", "allocated"): None,
        ("other", "requested"): "4",
        ("org", "allocatedNonPreemptible"): "2",
        ("org", "requested"): "9",
    }

    def summed() -> bool:
        assert {key: gpus(live, *key) for key in expected} == expected
        return True

    wait_until(summed, "the queues' sums")
    held = {"fixed-0": 2, "team-0": 1, "team-1": 2}
    wait_until(lambda: len(live.bound()) == 2, "one more pod having a place")  # the rest is too much together
    total = sum(held[pod] for pod in live.bound())
    wait_until(lambda: gpus(live, "org", "allocated") == str(total), "what is held")
    assert live.get("Queue", "org")["status"]["childQueues"] == ["other", "team"]
    assert "childQueues" not in live.get("Queue", "team")["status"]
    status = live.get("Queue", "team")["status"]
    assert (status["requested"]["cpu"], status["requested"]["memory"]) == ("300m", str(3 * 64 * 2**20))
    for pod in ["fixed-0", "train-0", "train-1", "team-0", "team-1"]:
        live.delete("Pod", pod)
    wait_until(lambda: not live.get("Queue", "org")["status"].keys() & {"allocated", "requested"}, "all of it gone")


def test_kubectl_get_queues_tells_what_users_need(live: Cluster) -> None:
    live.add_nodes(1, gpus=4)
    live.create(objects.queue("org"))
    team = objects.queue("team", "org", quota=2, priority=150)
    team["spec"]["displayName"] = "The Team"
    live.create_all([team, *pods_of("team", 5)])
    wait_until(lambda: gpus(live, "team", "allocated") == "4", "the queue's status")
    wait_until(lambda: gpus(live, "team", "fairShare") == "4", "the queue's share")
    wide = live.kubectl("get", "queues").splitlines()
    columns = wide[0].split()
    assert columns[:5] == ["NAME", "PRIORITY", "PARENT", "CHILDREN", "DISPLAYNAME"]
    (row,) = [line for line in wide if line.startswith("team ")]
    assert "150" in row
    assert "org" in row
    assert "The Team" in row
    shown = live.kubectl(
        "get", "queue", "team", "--output=custom-columns=A:.status.allocated.nvidia\\.com/gpu", "--no-headers"
    )
    assert shown.split() == ["4"]
    at = [wide[0].index(name) for name in ("GPU-QUOTA", "GPU-FAIR-SHARE", "GPU-ALLOCATED", "GPU-REQUESTED")]
    assert [row[start:].split()[0] for start in at] == ["2", "4", "4", "5"]
    (above,) = [line for line in wide if line.startswith("org ")]
    assert '["team"]' in above
