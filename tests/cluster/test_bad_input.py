"""Mistakes of users on a real API server: they are told what is wrong and what to do, and nobody else is hurt."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster, condition_of
from tests.cluster.installed import lenient
from tests.cluster.operator_process import Operator
from tests.cluster.processes import wait_until


@pytest.fixture
def anything_goes(live: Cluster) -> Iterator[None]:
    """Queues and pod groups that nobody refuses, as with CRDs that ask for less."""
    with lenient(live, objects.queue("probe", quota=-2), objects.pod_group("probe", minSubGroup=1)):
        yield


def default_queues(cluster: Cluster) -> None:
    """The queues that an empty cluster gets."""
    cluster.create_all([objects.queue("default-parent-queue", quota=0)])
    cluster.create(objects.queue("default-queue", "default-parent-queue", quota=0))


def test_a_pod_without_queue_label_runs_in_the_default_queue_and_is_told_so(live: Cluster) -> None:
    default_queues(live)
    live.add_nodes()
    live.create(objects.pod("unlabelled", queue=None))
    live.wait_bound(["unlabelled"])
    event = live.wait_event("unlabelled", names.QUEUE_LABEL_MISSING)
    assert event["type"] == "Warning"
    assert names.QUEUE_LABEL in event["message"]
    assert "default-queue" in event["message"]
    status = wait_until(lambda: live.get("Queue", "default-queue").get("status"), "the queue's status")
    assert status["requested"][objects.GPU] == "1"


def test_a_pod_without_queue_label_waits_where_there_is_no_default_queue(live: Cluster) -> None:
    live.add_nodes()
    live.add_queues("team")
    live.create(objects.pod("unlabelled", queue=None))
    live.wait_event("unlabelled", names.QUEUE_LABEL_MISSING)
    told = live.wait_condition("Pod", "unlabelled", names.POD_SCHEDULED, status="False", reason="QueueDoesNotExist")
    assert "'default-queue'" in told["message"]
    assert "team" in told["message"]
    default_queues(live)
    live.wait_bound(["unlabelled"])


@pytest.mark.parametrize(
    ("queue", "reason", "advice"),
    [
        pytest.param("taem", "QueueDoesNotExist", "create it, or correct", id="unknown"),
        pytest.param("org", "QueueIsNotALeaf", "use one of", id="not a leaf"),
    ],
)
def test_an_unusable_queue_is_named_with_those_that_could_be_used(
    live: Cluster, queue: str, reason: str, advice: str
) -> None:
    def told(message: str) -> bool:
        return all(text in message for text in (repr(queue), "other", "team", advice))

    live.add_nodes()
    live.add_queues("team", "other")
    live.create_all([objects.pod("single", queue), *objects.gang("gang", 2, queue), objects.pod("good")])
    live.wait_bound(["good"])
    for pod in ("single", "gang-0", "gang-1"):
        condition = live.wait_condition("Pod", pod, names.POD_SCHEDULED, status="False", reason=reason)
        assert told(condition["message"]), condition
    for name in ("single", "gang"):
        event = live.wait_event(name, reason)
        assert event["type"] == "Warning"
        assert told(event["message"]), event
    shown = wait_until(lambda: live.get("PodGroup", "gang").get("status", {}).get("schedulingConditions"), "the group")
    assert [one["reason"] for one in shown[-1]["reasons"]] == [reason]
    # The mistake is corrected.
    live.kubectl("label", "pod", "single", f"{names.QUEUE_LABEL}=team", "--overwrite")
    live.kubectl("patch", "podgroup", "gang", "--type=merge", "--patch", '{"spec": {"queue": "other"}}')
    live.wait_bound(["single", "gang-0", "gang-1"])


def test_queues_that_contradict_themselves_are_told_and_all_others_go_on(live: Cluster) -> None:
    """Without webhooks: what the CRD alone cannot refuse gets in."""
    live.add_nodes()
    live.add_queues("team")
    round_about = [objects.queue("here", "there"), objects.queue("there", "here")]
    live.create_all([*round_about, objects.queue("lost", "nowhere"), objects.queue("below", "lost")])
    live.create_all(objects.pod(f"in-{queue}", queue) for queue in ("here", "lost", "below", "team"))
    assert set(live.wait_bound(["in-team"])) == {"in-team"}
    for queue, reason, text in (
        ("here", "CircleOfParents", "here -> there -> here"),
        ("lost", "ParentDoesNotExist", "'nowhere'"),
        ("below", "AncestorLeftOut", "'lost'"),
    ):
        told = live.wait_condition("Queue", queue, names.ORPHAN, status="True", reason=reason)
        assert text in told["message"]
        live.wait_condition("Pod", f"in-{queue}", names.POD_SCHEDULED, status="False", reason="QueueDoesNotExist")
    assert condition_of(live.get("Queue", "team"), names.ORPHAN) is None
    # What is mended is told no longer.
    live.create(objects.queue("nowhere"))
    live.kubectl("patch", "queue", "here", "--type=merge", "--patch", '{"spec": {"parentQueue": null}}')
    live.wait_bound(["in-below"])

    def mended() -> bool:
        assert [queue["metadata"]["name"] for queue in live.list("Queue") if condition_of(queue, names.ORPHAN)] == []
        return True

    wait_until(mended, "all queues being mended")


@pytest.mark.usefixtures("anything_goes")
def test_a_queue_that_cannot_be_read_is_told_the_field_and_all_others_go_on(live: Cluster) -> None:
    live.add_nodes()
    live.add_queues("team", "broken")
    live.patch("Queue", "broken", {"spec": {"preemptMinRuntime": "soon"}})
    told = live.wait_condition("Queue", "broken", names.INVALID, status="True")
    assert "preemptMinRuntime" in told["message"]
    assert "soon" in told["message"]
    live.create_all([objects.pod("waits", "broken"), objects.pod("runs")])
    live.wait_bound(["runs"])
    live.patch("Queue", "broken", {"spec": {"preemptMinRuntime": "20s"}})
    live.wait_bound(["waits"])
    wait_until(lambda: condition_of(live.get("Queue", "broken"), names.INVALID) is None, "the queue being mended")


# The field that is to be named, and the specification.
CONTRADICTIONS: dict[str, tuple[str, Object]] = {
    "minima": ("minMember", {"minMember": 2, "minSubGroup": 1, "subGroups": [{"name": "a", "minMember": 1}]}),
    "type": ("minMember", {"minMember": "two"}),
    "twins": ("subGroups[0].name", {"subGroups": [{"name": "a", "minMember": 1}, {"name": "a", "minMember": 2}]}),
    "orphan": ("subGroups[0].parent", {"subGroups": [{"name": "a", "minMember": 1, "parent": "b"}]}),
    "circle": ("subGroups", {"subGroups": [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]}),
}


@pytest.mark.usefixtures("anything_goes")
def test_pod_groups_that_contradict_themselves_are_told_the_field_and_others_go_on(live: Cluster) -> None:
    live.add_nodes()
    live.add_queues("team")
    live.create_all(objects.pod_group(name, **spec) for name, (_, spec) in CONTRADICTIONS.items())
    live.create_all([*(objects.pod(f"{name}-0", group=name) for name in CONTRADICTIONS), *objects.gang("fine", 2)])
    live.wait_bound(["fine-0", "fine-1"])
    for name, (field, _) in CONTRADICTIONS.items():
        told = live.wait_condition("PodGroup", name, names.INVALID, status="True")
        assert told["message"].startswith(f"spec.{field}"), told
    for name in CONTRADICTIONS:
        live.patch("PodGroup", name, {"spec": {"minMember": 1, "minSubGroup": None, "subGroups": None}})
    live.wait_bound([f"{name}-0" for name in CONTRADICTIONS])

    def mended() -> bool:
        assert [group for group in live.list("PodGroup") if condition_of(group, names.INVALID)] == []
        return True

    wait_until(mended, "all groups being mended")


def test_a_pod_that_names_what_is_not_there_is_told(live: Cluster) -> None:
    live.add_nodes()
    live.add_queues("team")
    live.create_all(objects.gang("gang", 1))
    live.create(objects.pod("no-group", group="gnag"))
    live.create(objects.pod("no-sub-group", group="gang", labels={names.SUB_GROUP_LABEL: "workers"}))
    told = live.wait_condition("Pod", "no-group", names.POD_SCHEDULED, reason=names.POD_GROUP_DOES_NOT_EXIST)
    assert "default/gnag" in told["message"]
    told = live.wait_condition("Pod", "no-sub-group", names.POD_SCHEDULED, reason=names.SUB_GROUP_DOES_NOT_EXIST)
    assert "'workers'" in told["message"]
    assert "default/gang" in told["message"]
    live.create(objects.pod_group("gnag"))
    live.wait_bound(["no-group"])


def test_settings_that_cannot_be_read_leave_the_others_in_force(live: Cluster, shared_operator: Operator) -> None:
    def problems() -> list[str]:
        return [line["problem"] for line in shared_operator.logs("settings.problem")]

    shard = {
        "apiVersion": names.CONFIG_VERSION,
        "kind": "SchedulingShard",
        "metadata": objects.meta("default"),
        "spec": {"queueDepthPerAction": {"dance": 1}},
    }
    live.create(shard)
    wait_until(lambda: any("dance" in problem for problem in problems()), "the log naming the mistake")
    live.add_nodes()
    live.add_queues("team")
    live.create(objects.pod("first"))
    live.wait_bound(["first"])
