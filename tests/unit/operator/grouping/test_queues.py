"""When a PodGroup follows the queue of its workload, before an API server in memory."""

from __future__ import annotations

import asyncio

import pytest

from kai_sched.model.objects import PriorityClass
from kai_sched.operator.grouping import workload_grouper
from tests.unit.operator.grouped import GROUPS, Played, job, settle, until

NAME = "pg-train-uid-train"


pytestmark = pytest.mark.usefixtures("hundredths")


def queue_of(played: Played) -> tuple[str, str | None]:
    """The queue of the group: by its spec and by its label in the API server. The store must show the former."""
    group, written = played.group(NAME), played.api.objects[f"{GROUPS}/{NAME}"]
    assert group is not None
    assert group.queue == written["spec"]["queue"]
    return written["spec"]["queue"], written["metadata"].get("labels", {}).get("kai.scheduler/queue")


async def corrected(played: Played, monkeypatch: pytest.MonkeyPatch, **labels: str) -> None:
    """The label of the workload is corrected; no event about a pod tells."""
    monkeypatch.setattr(workload_grouper, "RESYNC_S", 0.02)
    monkeypatch.setattr(workload_grouper, "RESYNCED_PER_SECOND", 1000)
    played.start()
    await settle(played)
    played.api.put(job(**labels))
    played.api.asked.clear()
    await until(lambda: played.api.asked_for("GET", "/jobs/train") > 60, timeout_s=10)
    await settle(played)


async def test_a_queue_and_a_priority_that_are_corrected_while_all_waits_are_followed(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    played.store.put(PriorityClass("build", 100))
    played.owned(played.api.put(job(**{"kai.scheduler/queue": "typo"})), "a")
    await corrected(played, monkeypatch, **{"kai.scheduler/queue": "team", "priorityClassName": "build"})
    assert queue_of(played) == ("team", "team")
    assert played.api.objects[f"{GROUPS}/{NAME}"]["spec"]["priorityClassName"] == "build"
    assert played.api.asked_for("PUT") == 1


async def test_a_queue_that_was_missing_is_followed(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = job()
    del owner["metadata"]["labels"]
    played.owned(played.api.put(owner), "a")
    await corrected(played, monkeypatch)
    assert queue_of(played) == ("team", "team")


async def test_a_queue_that_is_changed_once_a_pod_is_bound_is_not_followed(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = played.api.put(job())
    played.owned(owner, "a", node="n1")
    played.owned(owner, "b")
    await corrected(played, monkeypatch, **{"kai.scheduler/queue": "other"})
    assert queue_of(played) == ("team", "team")


async def test_the_queue_that_somebody_gave_the_group_is_kept(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    played.owned(played.api.put(job()), "a")
    played.start()
    await settle(played)
    written = played.api.objects[f"{GROUPS}/{NAME}"]
    written["spec"]["queue"] = "mine"
    played.api.put(written, f"{GROUPS}/{NAME}")
    await played.stop()
    await corrected(played, monkeypatch, **{"kai.scheduler/queue": "other"})
    assert queue_of(played) == ("mine", "team")


async def test_a_queue_that_is_followed_counts_before_it_is_written(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods are bound by it before the write: the group keeps it."""
    monkeypatch.setattr(workload_grouper, "RESYNC_S", 0.02)
    owner = played.api.put(job(**{"kai.scheduler/queue": "typo"}))
    played.owned(owner, "a")
    played.start()
    await settle(played)
    gate = asyncio.Event()

    async def hold(method: str, _: str) -> None:
        if method == "PUT":
            await gate.wait()

    played.api.before = hold
    played.api.put(job())
    await until(lambda: (group := played.group(NAME)) is not None and group.queue == "team")
    assert played.api.objects[f"{GROUPS}/{NAME}"]["spec"]["queue"] == "typo"
    played.owned(owner, "a", node="n1")
    gate.set()
    await until(lambda: played.api.objects[f"{GROUPS}/{NAME}"]["spec"]["queue"] == "team")
    assert queue_of(played) == ("team", "team")


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "under-way"])
async def test_a_queue_that_somebody_gives_a_running_group_is_kept(played: Played, is_known: bool) -> None:
    """Also while only we know of the bind."""
    owner = played.api.put(job())
    played.owned(owner, "a")
    played.start()
    await settle(played)
    if is_known:
        played.owned(owner, "a", node="n1")
    else:
        assert played.intake.overlay.assume("ml/a", "uid-a", "n1")
    written = played.api.objects[f"{GROUPS}/{NAME}"]
    written["spec"]["queue"] = written["metadata"]["labels"]["kai.scheduler/queue"] = "other"
    played.api.put(written, f"{GROUPS}/{NAME}")
    await settle(played)
    played.owned(owner, "b")
    await settle(played)
    assert queue_of(played) == ("other", "other")
