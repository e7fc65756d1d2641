"""Workers, and how long they wait after failures."""

from __future__ import annotations

import asyncio
import random

import pytest
from structlog.testing import capture_logs

from kai_sched.cluster.backoff import Backoff
from kai_sched.cluster.delivery import Workers
from kai_sched.cluster.failure import NOT_LEADER, ApiFailure
from kai_sched.cluster.request_slots import RequestKind, RequestSlots, request_kind
from kai_sched.cluster.retry import (
    BINDS,
    CONDITIONS,
    EVICTIONS,
    GROUP_MEMBERS,
    POD_GROUPS,
    STATUSES,
    VOLUMES,
    RetryAction,
    RetryPolicy,
)
from kai_sched.cluster.work_queue import FifoQueue
from kai_sched.telemetry.unexpected import AGAIN_S, FaultLog


async def test_workers_do_all_items_whatever_one_raises() -> None:
    done: list[int] = []
    most = 0

    async def work(item: int) -> None:
        nonlocal most
        most = max(most, queue.pending)
        await asyncio.sleep(0)
        if item % 3 == 0:
            raise ZeroDivisionError(item)
        done.append(item)

    queue: FifoQueue[int] = FifoQueue()
    task = asyncio.create_task(Workers("test", queue, work, 2).run())
    await queue.drained()
    queue.submit(range(10))
    assert queue.pending == 10
    async with asyncio.timeout(5.0):
        await queue.drained()
    assert (done, queue.pending, most) == ([1, 2, 4, 5, 7, 8], 0, 10)
    queue.submit([11])
    async with asyncio.timeout(5.0):
        await queue.drained()
    assert done[-1] == 11
    assert not task.done()
    task.cancel()


async def test_while_others_come_first_one_worker_goes_on_in_order() -> None:
    queue: FifoQueue[int] = FifoQueue()
    busy, under_way, most, done = True, 0, 0, []
    two_at_once = asyncio.Event()

    async def beside_each_other(under_way: int) -> None:
        """However long the other workers still pause."""
        if under_way > 1:
            two_at_once.set()
        await two_at_once.wait()

    async def work(item: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if busy:
            await asyncio.sleep(0.001)
        else:
            await beside_each_other(under_way)
        done.append(item)
        under_way -= 1

    task = asyncio.create_task(Workers("test", queue, work, 4, lambda: busy).run())
    queue.submit(range(12))
    async with asyncio.timeout(5.0):
        await queue.drained()
    assert (done, most) == (list(range(12)), 1)
    busy = False
    queue.submit(range(12))
    async with asyncio.timeout(5.0):
        await queue.drained()
    assert len(done) == 24
    task.cancel()


POLICIES = [BINDS, EVICTIONS, STATUSES, CONDITIONS, VOLUMES, POD_GROUPS, GROUP_MEMBERS]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_write_without_the_lease_is_given_up(policy: RetryPolicy) -> None:
    assert policy.action(ApiFailure("PUT", "/x", 0, NOT_LEADER, "by the test")) is RetryAction.GIVE_UP


@pytest.mark.parametrize(
    ("policy", "actions"),
    [
        (BINDS, {0: "inspect", 401: "give up", 404: "inspect", 409: "inspect", 429: "retry", 500: "inspect"}),
        (EVICTIONS, {0: "inspect", 403: "give up", 404: "inspect", 409: "inspect", 429: "retry", 503: "inspect"}),
        (CONDITIONS, {0: "retry", 400: "give up", 404: "give up", 409: "retry", 429: "retry", 500: "retry"}),
        (STATUSES, {0: "retry", 400: "give up", 404: "give up", 409: "give up", 429: "retry", 500: "retry"}),
        (VOLUMES, {0: "give up", 409: "give up", 429: "give up", 500: "give up"}),
        (POD_GROUPS, {0: "retry", 403: "retry", 404: "inspect", 409: "inspect", 422: "retry", 500: "retry"}),
        (GROUP_MEMBERS, {0: "retry", 403: "retry", 404: "give up", 409: "give up", 500: "retry"}),
    ],
)
def test_what_follows_a_failure(policy: RetryPolicy, actions: dict[int, str]) -> None:
    found = {status: policy.action(ApiFailure("PUT", "/x", status, "", "by the test")).value for status in actions}
    assert found == actions


def test_waits_double_up_to_the_longest_however_many_failures() -> None:
    backoff, rng = Backoff(1.0, 60.0), random.Random(1)
    for failures, most_s in ((1, 1.0), (2, 2.0), (3, 4.0), (7, 60.0), (1100, 60.0), (10**9, 60.0)):
        waits = [backoff.wait_s(failures, rng) for _ in range(50)]
        assert all(most_s / 2 <= each <= most_s for each in waits)
        assert len(set(waits)) > 1
    assert 25.0 <= backoff.wait_s(1, rng, 24.5) <= 25.5
    assert 30.5 <= backoff.wait_s(1, rng, 9e9) <= 31.0


def test_a_fault_is_told_once_in_a_while_and_counted() -> None:
    now = 0.0
    faults = FaultLog(lambda: now)

    def fail(what: str) -> str:
        try:
            raise ValueError(what)
        except ValueError as error:
            return faults.note("part", what, error)

    with capture_logs() as logs:
        assert fail("a") == "unexpected ValueError: a (a bug in the scheduler: see its log)"
        for n in range(20):
            fail(str(n))
        now += AGAIN_S
        fail("b")
    assert [(line["event"], line["item"], line["log_level"]) for line in logs] == [
        ("fault.unexpected", "a", "error"),
        ("fault.unexpected", "b", "error"),
    ]
    assert logs[0]["exc_info"].args == ("a",)
    assert faults.counts == {"part": 22}


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("POST", "/api/v1/namespaces/ml/pods/a/binding", RequestKind.BINDS),
        ("DELETE", "/api/v1/namespaces/ml/pods/a", RequestKind.DELETES),
        ("GET", "/api/v1/namespaces/ml/pods/a", RequestKind.READS),
        ("PATCH", "/api/v1/namespaces/ml/pods/a/status", RequestKind.WRITES),
        ("POST", "/apis/scheduling.run.ai/v2alpha2/namespaces/ml/podgroups", RequestKind.WRITES),
    ],
)
def test_each_request_has_its_kind(method: str, path: str, kind: RequestKind) -> None:
    assert request_kind(method, path) is kind


