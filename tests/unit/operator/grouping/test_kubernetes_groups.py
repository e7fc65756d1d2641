"""The grouper with PodGroups of Kubernetes itself: when its pods are looked at again, and an API server without any."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kai_sched.api import names
from kai_sched.model.objects import PriorityClass
from kai_sched.operator.reporting.observations import KubernetesGroup
from tests.unit.operator.grouped import Object, Played, job, settle, until

NAME = "pg-g-uid-g"
PATH = "/apis/scheduling.k8s.io/v1beta1/namespaces/ml/podgroups/g"

pytestmark = pytest.mark.usefixtures("hundredths")


def group(least: int = 2, status: Object | None = None, **meta: Any) -> Object:
    version, kind = names.KUBERNETES_GROUP
    labels = {"kai.scheduler/queue": "team"}
    about = {"name": "g", "namespace": "ml", "uid": "uid-g", "generation": 1, "labels": labels, **meta}
    spec = {"schedulingPolicy": {"gang": {"minCount": least}}}
    return {"apiVersion": version, "kind": kind, "metadata": about, "spec": spec, "status": status or {}}


def naming(played: Played, name: str, owner: Object | None = None) -> None:
    """A pod that names the group, alone or of an owner."""
    about: Object = {"name": name, "namespace": "ml", "uid": f"uid-{name}"}
    if owner is not None:
        meta = owner["metadata"]
        about["ownerReferences"] = [
            {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
        ]
    spec = {
        "schedulerName": "kai-scheduler",
        "containers": [{"name": "main"}],
        "schedulingGroup": {"podGroupName": "g"},
    }
    played.api.put({"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec, "status": {}})


@pytest.fixture
def serving(played: Played) -> Played:
    """Before an API server that has PodGroups of Kubernetes."""
    version, kind = names.KUBERNETES_GROUP
    played.api.kinds[version] = (kind, "Workload")
    return played


async def test_bare_pods_that_name_a_group_are_a_gang(serving: Played) -> None:
    serving.api.put(group())
    for name in "ab":
        naming(serving, name)
    assert serving.place("a") is None, "held back until it is known where it belongs"
    serving.start()
    await settle(serving)
    assert [serving.place(name) for name in "ab"] == [(NAME, "")] * 2
    assert [serving.shown(name) for name in "ab"] == [(NAME, None)] * 2
    found = serving.group(NAME)
    assert found is not None
    assert (found.min_member, found.queue, found.owner_kind, found.owner_name) == (2, "team", "PodGroup", "g")
    owner = serving.owners.owner_of(f"ml/{NAME}")
    assert owner is not None
    assert (owner.api_version, owner.kind, owner.name) == (*names.KUBERNETES_GROUP, "g"), "events go there"
    assert serving.events == []
    assert serving.api.asked_for("GET", "/podgroups/g") == 1, "for all its pods"


async def test_a_pod_waits_until_its_group_is_made(serving: Played) -> None:
    naming(serving, "a")
    serving.start()
    await until(lambda: serving.events)
    (event,) = serving.events
    assert event.message.startswith("Pod ml/a: spec.schedulingGroup.podGroupName: there is no PodGroup 'g'")
    assert serving.place("a") is None
    serving.api.put(group())
    await until(lambda: serving.place("a") == (NAME, ""))


async def test_another_minimum_counts_at_once_and_a_status_does_not(serving: Played) -> None:
    serving.api.put(group())
    naming(serving, "a")
    serving.start()
    await settle(serving)
    asked = serving.api.asked_for("GET", "/podgroups/g")
    serving.api.put(group(status={"conditions": []}))
    await asyncio.sleep(0.1)
    assert serving.api.asked_for("GET", "/podgroups/g") == asked
    serving.api.put(group(5))

    def counts() -> bool:
        found = serving.group(NAME)
        return found is not None and found.min_member == 5

    await until(counts)


@pytest.mark.parametrize("order", ["abc", "cab", "cba"])
async def test_another_minimum_counts_whoever_is_decided_again(serving: Played, order: str) -> None:
    """Pods without owners do not disagree as some were decided before, and some after the group has changed."""
    serving.api.put(group(4))
    for name in order:
        naming(serving, name)
    serving.start()
    await settle(serving)
    serving.api.put(group(3))
    naming(serving, "b")  # waits to be decided again, and is not the one that decides

    def counts() -> bool:
        found = serving.group(NAME)
        return found is not None and found.min_member == 3

    await until(counts)
    await settle(serving)
    assert serving.events == []


async def test_without_the_api_the_owner_decides_and_the_pod_is_told(played: Played) -> None:
    """As before, on an API server that has no PodGroups: also a bare pod is what it was, a group of one."""
    owner = played.api.put(job())
    naming(played, "a", owner)
    naming(played, "b")
    played.start()
    await settle(played)
    assert (played.place("a"), played.place("b")) == (("pg-train-uid-train", ""), ("", ""))
    (event,) = played.events
    assert "spec.schedulingGroup: the API server does not serve PodGroup of scheduling.k8s.io/v1beta1" in event.message


def terms(played: Played) -> tuple[str, str]:
    found = played.group(NAME)
    assert found is not None
    return found.queue, found.priority_class


@pytest.mark.parametrize("order", [("ja", "jb"), ("jb", "ja")])
async def test_of_several_owners_the_same_decides_while_it_has_pods(serving: Played, order: tuple[str, str]) -> None:
    """Else each new pod of the other would change the class of pods that run; an event tells the difference, once."""
    serving.store.put(PriorityClass("build", 100))
    classes = {"ja": "train", "jb": "build"}
    jobs = {
        name: serving.api.put(job(name, **{"kai.scheduler/queue": f"q-{name}", "priorityClassName": each}))
        for name, each in classes.items()
    }
    serving.api.put(group(labels={}))
    serving.start()
    for name in order:
        naming(serving, f"{name}-0", jobs[name])
        await settle(serving)
    # The queue of the group that is there is kept, as it was: a bound group would not move.
    assert terms(serving)[1] == "train"
    written = serving.api.version
    naming(serving, "jb-1", jobs["jb"])
    await settle(serving)
    assert terms(serving)[1] == "train"
    assert serving.api.version == written + 2, "the pod, and that it is in the group"
    (event,) = serving.events
    assert "Job ml/ja and Job ml/jb have pods in it, and the former decides (priorityClassName: 'train', not" in (
        event.message
    )
    owner = serving.owners.owner_of(f"ml/{NAME}")
    assert owner is not None
    assert owner.kind == "PodGroup"
    serving.api.delete("/api/v1/namespaces/ml/pods/ja-0")
    await until(lambda: terms(serving)[1] == "build")


async def test_a_new_leader_does_not_change_a_group_to_and_fro(serving: Played) -> None:
    jobs = [serving.api.put(job(name, **{"kai.scheduler/queue": f"q-{name}"})) for name in ("ja", "jb")]
    serving.api.put(group(labels={}))
    for each in reversed(jobs):
        naming(serving, f"{each['metadata']['name']}-0", each)
    serving.start()
    await settle(serving)
    assert terms(serving) == ("q-ja", "train")
    (written,) = (each for path, each in serving.api.objects.items() if path.endswith(NAME))
    assert written["spec"]["queue"] == "q-ja"
    assert serving.api.asked_for("PUT") == 0


CLASSES = {"ja": "train", "jb": "build"}


def relabel(played: Played, **queues: str) -> dict[str, Object]:
    """Jobs by name, each with a class of its own, and with these queues, "" for none."""
    played.store.put(PriorityClass("build", 100))
    found = {}
    for name, queue in queues.items():
        content = job(name, **{"priorityClassName": CLASSES[name], "kai.scheduler/queue": queue})
        if not queue:
            del content["metadata"]["labels"]["kai.scheduler/queue"]
        found[name] = played.api.put(content)
    return found


async def shared(played: Played, **queues: str) -> dict[str, Object]:
    """The jobs, with a pod each in the group, once that is settled."""
    jobs = relabel(played, **queues)
    played.api.put(group(labels={}))
    played.start()
    for name in jobs:
        naming(played, f"{name}-0", jobs[name])
    await settle(played)
    assert terms(played)[1] == "train"
    return jobs


def look_again(played: Played) -> None:
    """As the grouper does from time to time, and where the group has changed."""
    (source,) = (member.source for key, member in played.intake.groups._members.items() if key == "ml/ja-0")
    played.intake.requests.reconcile(source, uncached=True)


async def test_an_owner_that_loses_its_queue_no_longer_decides(serving: Played) -> None:
    await shared(serving, ja="qa", jb="qb")
    relabel(serving, ja="")
    look_again(serving)
    await until(lambda: terms(serving)[1] == "build")


async def test_an_owner_that_gets_a_queue_decides(serving: Played) -> None:
    await shared(serving, ja="", jb="")
    relabel(serving, jb="qb")
    look_again(serving)
    await until(lambda: terms(serving)[1] == "build")


async def test_a_pod_that_leaves_its_owner_leaves_the_decision_to_others(serving: Played) -> None:
    await shared(serving, ja="qa", jb="qb")
    naming(serving, "ja-0")
    await until(lambda: terms(serving)[1] == "build")


async def test_statuses_of_groups_are_observed(serving: Played) -> None:
    serving.api.put(group(status={"conditions": []}))
    assert serving.news.take() == {("scheduling.k8s.io", "ml/g"): KubernetesGroup("uid-g", b'{"conditions": []}', 1)}
    serving.api.delete(PATH)
    assert serving.news.take() == {("scheduling.k8s.io", "ml/g"): None}
