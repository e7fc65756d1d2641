"""The evicter: each eviction has one of three ends, none is sent that makes no sense, none hits another pod."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from kai_sched.cluster import delivery
from kai_sched.cluster.client import NOT_LEADER, ApiFailure
from kai_sched.cluster.pod_deleter import EvictionEnd, PodDeleter
from kai_sched.cluster.retry import EVICTIONS
from kai_sched.cluster.work_queue import FifoQueue
from kai_sched.plan.effects import Evict
from tests.unit.cluster.scripted import Answer, Naps, ScriptedApi, failure

PATH = "/api/v1/namespaces/ml/pods"


def eviction(name: str) -> Evict:
    return Evict(f"ml/{name}", f"u{name}", "n1", "reclaim", "ml/winner", "ml/loser", (("gpu", 1.0),), "", False, ())


A, B = eviction("a"), eviction("b")


class Bench:
    """An evicter with one worker over a scripted API. ``obsolete`` holds why an eviction makes no sense any more."""

    def __init__(self, mark: bool = False) -> None:
        self.api = ScriptedApi()
        self.obsolete: dict[str, str] = {}
        self.ends: list[tuple[str, EvictionEnd]] = []
        self.messages: list[str] = []
        self.queue: FifoQueue[Evict] = FifoQueue()
        api: Any = self.api
        self.evicter = PodDeleter(
            api,
            self.queue,
            self,
            lambda each: f"why {each.pod} goes",
            lambda: 1_767_268_800 * 10**9,
            random.Random(1),
            mark,
            workers=1,
        )

    def check(self, each: Evict) -> str:
        return self.obsolete.get(each.pod, "")

    def ended(self, each: Evict, end: EvictionEnd, message: str) -> None:
        self.ends.append((each.pod, end))
        self.messages.append(message)

    async def settle(self, *evictions: Evict) -> None:
        task = asyncio.create_task(self.evicter.run())
        self.queue.submit(evictions)
        async with asyncio.timeout(30):
            await self.evicter.drained()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert self.queue.pending == 0


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> Naps:
    naps = Naps()
    monkeypatch.setattr(delivery, "asyncio", naps)
    return naps


@pytest_asyncio.fixture
async def bench(naps: Naps) -> AsyncIterator[Bench]:
    assert naps.seconds == []
    yield Bench()


def pod(uid: str = "ua", deleted: str | None = None) -> bytes:
    return json.dumps({"metadata": {"name": "a", "namespace": "ml", "uid": uid, "deletionTimestamp": deleted}}).encode()


async def test_evictions_name_the_pod_s_uid_and_go_in_order(bench: Bench) -> None:
    await bench.settle(A, B)
    assert bench.ends == [("ml/a", EvictionEnd.EVICTED), ("ml/b", EvictionEnd.EVICTED)]
    assert bench.api.asked == [
        (
            "DELETE",
            f"{PATH}/{name}",
            {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": f"u{name}"}},
        )
        for name in "ab"
    ]


async def test_a_pod_is_marked_first_where_that_is_wanted(naps: Naps) -> None:
    assert naps.seconds == []
    bench = Bench(mark=True)
    bench.api.answers["DELETE"] = [failure(500)]
    bench.api.answers["GET"] = [pod()]
    await bench.settle(A)
    assert bench.ends == [("ml/a", EvictionEnd.EVICTED)]
    assert bench.api.methods == ["PATCH", "DELETE", "GET", "DELETE"]
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "why ml/a goes",
        "lastTransitionTime": "2026-01-01T12:00:00Z",
    }
    body = {"metadata": {"uid": "ua"}, "status": {"conditions": [condition]}}
    assert bench.api.asked[0] == ("PATCH", f"{PATH}/a/status", body)


@pytest.mark.parametrize("status", [404, 409])
async def test_a_pod_that_cannot_be_marked_as_it_is_gone_is_not_deleted(naps: Naps, status: int) -> None:
    assert naps.seconds == []
    bench = Bench(mark=True)
    bench.api.answers = {"PATCH": [failure(status)], "GET": [failure(404) if status == 404 else pod(uid="other")]}
    await bench.settle(A)
    assert bench.ends == [("ml/a", EvictionEnd.OBSOLETE)]
    assert bench.api.methods == ["PATCH", "GET"]


async def test_what_makes_no_sense_any_more_is_not_sent(bench: Bench) -> None:
    async def slow() -> bytes:
        bench.obsolete["ml/b"] = "nobody waits"
        return b"{}"

    bench.api.answers["DELETE"] = [slow]
    await bench.settle(A, B)
    assert bench.ends == [("ml/a", EvictionEnd.EVICTED), ("ml/b", EvictionEnd.OBSOLETE)]
    assert bench.messages == ["", "nobody waits"]
    assert len(bench.api.asked) == 1


async def test_it_is_looked_at_again_before_each_attempt(bench: Bench) -> None:
    async def overtaken() -> bytes:
        bench.obsolete["ml/a"] = "nobody waits"
        raise failure(429)

    bench.api.answers["DELETE"] = [overtaken]
    await bench.settle(A)
    assert bench.ends == [("ml/a", EvictionEnd.OBSOLETE)]
    assert bench.api.methods == ["DELETE"]


@pytest.mark.parametrize("status", [401, 403, 422])
async def test_a_refusal_is_not_argued_with(bench: Bench, status: int) -> None:
    bench.api.answers["DELETE"] = [failure(status)]
    await bench.settle(A)
    assert bench.ends == [("ml/a", EvictionEnd.REFUSED)]
    assert bench.api.methods == ["DELETE"]


async def test_without_the_lease_it_ends_at_once(bench: Bench) -> None:
    bench.api.answers["DELETE"] = [failure(0, NOT_LEADER)]
    await bench.settle(A)
    assert bench.ends == [("ml/a", EvictionEnd.OBSOLETE)]
    assert bench.api.methods == ["DELETE"]


DOUBTS = [failure(500), failure(503), failure(0, "Timeout"), failure(0, "NoAnswer")]
GONE = {"gone": failure(404), "leaving": pod(deleted="2026-01-01T00:00:00Z"), "anew": pod(uid="other")}
STAYS = {"there": pod(), "unknown": failure(500)}


@pytest.mark.parametrize("doubt", DOUBTS, ids=lambda doubt: f"{doubt.status} {doubt.reason}")
@pytest.mark.parametrize("there", [*GONE.values(), *STAYS.values()], ids=[*GONE, *STAYS])
async def test_what_is_in_doubt_is_settled_by_a_look_at_the_pod(bench: Bench, doubt: ApiFailure, there: Answer) -> None:
    bench.api.answers = {"DELETE": [doubt], "GET": [there]}
    await bench.settle(A)
    assert bench.ends == [("ml/a", EvictionEnd.EVICTED)]
    assert bench.api.methods == ["DELETE", "GET", *(["DELETE"] if there in STAYS.values() else [])]


async def test_one_that_was_carried_out_unheard_is_ours_though_it_makes_no_sense_any_more(bench: Bench) -> None:
    async def unheard() -> bytes:
        bench.obsolete["ml/a"] = "pod ml/a is gone"
        raise failure(0, "NoAnswer")

    bench.api.answers = {"DELETE": [unheard], "GET": [failure(500), failure(404)]}
    await bench.settle(A)
    assert bench.ends == [("ml/a", EvictionEnd.EVICTED)]
    assert bench.api.methods == ["DELETE", "GET", "GET"]


@pytest.mark.parametrize("status", [404, 409])
async def test_a_pod_that_went_by_itself_was_not_evicted(bench: Bench, status: int) -> None:
    bench.api.answers = {"DELETE": [failure(status)], "GET": [failure(404) if status == 404 else pod(uid="other")]}
    await bench.settle(A)
    assert bench.ends == [("ml/a", EvictionEnd.OBSOLETE)]
    assert bench.api.methods == ["DELETE", "GET"]


async def test_a_conflict_about_something_else_is_no_reason_to_believe_it_gone(bench: Bench) -> None:
    bench.api.answers = {"DELETE": [failure(409)], "GET": [pod()]}
    await bench.settle(A)
    assert bench.ends == [("ml/a", EvictionEnd.EVICTED)]
    assert bench.api.methods == ["DELETE", "GET", "DELETE"]


async def test_it_gives_up_in_the_end_and_waits_longer_each_time(bench: Bench, naps: Naps) -> None:
    bench.api.answers = {"DELETE": [failure(500)] * 99, "GET": [pod()] * 99}
    await bench.settle(A)
    assert bench.ends == [("ml/a", EvictionEnd.REFUSED)]
    assert bench.api.methods.count("DELETE") == EVICTIONS.attempts
    longest = [0.2, 0.4, 0.8, 1.6, 3.2]
    assert len(naps.seconds) == len(longest)
    assert all(most / 2 <= slept <= most for slept, most in zip(naps.seconds, longest, strict=True))


async def test_it_waits_as_long_as_it_is_told_to_within_reason(bench: Bench, naps: Naps) -> None:
    bench.api.answers["DELETE"] = [failure(429, retry_after_s=3.0), failure(429, retry_after_s=900.0)]
    await bench.settle(A)
    assert bench.ends == [("ml/a", EvictionEnd.EVICTED)]
    assert 3.0 <= naps.seconds[0] <= 3.2
    assert 5.0 <= naps.seconds[1] <= 5.4
    assert bench.api.methods == ["DELETE"] * 3


@pytest.mark.parametrize("part", ["_check", "_explain", "_ended"])
async def test_what_raises_costs_one_eviction(naps: Naps, part: str) -> None:
    assert naps.seconds == []
    bench = Bench(mark=True)
    working = getattr(bench.evicter, part)

    def raising(each: Evict, *rest: object) -> object:
        if each == A:
            raise ZeroDivisionError("by the test")
        return working(each, *rest)

    setattr(bench.evicter, part, raising)
    await bench.settle(A, B)
    assert bench.ends == [("ml/a", EvictionEnd.REFUSED), ("ml/b", EvictionEnd.EVICTED)][part == "_ended" :]
    if part != "_ended":
        assert bench.messages[0].startswith("unexpected ZeroDivisionError: by the test")


async def test_a_look_that_cannot_be_read_is_none(bench: Bench) -> None:
    async def garbled() -> bytes:
        return b"<html>"

    bench.api.answers = {"DELETE": [failure(500)], "GET": [garbled]}
    await bench.settle(A)
    assert bench.ends == [("ml/a", EvictionEnd.EVICTED)]
    assert bench.api.methods == ["DELETE", "GET", "DELETE"]
