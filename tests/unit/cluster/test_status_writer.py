"""The writer: the last word about each thing is sent, once, in order, behind the binds."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from kai_sched.api.legal import is_subdomain
from kai_sched.cluster import delivery, write_queue
from kai_sched.cluster.client import ApiFailure
from kai_sched.cluster.event_budget import EventBudget
from kai_sched.cluster.retry import CONDITIONS, STATUSES
from kai_sched.cluster.status_writer import StatusWriter, event_of, path_of
from kai_sched.cluster.write_queue import EVENTS_MAX, WriteQueue
from kai_sched.model.times import format_time
from kai_sched.plan.effects import Annotate, Emit, PatchStatus, Ref, SetCondition, Write
from kai_sched.reconcile.events import MESSAGE_MAX
from tests.unit.cluster.scripted import Naps, ScriptedApi, failure

NOW_S = 1_800_000_000.0
POD = Ref("v1", "Pod", "ml", "a", "ua")
GROUP = Ref("scheduling.run.ai/v2alpha2", "PodGroup", "ml", "g", "ug")
QUEUE = Ref("scheduling.run.ai/v2", "Queue", "", "q", "uq")


class Bench:
    """A writer with one worker, or more, over a scripted API. ``versions`` are those of the pods that wait."""

    def __init__(self, workers: int = 1, budget: EventBudget | None = None) -> None:
        self.api = ScriptedApi()
        self.busy = False
        self.now_s = NOW_S
        self.versions = {"ml/a": "17"}
        self.failed: list[tuple[Write, ApiFailure | None]] = []
        self.queue = WriteQueue(lambda write, why: self.failed.append((write, why)), budget)
        self.writer = StatusWriter(
            self.api,  # type: ignore[arg-type]
            self.queue,
            "kai-scheduler",
            lambda: self.busy,
            lambda: round(self.now_s * 1e9),
            lambda ref: self.versions.get(ref.key, ""),
            random.Random(1),
            workers,
        )

    async def write(self, *writes: Write) -> None:
        self.queue.submit(writes)
        async with asyncio.timeout(30):
            await self.writer.drained()
        assert self.queue.pending == 0

    @property
    def bodies(self) -> list[Any]:
        return [body for _, _, body in self.api.asked]


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> Naps:
    naps = Naps()
    monkeypatch.setattr(delivery, "asyncio", naps)
    return naps


@pytest_asyncio.fixture
async def bench(naps: Naps) -> AsyncIterator[Bench]:
    assert naps.seconds == []
    bench = Bench()
    task = asyncio.create_task(bench.writer.run())
    yield bench
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def condition(reason: str = "Unschedulable", changes: bool = False) -> SetCondition:
    return SetCondition(POD, "PodScheduled", "False", reason, "no room", changes)


async def test_a_status_is_merged_and_names_the_uid(bench: Bench) -> None:
    await bench.write(PatchStatus(QUEUE, {"allocated": {"gpu": 1}}), PatchStatus(GROUP, {"phase": None}))
    assert bench.api.asked == [
        (
            "PATCH",
            "/apis/scheduling.run.ai/v2/queues/q/status",
            {"status": {"allocated": {"gpu": 1}}, "metadata": {"uid": "uq"}},
        ),
        (
            "PATCH",
            "/apis/scheduling.run.ai/v2alpha2/namespaces/ml/podgroups/g/status",
            {"status": {"phase": None}, "metadata": {"uid": "ug"}},
        ),
    ]
    assert bench.api.content_type == "application/merge-patch+json"


async def test_a_burst_about_one_thing_is_one_request(bench: Bench) -> None:
    await bench.write(
        PatchStatus(QUEUE, {"allocated": {"gpu": 1, "cpu": 5}, "old": 1}),
        Annotate(GROUP, {"a": "1", "b": "2"}),
        PatchStatus(QUEUE, {"allocated": {"gpu": 2}, "old": None}),
        Annotate(GROUP, {"b": None}),
    )
    assert bench.bodies == [
        {"status": {"allocated": {"gpu": 2, "cpu": 5}, "old": None}, "metadata": {"uid": "uq"}},
        {"metadata": {"annotations": {"a": "1", "b": None}, "uid": "ug"}},
    ]


async def test_a_condition_says_when_it_changed_and_of_which_version_it_is(bench: Bench) -> None:
    await bench.write(condition(changes=True))
    bench.now_s -= 86_400.0  # the wall clock is set back
    await bench.write(condition("QueueOverLimit"))
    first, second = bench.bodies
    assert first["metadata"] == {"resourceVersion": "17", "uid": "ua"}
    assert first["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "no room",
            "lastTransitionTime": "2027-01-15T08:00:00Z",
        }
    ]
    assert second["status"]["conditions"] == [
        {"type": "PodScheduled", "status": "False", "reason": "QueueOverLimit", "message": "no room"}
    ]


async def test_conditions_that_are_merged_keep_that_the_status_changed(bench: Bench) -> None:
    await bench.write(condition(changes=True), condition("QueueOverLimit"))
    assert len(bench.bodies) == 1
    assert bench.bodies[0]["status"]["conditions"][0].keys() >= {"lastTransitionTime"}


async def test_nothing_is_said_of_a_pod_that_waits_no_more(bench: Bench) -> None:
    bench.versions.clear()
    await bench.write(condition())
    assert (bench.api.asked, bench.failed) == ([], [])


async def test_what_comes_while_the_older_is_sent_is_sent_after_it(naps: Naps) -> None:
    bench = Bench(workers=4)
    gate = asyncio.Event()

    async def slow() -> bytes:
        bench.queue.submit([PatchStatus(QUEUE, {"n": 2}), PatchStatus(QUEUE, {"n": 3})])
        await gate.wait()
        return b"{}"

    bench.api.answers["PATCH"] = [slow]
    task = asyncio.create_task(bench.writer.run())
    bench.queue.submit([PatchStatus(QUEUE, {"n": 1})])
    other = PatchStatus(GROUP, {"phase": "x"})
    async with asyncio.timeout(30):
        while len(bench.api.asked) < 1:  # noqa: ASYNC110
            await asyncio.sleep(0)
        bench.queue.submit([other])
        while len(bench.api.asked) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
        gate.set()
        await bench.writer.drained()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [body["status"] for body in bench.bodies] == [{"n": 1}, {"phase": "x"}, {"n": 3}]
    assert naps.seconds == []


async def test_a_failure_that_may_pass_is_tried_again_with_what_came_meanwhile(bench: Bench, naps: Naps) -> None:
    async def fail() -> bytes:
        bench.queue.submit([PatchStatus(QUEUE, {"n": 2})])
        raise failure(500)

    bench.api.answers["PATCH"] = [fail, failure(429, retry_after_s=3.0), failure(0, "NoAnswer")]
    await bench.write(PatchStatus(QUEUE, {"n": 1, "m": 1}))
    assert [body["status"] for body in bench.bodies] == [{"n": 1, "m": 1}, *[{"n": 2, "m": 1}] * 3]
    assert bench.failed == []
    bounds = [(0.2, 0.4), (3.4, 3.8), (0.8, 1.6)]
    assert all(least <= slept <= most for slept, (least, most) in zip(naps.seconds, bounds, strict=True))


@pytest.mark.parametrize("why", [failure(403), failure(404), failure(409), failure(422), failure(0, "NotLeader")])
async def test_a_refusal_for_good_is_told_and_the_next_goes_on(bench: Bench, why: ApiFailure) -> None:
    bench.api.answers["PATCH"] = [why]
    lost = PatchStatus(QUEUE, {"n": 1})
    await bench.write(lost, Annotate(GROUP, {"a": "1"}))
    assert bench.failed == [(lost, why)]
    assert len(bench.api.asked) == 2


async def test_a_condition_that_meets_another_write_is_sent_again_with_the_version_of_that(bench: Bench) -> None:
    """The group writer marks a pod, and the event that tells so is still on its way."""

    async def conflict() -> bytes:
        bench.versions["ml/a"] = "18"
        raise failure(409, "Conflict")

    bench.api.answers["PATCH"] = [conflict]
    await bench.write(condition(changes=True))
    assert [body["metadata"]["resourceVersion"] for body in bench.bodies] == ["17", "18"]
    assert bench.failed == []


async def test_a_condition_of_a_pod_that_is_bound_or_gone_is_not_sent_again(bench: Bench) -> None:
    async def conflict() -> bytes:
        bench.versions.clear()
        raise failure(409, "Conflict")

    bench.api.answers["PATCH"] = [conflict]
    await bench.write(condition())
    assert (len(bench.api.asked), bench.failed) == (1, [])


async def test_a_condition_that_meets_other_writes_for_ever_is_given_up(bench: Bench) -> None:
    bench.api.answers["PATCH"] = [failure(409, "Conflict")] * 99
    await bench.write(condition())
    assert len(bench.api.asked) == CONDITIONS.attempts
    assert [why.status for _, why in bench.failed if why] == [409]


async def test_it_gives_up_in_the_end(bench: Bench) -> None:
    bench.api.answers["PATCH"] = [failure(500)] * 99
    await bench.write(PatchStatus(QUEUE, {"n": 1}))
    assert len(bench.api.asked) == STATUSES.attempts
    assert [why.status for _, why in bench.failed if why] == [500]


async def test_the_oldest_are_dropped_where_too_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_queue, "QUEUE_MAX", 2)
    bench = Bench()
    writes = [PatchStatus(Ref("v1", "Pod", "ml", name, name), {"n": 1}) for name in "abcd"]
    bench.queue.submit(writes)
    assert bench.failed == [(writes[0], None), (writes[1], None)]
    assert bench.queue.pending == 2


async def test_the_same_fact_is_one_event_that_counts(bench: Bench) -> None:
    emit = Emit(POD, "Warning", "Unschedulable", "no room")
    await bench.write(emit)
    bench.api.answers = {"POST": [failure(409, "AlreadyExists")], "GET": [b'{"count": 4}']}
    bench.now_s += 60.0
    await bench.write(emit)
    created, again, looked, counted = bench.api.asked
    assert created[2] == event_of(emit, "kai-scheduler", format_time(round(NOW_S * 1e9)))
    assert again[2]["metadata"]["name"] == created[2]["metadata"]["name"]
    path = f"/api/v1/namespaces/ml/events/{created[2]['metadata']['name']}"
    assert looked[:2] == ("GET", path)
    assert counted == ("PATCH", path, {"count": 5, "lastTimestamp": "2027-01-15T08:01:00Z"})
    assert bench.failed == []


def test_an_event_fits_and_differs_by_what_it_says() -> None:
    def event(ref: Ref, message: str) -> dict[str, Any]:
        return event_of(Emit(ref, "Normal", "Told", message), "kai-scheduler", format_time(round(NOW_S * 1e9)))

    found = [event(POD, "a"), event(POD, "b"), event(Ref("v1", "Pod", "ml", "a", "other"), "a"), event(QUEUE, "a")]
    assert len({one["metadata"]["name"] for one in found}) == 4
    assert found[3]["metadata"]["namespace"] == "default"
    assert len(event(POD, "x" * 5000)["message"]) == MESSAGE_MAX


def test_paths() -> None:
    assert path_of(POD) == "/api/v1/namespaces/ml/pods/a"
    assert path_of(QUEUE) == "/apis/scheduling.run.ai/v2/queues/q"


async def test_while_binds_wait_only_one_write_is_under_way(naps: Naps) -> None:
    bench = Bench(workers=4)
    bench.busy = True
    under_way, most = [0], [0]

    async def answer() -> bytes:
        under_way[0] += 1
        most[0] = max(most[0], under_way[0])
        for _ in range(5):
            await asyncio.sleep(0)
        under_way[0] -= 1
        return b"{}"

    bench.api.answers["PATCH"] = [answer] * 6
    task = asyncio.create_task(bench.writer.run())
    await bench.write(*(PatchStatus(Ref("v1", "Pod", "ml", name, name), {"n": 1}) for name in "abcdef"))
    assert most == [1]
    bench.busy = False
    bench.api.answers["PATCH"] = [answer] * 6
    await bench.write(*(PatchStatus(Ref("v1", "Pod", "ml", name, name), {"n": 2}) for name in "abcdef"))
    assert most[0] > 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(bench.api.asked) == 12
    assert naps.seconds


@pytest.mark.parametrize("part", ["_pending_version", "_lost", "_now_ns"])
async def test_what_raises_costs_one_write(bench: Bench, part: str) -> None:
    owner: Any = bench.queue if part == "_lost" else bench.writer
    working = getattr(owner, part)
    calls: list[object] = []

    def raising(*args: object) -> object:
        calls.append(args)
        if len(calls) == 1:
            raise ZeroDivisionError("by the test")
        return working(*args)

    setattr(owner, part, raising)
    if part == "_lost":
        bench.api.answers["PATCH"] = [failure(404)]
    await bench.write(condition(changes=True))
    await bench.write(condition("Other", changes=True), PatchStatus(QUEUE, {"n": 1}))
    assert bench.api.methods[-2:] == ["PATCH", "PATCH"]
    assert [body["status"] for body in bench.bodies][-1] == {"n": 1}


async def test_a_name_that_cannot_be_is_given_up(bench: Bench) -> None:
    await bench.write(PatchStatus(Ref("scheduling.run.ai/v2", "Queue", "", "a/../b", "u"), {}), condition())
    ((write, why),) = bench.failed
    assert (write.ref.name, why and why.status) == ("a/../b", 422)
    assert bench.api.methods == ["PATCH"]


def test_the_name_of_an_event_is_one() -> None:
    """However long the name of its object, and wherever that is cut."""
    for end in ("a" * 253, "a" * 199 + ".b", "a" * 198 + "-.b", "a"):
        ref = Ref("v1", "Pod", "ml", end, "u")
        name = event_of(Emit(ref, "Normal", "R", "m"), "kai", format_time(round(NOW_S * 1e9)))["metadata"]["name"]
        assert is_subdomain(name)


async def test_events_have_a_budget_and_statuses_do_not_wait_for_them() -> None:
    now = 0.0
    bench = Bench(budget=EventBudget(lambda: now, per_second=10.0, at_once=3))
    running = asyncio.create_task(bench.writer.run())
    events = [Emit(POD, "Normal", f"Fact{n}", "told") for n in range(6)]
    status = PatchStatus(QUEUE, {"a": 1})
    await bench.write(*events, status)  # returns although events wait
    assert [verb for verb, *_ in bench.api.asked] == ["POST"] * 3 + ["PATCH"]
    assert bench.queue.events == 3
    now = 0.25
    for _ in range(50):
        await asyncio.sleep(0.01)
        if bench.queue.events == 1:
            break
    assert bench.queue.events == 1
    running.cancel()


async def test_a_flood_of_events_is_bounded_and_the_oldest_go() -> None:
    bench = Bench()
    bench.queue.submit(Emit(POD, "Normal", f"Fact{n}", "told") for n in range(EVENTS_MAX + 5))
    assert bench.queue.events == EVENTS_MAX
    assert [write.reason for write, why in bench.failed if isinstance(write, Emit) and why is None] == [
        f"Fact{n}" for n in range(5)
    ]


async def test_a_pod_that_got_a_node_meanwhile_is_not_called_unschedulable() -> None:
    bench = Bench()
    running = asyncio.create_task(bench.writer.run())
    del bench.versions["ml/a"]
    await bench.write(Emit(POD, "Warning", "Unschedulable", "no room"), Emit(POD, "Normal", "Scheduled", "bound"))
    assert [body["reason"] for body in bench.bodies] == ["Scheduled"]
    running.cancel()


@pytest.mark.parametrize(("after_s", "free"), [(0.0, 0), (0.1, 5), (100.0, 20)])
def test_a_budget_fills_up_again(after_s: float, free: int) -> None:
    now = 0.0
    budget = EventBudget(lambda: now, per_second=50.0, at_once=20)
    for _ in range(20):
        assert budget.wait_s() == 0.0
        budget.take()
    now = after_s
    for _ in range(free):
        assert budget.wait_s() == 0.0
        budget.take()
    assert budget.wait_s() == pytest.approx(0.02)
