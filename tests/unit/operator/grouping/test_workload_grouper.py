"""The WorkloadGrouper before an API server in memory."""

from __future__ import annotations

import asyncio

import pytest

from kai_sched.api import names
from kai_sched.cluster.client import NOT_LEADER, ApiFailure
from kai_sched.model.config import Config
from kai_sched.operator.grouping import workload_grouper
from kai_sched.operator.grouping.owner_cache import OwnerView
from tests.unit.operator.grouped import GROUPS, Played, job, ray_cluster, settle, until

NAME = "pg-train-uid-train"


pytestmark = pytest.mark.usefixtures("hundredths")


async def test_pods_get_their_group_and_say_so(played: Played) -> None:
    owner = played.api.put(job())
    for name in "ab":
        played.owned(owner, name)
    assert played.place("a") is None, "held back until it is known where it belongs"
    played.start()
    await settle(played)
    assert [played.place(name) for name in "ab"] == [(NAME, "")] * 2
    assert [played.shown(name) for name in "ab"] == [(NAME, None)] * 2
    group = played.group(NAME)
    assert group is not None
    assert (group.min_member, group.queue, group.priority_class) == (2, "team", "train")
    written = played.api.objects[f"{GROUPS}/{NAME}"]
    assert written["metadata"]["ownerReferences"] == [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-train"}
    ]
    assert (played.api.asked_for("POST"), played.api.asked_for("PUT"), played.api.asked_for("PATCH")) == (1, 0, 2)
    assert [whole for _, path, whole in played.api.asked if path.endswith("/jobs/train")] == [False]


async def test_nothing_is_looked_at_or_written_before_this_replica_leads(played: Played) -> None:
    played.owned(played.api.put(job()), "a")
    await asyncio.sleep(0.05)
    assert played.api.asked == []


async def test_cycles_act_once_the_first_looks_are_over(played: Played) -> None:
    gate = asyncio.Event()

    async def hold(method: str, path: str) -> None:
        if method == "GET" and path.endswith("/late"):
            await gate.wait()

    played.api.before = hold
    for name in ("train", "late"):
        played.owned(played.api.put(job(name)), f"{name}-0")
    played.start()
    await until(lambda: played.place("train-0") is not None)
    assert not played.grouper.is_caught_up, "late could have the better claim"
    gate.set()
    await until(lambda: played.grouper.is_caught_up)
    assert played.place("late-0") is not None


async def test_cycles_do_not_wait_long_for_an_owner(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_grouper, "CATCH_UP_S", 0.05)

    async def hold(method: str, _: str) -> None:
        if method == "GET":
            await asyncio.Event().wait()

    played.api.before = hold
    played.owned(played.api.put(job()), "a")
    played.start()
    await until(lambda: played.grouper.is_caught_up)
    assert played.place("a") is None


async def test_decisions_hold_before_they_are_written(played: Played) -> None:
    gate = asyncio.Event()

    async def hold(method: str, _: str) -> None:
        if method != "GET":
            await gate.wait()

    played.api.before = hold
    played.owned(played.api.put(ray_cluster("ray", 2)), "head", labels={"ray.io/group": "headgroup"})
    played.start()
    await until(lambda: played.place("head") == ("pg-ray-uid-ray", "headgroup"))
    group = played.group("pg-ray-uid-ray")
    assert group is not None
    assert (group.uid, group.min_member, [each.name for each in group.sub_groups]) == ("", 3, ["headgroup", "workers"])
    assert played.shown("head") == (None, None)
    gate.set()
    await settle(played)
    assert played.shown("head") == ("pg-ray-uid-ray", "headgroup")
    found = played.group("pg-ray-uid-ray")
    assert found is not None
    assert found.uid != ""
    assert [whole for _, path, whole in played.api.asked if path.endswith("/rayclusters/ray")] == [False, True]


async def test_a_second_start_finds_nothing_to_write(played: Played) -> None:
    owner = played.api.put(job())
    for name in "ab":
        played.owned(owner, name)
    played.start()
    await settle(played)
    again = Played()
    again.api.objects = played.api.objects
    for content in list(again.api.objects.values()):
        again.api.put(content)
    assert again.place("a") == (NAME, ""), "what it says itself holds from the beginning"
    again.start()
    await settle(again)
    await again.stop()
    assert {verb for verb, _, _ in again.api.asked} == {"GET"}


async def test_a_size_that_changes_is_followed(played: Played) -> None:
    """With the next pod, however shortly after the last look it comes; people's queue is kept."""
    owner = played.api.put(job())
    played.owned(owner, "a")
    played.start()
    await settle(played)
    written = played.api.objects[f"{GROUPS}/{NAME}"]
    written["spec"]["queue"] = "other"
    played.api.put(written, f"{GROUPS}/{NAME}")
    played.api.put(job(least=5))
    played.owned(owner, "b")
    await until(lambda: played.api.objects[f"{GROUPS}/{NAME}"]["spec"]["minMember"] == 5)
    group = played.group(NAME)
    assert group is not None
    assert (group.min_member, group.queue) == (5, "other")


