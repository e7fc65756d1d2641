"""The binder: every bind ends bound or given up, and none is sent that makes no sense any more."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from kai_sched.api.names import NUMA_PREDICTED_ANNOTATION
from kai_sched.cluster import delivery, pod_binder
from kai_sched.cluster.client import ApiFailure
from kai_sched.cluster.failure import NOT_LEADER
from kai_sched.cluster.pod_binder import OBSOLETE, BindFailure, PodBinder
from kai_sched.cluster.retry import BINDS
from kai_sched.cluster.work_queue import FifoQueue
from kai_sched.model.numa import ZoneAmounts
from kai_sched.plan.effects import Bind
from tests.unit.cluster.scripted import Answer, Naps, ScriptedApi, failure

A, B = Bind("ml/a", "ua", "n1"), Bind("ml/b", "ub", "n2")


class Bench:
    """A binder with one worker over a scripted API. ``refused`` holds why a bind is obsolete."""

    def __init__(self) -> None:
        self.api = ScriptedApi()
        self.refused: dict[str, str] = {}
        self.ended: list[str] = []
        self.failures: list[tuple[str, BindFailure]] = []
        self.queue: FifoQueue[Bind] = FifoQueue()
        api: Any = self.api
        self.binder = PodBinder(api, self.queue, self, random.Random(1), workers=1)

    def check(self, bind: Bind) -> str:
        return self.refused.get(bind.pod, "")

    def bound(self, bind: Bind, seconds: float) -> None:
        assert seconds >= 0.0
        self.ended.append(bind.pod)

    def failed(self, bind: Bind, failed: BindFailure) -> None:
        self.failures.append((bind.pod, failed))

    async def settle(self, *binds: Bind, versions: Mapping[str, str] = pod_binder.NO_VERSIONS) -> None:
        self.binder.submit(binds, versions)
        async with asyncio.timeout(30):
            await self.binder.drained()
        assert self.queue.pending == 0


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> Naps:
    naps = Naps()
    monkeypatch.setattr(pod_binder, "asyncio", naps)
    monkeypatch.setattr(delivery, "asyncio", naps)
    return naps


@pytest_asyncio.fixture
async def bench(naps: Naps) -> AsyncIterator[Bench]:
    assert naps.seconds == []
    bench = Bench()
    task = asyncio.create_task(bench.binder.run())
    yield bench
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def pod(uid: str = "ua", node: str = "", deleted: str | None = None) -> bytes:
    meta = {"name": "a", "namespace": "ml", "uid": uid, "deletionTimestamp": deleted}
    return json.dumps({"metadata": meta, "spec": {"nodeName": node} if node else {}}).encode()


async def test_a_bind_names_the_pod_s_uid_and_the_node(bench: Bench) -> None:
    await bench.settle(A)
    assert bench.ended == ["ml/a"]
    assert bench.api.asked == [
        (
            "POST",
            "/api/v1/namespaces/ml/pods/a/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"namespace": "ml", "name": "a", "uid": "ua"},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
            },
        )
    ]


async def test_what_the_pod_takes_of_numa_zones_goes_with_the_bind(bench: Bench) -> None:
    """The API server adds the annotations of a Binding to the pod."""
    await bench.settle(A._replace(zones=(ZoneAmounts("node-1", (("cpu", 2000.0), ("gpu", 1.0))),)))
    ((_, _, body),) = bench.api.asked
    annotations = body["metadata"]["annotations"]
    assert {key: json.loads(text) for key, text in annotations.items()} == {
        NUMA_PREDICTED_ANNOTATION: [{"zone": "node-1", "amount": {"cpu": "2", "nvidia.com/gpu": "1"}}]
    }


async def test_of_a_group_with_one_bad_bind_none_is_sent(bench: Bench) -> None:
    bench.refused["ml/b"] = "node n2 is gone"
    await bench.settle(A, B)
    assert bench.api.asked == []
    assert bench.failures == [
        ("ml/a", BindFailure(OBSOLETE, "not sent, because of ml/b: node n2 is gone")),
        ("ml/b", BindFailure(OBSOLETE, "node n2 is gone")),
    ]


async def test_a_bind_is_looked_at_again_right_before_it_is_sent(bench: Bench) -> None:
    async def slow() -> bytes:
        bench.refused["ml/b"] = "node n2 was cordoned"
        return b"{}"

    bench.api.answers["POST"] = [slow]
    await bench.settle(A, B)
    assert bench.ended == ["ml/a"]
    assert bench.failures == [("ml/b", BindFailure(OBSOLETE, "node n2 was cordoned"))]
    assert len(bench.api.asked) == 1


async def test_a_bind_is_looked_at_again_before_each_attempt(bench: Bench) -> None:
    async def overtaken() -> bytes:
        bench.refused["ml/a"] = "pod ml/a is gone"
        raise failure(429)

    bench.api.answers["POST"] = [overtaken]
    await bench.settle(A)
    assert bench.failures == [("ml/a", BindFailure(OBSOLETE, "pod ml/a is gone"))]
    assert bench.api.methods == ["POST"]


@pytest.mark.parametrize("status", [401, 403, 422])
async def test_a_refusal_for_good_is_not_argued_with(bench: Bench, status: int) -> None:
    bench.api.answers["POST"] = [failure(status)]
    await bench.settle(A)
    assert [(name, told.status) for name, told in bench.failures] == [("ml/a", status)]
    assert [told.reason for _, told in bench.failures] == [f"R{status}"]
    assert bench.api.methods == ["POST"]


async def test_without_the_lease_a_bind_ends_at_once(bench: Bench) -> None:
    bench.api.answers["POST"] = [failure(0, NOT_LEADER)]
    await bench.settle(A)
    assert [(told.reason, told.status) for _, told in bench.failures] == [(NOT_LEADER, 0)]
    assert bench.api.methods == ["POST"]


DOUBTS = [*map(failure, (404, 409, 500, 503, 504)), failure(0, "Timeout"), failure(0, "NoAnswer")]


@pytest.mark.parametrize("doubt", DOUBTS, ids=lambda doubt: f"{doubt.status} {doubt.reason}")
@pytest.mark.parametrize(
    ("there", "bound", "reason", "asked"),
    [
        (pod(node="n1"), True, "", ["POST", "GET"]),
        (pod(node="n9"), False, OBSOLETE, ["POST", "GET"]),
        (pod(uid="other"), False, OBSOLETE, ["POST", "GET"]),
        (pod(), True, "", ["POST", "GET", "POST"]),
        (failure(500), True, "", ["POST", "GET", "POST"]),
    ],
    ids=["ours", "another's", "anew", "not bound", "unknown"],
)
async def test_what_is_in_doubt_is_settled_by_a_look_at_the_pod(
    bench: Bench, doubt: ApiFailure, there: Answer, bound: bool, reason: str, asked: list[str]
) -> None:
    bench.api.answers = {"POST": [doubt], "GET": [there]}
    await bench.settle(A)
    assert bench.ended == (["ml/a"] if bound else [])
    assert [told.reason for _, told in bench.failures] == ([] if bound else [reason])
    assert bench.api.methods == asked


@pytest.mark.parametrize("first", [404, 500])
async def test_a_pod_that_is_gone_is_given_up(bench: Bench, first: int) -> None:
    bench.api.answers = {"POST": [failure(first)], "GET": [failure(404)]}
    await bench.settle(A)
    assert [(told.reason, told.status) for _, told in bench.failures] == [(OBSOLETE, 404)]
    assert bench.api.methods == ["POST", "GET"]


async def test_something_else_than_the_pod_is_not_found(bench: Bench) -> None:
    """A pod that is there waits, and its users are told why."""
    bench.api.answers = {"POST": [failure(404)] * 9, "GET": [pod()] * 9}
    await bench.settle(A)
    assert [(told.reason, told.status) for _, told in bench.failures] == [("R404", 404)]
    assert bench.api.methods.count("POST") == BINDS.attempts


async def test_a_pod_that_is_being_deleted_is_given_up(bench: Bench) -> None:
    bench.api.answers = {"POST": [failure(409)], "GET": [pod(deleted="2026-01-01T00:00:00Z")]}
    await bench.settle(A)
    assert [told.status for _, told in bench.failures] == [409]
    assert bench.api.methods == ["POST", "GET"]


async def test_it_gives_up_in_the_end_and_waits_longer_each_time(bench: Bench, naps: Naps) -> None:
    bench.api.answers = {"POST": [failure(500)] * 99, "GET": [pod()] * 99}
    await bench.settle(A)
    assert [told.status for _, told in bench.failures] == [500]
    assert bench.api.methods.count("POST") == BINDS.attempts
    longest = [0.1, 0.2, 0.4, 0.8, 1.6]
    assert len(naps.seconds) == len(longest)
    assert all(most / 2 <= slept <= most for slept, most in zip(naps.seconds, longest, strict=True))


async def test_it_waits_as_long_as_it_is_told_to_within_reason(bench: Bench, naps: Naps) -> None:
    bench.api.answers["POST"] = [failure(429, retry_after_s=7.0), failure(429, retry_after_s=900.0)]
    await bench.settle(A)
    assert bench.ended == ["ml/a"]
    assert 7.0 <= naps.seconds[0] <= 7.1
    assert 30.0 <= naps.seconds[1] <= 30.2
    assert bench.api.methods == ["POST"] * 3


async def test_pending_counts_what_is_not_settled(bench: Bench) -> None:
    seen = []

    async def look() -> bytes:
        seen.append(bench.queue.pending)
        return b"{}"

    bench.api.answers["POST"] = [look, look]
    await bench.settle(A, B)
    assert seen == [2, 1]


async def unreadable() -> bytes:
    return b"<html>"


@pytest.mark.parametrize("last", [failure(500), failure(429), failure(403), failure(0, NOT_LEADER)], ids=str)
async def test_what_is_in_doubt_keeps_its_room_until_the_pod_is_read(bench: Bench, last: ApiFailure) -> None:
    """The first attempt may have been carried out, whatever is said to the later ones."""
    looks = 9

    async def look() -> bytes:
        nonlocal looks
        looks -= 1
        assert bench.failures == bench.ended == []
        if looks:
            raise failure(500)
        return pod(node="n1")

    bench.api.answers = {"POST": [failure(0, "Timeout"), *[last] * 9], "GET": [look] * 9}
    await bench.settle(A)
    assert (bench.ended, bench.failures, looks) == (["ml/a"], [], 0)


@pytest.mark.parametrize(
    ("there", "reason"),
    [(pod(), "R500"), (pod(node="n9"), OBSOLETE), (pod(uid="o"), OBSOLETE), (failure(404), OBSOLETE)],
)
async def test_what_is_in_doubt_is_given_up_by_what_the_pod_says(bench: Bench, there: Answer, reason: str) -> None:
    bench.api.answers = {"POST": [failure(500)] * 9, "GET": [*[unreadable] * 9, there]}
    await bench.settle(A)
    assert (bench.ended, [told.reason for _, told in bench.failures]) == ([], [reason])


async def test_doubt_outlasts_a_bind_that_makes_no_sense_any_more(bench: Bench) -> None:
    async def overtaken() -> bytes:
        bench.refused["ml/a"] = "node n1 was cordoned"
        raise failure(500)

    bench.api.answers = {"POST": [overtaken], "GET": [failure(500), failure(500), pod(node="n1")]}
    await bench.settle(A)
    assert (bench.ended, bench.failures) == (["ml/a"], [])


async def test_an_impossible_name_is_given_up(bench: Bench) -> None:
    await bench.settle(Bind("ml/../nodes", "u", "n1"), Bind("a b/c", "u", "n1"), A)
    assert [(name, told.status) for name, told in bench.failures] == [("ml/../nodes", 422), ("a b/c", 422)]
    assert bench.ended == ["ml/a"]


@pytest.mark.parametrize("part", ["_check", "_bound", "_failed"])
async def test_what_raises_costs_one_bind(bench: Bench, part: str) -> None:
    working = getattr(bench.binder, part)

    def raising(bind: Bind, *rest: object) -> object:
        if bind == A:
            raise ZeroDivisionError("by the test")
        return working(bind, *rest)

    setattr(bench.binder, part, raising)
    bench.api.answers["POST"] = [failure(403)] if part == "_failed" else []
    for bind in (A, B):
        await bench.settle(bind)
    assert bench.ended == ["ml/b"]
    if part == "_check":
        ((_, told),) = bench.failures
        assert told.message.startswith("it cannot be checked: unexpected ZeroDivisionError: by the test")


SHARE = Bind("ml/a", "ua", "n1", ("g1", "g2"))
DEVICES = {"runai-gpu-group/g1": "g1", "runai-gpu-group/g2": "g2", "app": "a"}


def shared(version: str, labels: dict[str, str], node: str = "") -> bytes:
    meta = {"name": "a", "namespace": "ml", "uid": "ua", "resourceVersion": version, "labels": labels}
    return json.dumps({"metadata": meta, "spec": {"nodeName": node} if node else {}}).encode()


async def test_a_pod_that_shares_gpus_is_bound_as_it_was_seen_with_its_devices(bench: Bench) -> None:
    """It may be changed between the look and the bind: then it is looked at again."""
    bench.api.answers = {
        "GET": [shared("7", DEVICES), shared("8", {**DEVICES, "app": "b"})],
        "POST": [failure(409, "Conflict"), b"{}"],
    }
    await bench.settle(SHARE)
    assert bench.ended == ["ml/a"]
    sent = [body["metadata"]["resourceVersion"] for method, _, body in bench.api.asked if method == "POST"]
    assert sent == ["7", "8"]


async def test_a_pod_whose_version_with_its_devices_is_known_is_not_read_again(bench: Bench) -> None:
    bench.api.answers = {"POST": [b"{}"]}
    await bench.settle(SHARE, versions={"ua": "6"})
    assert bench.ended == ["ml/a"]
    ((method, _, body),) = bench.api.asked
    assert (method, body["metadata"]["resourceVersion"]) == ("POST", "6")


@pytest.mark.parametrize("labels", [{}, {"runai-gpu-group/g1": "g1"}, {**DEVICES, "runai-gpu-group": "g3"}])
@pytest.mark.parametrize("late", [False, True])
async def test_a_pod_without_the_labels_of_its_devices_is_not_bound(
    bench: Bench, late: bool, labels: dict[str, str]
) -> None:
    """Whoever takes them off would use devices that the scheduler gives to others."""
    first = [shared("7", DEVICES)] if late else []
    bench.api.answers = {"GET": [*first, shared("8", labels)], "POST": [failure(409, "Conflict")] if late else []}
    await bench.settle(SHARE)
    assert bench.ended == []
    assert [(key, each.reason, each.status) for key, each in bench.failures] == [("ml/a", OBSOLETE, 409)]
    assert bench.api.methods.count("POST") == late


async def test_a_bind_with_shares_that_was_carried_out_is_found(bench: Bench) -> None:
    bench.api.answers = {"GET": [shared("7", DEVICES), shared("9", {}, "n1")], "POST": [failure(500)]}
    await bench.settle(SHARE)
    assert bench.ended == ["ml/a"]