@pytest.mark.parametrize("total", [1, 2, 4, 8, 16, 64, 200])
async def test_no_kind_keeps_another_from_its_slots(total: int) -> None:
    """One that takes all that it can get leaves some to each other one, and all slots can be used together."""
    for greedy in RequestKind:
        slots = RequestSlots(total)
        taken: list[bool] = []
        waiting = [asyncio.create_task(slots.acquire(greedy)) for _ in range(total + 5)]
        await asyncio.sleep(0)
        taken = [each.result() for each in waiting if each.done()]
        others = [kind for kind in RequestKind if kind not in (greedy, RequestKind.BINDS)] if total >= 8 else []
        async with asyncio.timeout(1.0):
            held = [(kind, await slots.acquire(kind)) for kind in others]
        assert len(taken) + len(held) <= total
        for own in taken:
            slots.release(greedy, own)
        await asyncio.sleep(0)
        assert sum(each.done() for each in waiting) >= min(len(waiting), 2 * len(taken))
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_slots_are_neither_lost_nor_made() -> None:
    """After many comings, goings and cancellations all of them are there again."""
    rng, slots = random.Random(7), RequestSlots(16)
    under_way = most = 0

    async def use(kind: RequestKind) -> None:
        nonlocal under_way, most
        own = await slots.acquire(kind)
        under_way += 1
        most = max(most, under_way)
        try:
            await asyncio.sleep(rng.random() / 200)
        finally:
            under_way -= 1
            slots.release(kind, own)

    tasks = []
    for _ in range(600):
        tasks.append(asyncio.create_task(use(rng.choice(list(RequestKind)))))
        if rng.random() < 0.3:
            rng.choice(tasks).cancel()
        if rng.random() < 0.2:
            await asyncio.sleep(0.001)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert most == 16
    assert under_way == 0
    assert [slots._shared, *slots._own.values()] == [slots.binds, 0, 1, 1, 1]
    assert not slots._waiting