async def test_a_size_that_changes_as_pods_go_is_followed(played: Played) -> None:
    owner = played.api.put(job(least=2))
    for name in "ab":
        played.owned(owner, name)
    played.start()
    await settle(played)
    await asyncio.sleep(0.1)
    played.api.put(job(least=1))
    played.api.delete("/api/v1/namespaces/ml/pods/a")
    await until(lambda: played.api.objects[f"{GROUPS}/{NAME}"]["spec"]["minMember"] == 1)


async def test_owners_of_waiting_pods_are_looked_at_from_time_to_time(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload_grouper, "RESYNC_S", 0.02)
    waiting, running = played.api.put(job("waiting")), played.api.put(job("running"))
    played.owned(waiting, "a")
    played.owned(running, "b", node="n1")
    played.start()
    await settle(played)
    await asyncio.sleep(0.15)
    played.api.asked.clear()
    await until(lambda: played.api.asked_for("GET", "/jobs/waiting") > 2)
    assert played.api.asked_for("GET", "/jobs/running") == 0


async def test_a_conflict_is_settled_with_what_is_there(played: Played) -> None:
    """The watch has not told yet of what somebody wrote: it is looked up."""
    owner = played.api.put(job())
    played.owned(owner, "a")
    played.start()
    await settle(played)
    played.delayed = True
    written = played.api.objects[f"{GROUPS}/{NAME}"]
    written["spec"]["markUnschedulable"] = False
    played.api.put(written, f"{GROUPS}/{NAME}")
    played.api.put(job(least=4))
    played.delayed = False
    played._news.clear()
    played.owned(owner, "b")
    await until(lambda: played.api.objects[f"{GROUPS}/{NAME}"]["spec"]["minMember"] == 4)
    assert played.api.objects[f"{GROUPS}/{NAME}"]["spec"]["markUnschedulable"] is False


async def test_what_fails_is_tried_again(played: Played) -> None:
    failures = {"GET": 2, "POST": 2, "PATCH": 2}

    async def fail(method: str, path: str) -> None:
        if failures.get(method):
            failures[method] -= 1
            raise ApiFailure(method, path, 503, "ServiceUnavailable", "not now")

    played.api.before = fail
    played.owned(played.api.put(job()), "a")
    played.start()
    await until(lambda: played.shown("a") == (NAME, None))
    assert set(failures.values()) == {0}
    assert played.events == []


async def test_what_is_refused_is_told_to_the_owner_once(played: Played) -> None:
    async def refuse(method: str, path: str) -> None:
        if method == "POST":
            raise ApiFailure(method, path, 403, "Forbidden", "exceeded quota")

    played.api.before = refuse
    played.owned(played.api.put(job()), "a")
    played.start()
    await until(lambda: played.api.asked_for("POST") > 2)
    (event,) = played.events
    assert (event.reason, event.ref.kind, event.ref.name) == ("PodGrouperWarning", "Job", "train")
    assert event.message == f"PodGroup ml/{NAME} cannot be written: exceeded quota"
    assert played.place("a") == (NAME, "")
    assert played.shown("a") == (None, None)


async def test_nothing_is_tried_again_where_the_lease_is_lost(played: Played) -> None:
    async def refuse(method: str, path: str) -> None:
        if method != "GET":
            raise ApiFailure(method, path, 0, NOT_LEADER, "not sent")

    played.api.before = refuse
    played.owned(played.api.put(job()), "a")
    played.start()
    await settle(played)
    await asyncio.sleep(0.1)
    assert played.api.asked_for("POST") == 1


async def test_a_group_that_somebody_deletes_comes_back_while_its_owner_is_there(played: Played) -> None:
    owner = played.api.put(job())
    played.owned(owner, "a")
    played.start()
    await settle(played)
    played.api.delete(f"{GROUPS}/{NAME}")
    assert played.group(NAME) is not None
    await until(lambda: f"{GROUPS}/{NAME}" in played.api.objects)
    played.api.objects.pop("/apis/batch/v1/namespaces/ml/jobs/train")
    played.api.asked.clear()
    played.api.delete(f"{GROUPS}/{NAME}")
    await settle(played)
    await asyncio.sleep(0.1)
    assert played.api.asked_for("POST") == 0


async def test_a_group_goes_from_the_store_with_its_last_pod(played: Played) -> None:
    owner = played.api.put(job())
    played.owned(owner, "a")
    played.start()
    await settle(played)
    played.api.delete("/api/v1/namespaces/ml/pods/a")
    assert played.group(NAME) is not None, "the API server still has it"
    played.api.delete(f"{GROUPS}/{NAME}")
    assert played.group(NAME) is None
    assert played.owners.owner_of(f"ml/{NAME}") is None
    await settle(played)
    assert f"{GROUPS}/{NAME}" not in played.api.objects


async def test_what_cannot_be_grouped_is_told_once_and_waits(played: Played) -> None:
    owner = job()
    played.owned(owner, "a")
    played.start()
    await until(lambda: played.api.asked_for("GET", "/jobs/train") > 1)
    assert played.events == [], "it may have been deleted together with its owner"
    await until(lambda: played.events)
    (event,) = played.events
    assert (event.type, event.reason, event.ref.key) == ("Warning", "PodGrouperWarning", "ml/a")
    assert "Job ml/train with the uid 'uid-train' owns it, but there is none" in event.message
    assert played.place("a") is None
    played.api.put(owner)
    await until(lambda: played.shown("a") == (NAME, None))


