"""Writes of PodGroups that meet other changes of them, before an API server in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from kai_sched.cluster.client import ApiFailure
from kai_sched.model.read.kinds import POD_GROUP
from tests.unit.operator.grouped import GROUPS, Played, job, settle, until

NAME = "pg-train-uid-train"
GROUP = f"{GROUPS}/{NAME}"

pytestmark = pytest.mark.usefixtures("hundredths")


@pytest.mark.parametrize("verb", ["POST", "PUT"])
async def test_an_answer_after_the_deletion_is_late(played: Played, verb: str) -> None:
    """The garbage collector takes all while the write is under way, and the watches tell of it before the answer."""
    owner = played.api.put(job())

    async def collect(method: str, _: str) -> None:
        if method == verb and GROUP in played.api.objects:
            del played.api.objects["/apis/batch/v1/namespaces/ml/jobs/train"]
            for name in "ab":
                played.api.delete(f"/api/v1/namespaces/ml/pods/{name}")
            played.api.delete(GROUP)

    played.api.after = collect
    played.owned(owner, "a")
    played.owned(owner, "b")
    played.start()
    if verb == "PUT":
        await settle(played)
        played.api.put(job(least=4))
        played.owned(owner, "b", labels={"new": "label"})
    await until(lambda: played.api.asked_for(verb, "/podgroups"))
    await settle(played)
    assert GROUP not in played.api.objects
    assert played.group(NAME) is None
    assert played.sink.known(POD_GROUP) == {}


Hook = Callable[[str, str], Awaitable[None]]


async def put_meets(played: Played, change: str, is_told: bool, then: Hook | None = None) -> None:
    """A PUT that is on its way as the PodGroup changes; the watch tells of this before the answer, or later."""
    owner = played.api.put(job())
    played.owned(owner, "a")
    played.start()
    await settle(played)

    async def meanwhile(method: str, _: str) -> None:
        if method != "PUT":
            return
        played.api.before = then
        played.delayed = not is_told
        if change == "deleted":
            played.api.delete(GROUP)
        else:
            played.api.put({**played.api.objects[GROUP], "status": {"conditions": []}}, GROUP)

    played.api.before = meanwhile
    played.api.put(job(least=4))
    played.owned(owner, "b")


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "untold"])
@pytest.mark.parametrize("change", ["changed", "deleted"])
async def test_a_change_that_a_write_meets_is_no_refusal(played: Played, change: str, is_told: bool) -> None:
    with capture_logs() as logs:
        await put_meets(played, change, is_told)
        await until(lambda: played.api.asked_for("PUT"))
        await asyncio.sleep(0.05)
        played.delayed = False
        played.deliver()
        await until(lambda: GROUP in played.api.objects and played.api.objects[GROUP]["spec"]["minMember"] == 4)
    assert played.events == []
    assert [log for log in logs if log["log_level"] == "warning"] == []


async def test_a_conflict_that_cannot_be_looked_at_is_no_refusal(played: Played) -> None:
    failures = 1

    async def fail(method: str, path: str) -> None:
        nonlocal failures
        if method == "GET" and path == GROUP and failures:
            failures = 0
            raise ApiFailure(method, path, 503, "ServiceUnavailable", "not now")

    await put_meets(played, "changed", is_told=False, then=fail)
    await until(lambda: played.api.objects[GROUP]["spec"]["minMember"] == 4)
    assert (played.events, failures) == ([], 0)


async def test_a_write_that_somebody_else_undoes_is_made_less_and_less_often(played: Played) -> None:
    """Such as a pod-grouper that was left running. It is told once, about the workload."""
    owner = played.api.put(job())
    played.owned(owner, "a")
    played.start()
    await settle(played)
    wanted = played.api.objects[GROUP]["spec"]["minMember"]

    async def undo() -> None:
        while True:
            found = played.api.objects[GROUP]
            if found["spec"]["minMember"] != 7:
                played.api.put({**found, "spec": {**found["spec"], "minMember": 7}}, GROUP)
            await asyncio.sleep(0.001)

    undoing = asyncio.create_task(undo())
    await asyncio.sleep(0.25)
    undoing.cancel()
    assert 2 <= played.api.asked_for("PUT", "/podgroups") <= 15
    told = [event.message for event in played.events if "somebody else undoes" in event.message]
    assert len(told) == 1
    await until(lambda: played.api.objects[GROUP]["spec"]["minMember"] == wanted)