async def test_leaving_pods_of_an_owner_that_is_gone_are_let_go(played: Played) -> None:
    played.owned(job(), "a", deletionTimestamp="2026-01-01T12:00:00Z")
    played.start()
    await settle(played)
    await asyncio.sleep(0.1)
    assert (played.events, played.api.asked_for("GET", "/jobs/train")) == ([], 0)


async def test_what_was_passed_over_is_told_to_the_owner(played: Played) -> None:
    owner = played.api.put(job(priorityClassName="urgent"))
    for name in "ab":
        played.owned(owner, name)
    played.start()
    await settle(played)
    (event,) = played.events
    assert (event.ref.kind, event.reason) == ("Job", "PodGrouperWarning")
    assert "there is no priority class 'urgent', so 'train' holds: correct the name" in event.message


@pytest.mark.parametrize("status", [404, 409])
async def test_a_pod_that_is_gone_is_not_written_again(played: Played, status: int) -> None:
    async def gone(method: str, path: str) -> None:
        if method == "PATCH":
            raise ApiFailure(method, path, status, "NotFound", "gone")

    played.api.before = gone
    played.owned(played.api.put(job()), "a")
    played.start()
    await settle(played)
    await asyncio.sleep(0.1)
    assert played.api.asked_for("PATCH") == 1


async def test_a_pod_without_owners_or_with_an_opt_out_is_as_it_says(played: Played) -> None:
    owner = played.api.put(job())
    played.owned(owner, "out", annotations={"kai.scheduler/skip-podgrouper": "true"})
    alone = job("alone") | {"kind": "Pod"}
    played.owned(alone, "alone", ownerReferences=[])
    assert (played.place("out"), played.place("alone")) == (("", ""), ("", ""))
    skipping = job("skipping")
    skipping["metadata"]["annotations"]["kai.scheduler/skip-podgrouper"] = "true"
    played.owned(played.api.put(skipping), "skipped")
    assert played.place("skipped") is None
    played.start()
    await settle(played)
    assert played.place("skipped") == ("", "")
    assert {verb for verb, _, _ in played.api.asked} == {"GET"}


async def test_groups_of_other_node_pools_are_left_to_their_schedulers() -> None:
    played = Played(Config(node_pool="a100"))
    mine = played.api.put(job("mine", **{"kai.scheduler/node-pool": "a100"}))
    theirs = played.api.put(job("theirs"))
    played.owned(mine, "m")
    played.owned(theirs, "t")
    played.start()
    await settle(played)
    await played.stop()
    assert played.shown("m") == ("pg-mine-uid-mine", None)
    assert played.shown("t") == (None, None)
    assert [path for path in played.api.objects if path.startswith(GROUPS)] == [f"{GROUPS}/pg-mine-uid-mine"]


async def test_binds_go_first(played: Played) -> None:
    """While binds wait, one request at a time."""
    under_way = most = 0

    async def count(method: str, _: str) -> None:
        nonlocal under_way, most
        if method == "PATCH":
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.01)
            under_way -= 1

    played.api.before = count
    owner = played.api.put(job(least=20))
    played.start()
    await settle(played)
    played.busy = True
    for n in range(40):
        played.owned(owner, f"p{n}")
    await asyncio.sleep(0.1)
    assert most == 1
    played.busy = False
    await until(lambda: most > 1)
    await until(lambda: played.api.asked_for("PATCH") == 40)


async def test_rules_see_the_pods_that_are_held_back_too(played: Played) -> None:
    owner = played.api.put(job())
    label = names.JOB_NAME_LABEL
    played.owned(owner, "held", labels={label: "a"})
    played.owned(owner, "bound", node="n1", labels={label: "a"})
    played.owned(owner, "other", node="n1", labels={label: "b"})
    look = OwnerView(played.store, played.intake.groups, {}, 0.0)
    assert sorted(pod.name for pod in look.pods("ml", label, "a")) == ["bound", "held"]
    assert list(look.pods("other", label, "a")) == []
    played.owned(owner, "other", node="n1", labels={label: "a"})
    played.api.delete("/api/v1/namespaces/ml/pods/bound")
    assert sorted(pod.name for pod in look.pods("ml", label, "a")) == ["held", "other"]
    assert list(look.pods("ml", label, "b")) == []


async def test_nothing_is_kept_of_a_group_whose_pods_went_while_it_was_decided(played: Played) -> None:
    gate = asyncio.Event()

    async def hold(method: str, path: str) -> None:
        if method == "GET" and path.endswith("/train"):
            await gate.wait()

    played.api.before = hold
    played.owned(played.api.put(job()), "a")
    played.start()
    await until(lambda: played.api.asked_for("GET", "/train"))
    played.api.delete("/api/v1/namespaces/ml/pods/a")
    gate.set()
    await settle(played)
    assert played.owners.owner_of(f"ml/{NAME}") is None
