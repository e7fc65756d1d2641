"""How often large objects are read."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kai_sched.model.objects import Pod
from kai_sched.model.read.kinds import NODE, POD, Kind
from kai_sched.operator.intake.event_sink import EventSink
from kai_sched.operator.intake.paced_sink import LARGE_BYTES, REST_S_PER_BYTE, PacedSink
from tests.unit.operator.builders import Intake

BIG = "x" * LARGE_BYTES


def pod(version: int, name: str = "p", namespace: str = "evil", text: str = BIG) -> bytes:
    meta: dict[str, Any] = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": str(version)}
    meta["annotations"] = {"text": text, "version": str(version)}
    return json.dumps({"metadata": meta, "spec": {"schedulerName": "kai-scheduler", "containers": []}}).encode()


@pytest.fixture
def intake() -> Intake:
    return Intake()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of each object that is read."""
    found: list[int] = []
    original = EventSink.changed

    def changed(self: EventSink, kind: Kind, raw: bytes) -> None:
        found.append(len(raw))
        original(self, kind, raw)

    monkeypatch.setattr(EventSink, "changed", changed)
    return found


async def test_updates_of_a_large_object_are_read_at_a_bounded_rate_and_the_latest_counts(
    intake: Intake, reads: list[int]
) -> None:
    sink = PacedSink(intake.sink)
    for version in range(1, 101):
        sink.changed(POD, pod(version))
    assert len(reads) == 1
    await asyncio.sleep(3 * len(BIG) * REST_S_PER_BYTE)
    assert len(reads) == 2
    assert intake.sink.known(POD) == {"evil/p": 100}


async def test_other_namespaces_and_small_objects_do_not_wait(intake: Intake, reads: list[int]) -> None:
    sink = PacedSink(intake.sink)
    for version in range(1, 4):
        sink.changed(POD, pod(version))
    sink.changed(POD, pod(9, namespace="other"))
    sink.changed(POD, pod(10, "small", text=""))
    assert len(reads) == 3
    assert set(intake.sink.known(POD)) == {"evil/p", "other/p", "evil/small"}


async def test_nodes_that_are_large_do_not_wait_for_each_other(intake: Intake, reads: list[int]) -> None:
    """All of them are in no namespace; no tenant writes them."""
    sink = PacedSink(intake.sink)
    for number in range(5):
        meta = {"name": f"n{number}", "uid": "n", "resourceVersion": str(number + 1), "annotations": {"text": BIG}}
        sink.changed(NODE, json.dumps({"metadata": meta, "spec": {}, "status": {}}).encode())
    assert len(reads) == 5


async def test_many_large_objects_of_a_namespace_share_its_time(intake: Intake, reads: list[int]) -> None:
    sink = PacedSink(intake.sink)
    for number in range(5):
        sink.changed(POD, pod(number + 1, f"p{number}"))
    assert len(reads) == 1
    await asyncio.sleep(7 * len(BIG) * REST_S_PER_BYTE)
    assert set(intake.sink.known(POD)) == {f"evil/p{number}" for number in range(5)}


async def test_an_object_that_is_gone_does_not_come_back(intake: Intake) -> None:
    sink = PacedSink(intake.sink)
    sink.changed(POD, pod(1))
    sink.changed(POD, pod(2))
    sink.deleted(POD, pod(3))
    await asyncio.sleep(3 * len(BIG) * REST_S_PER_BYTE)
    assert intake.store.get(Pod, "evil/p") is None
    assert intake.sink.known(POD) == {}


async def test_an_older_version_that_was_held_back_does_not_replace_a_newer_small_one(intake: Intake) -> None:
    sink = PacedSink(intake.sink)
    sink.changed(POD, pod(1))
    sink.changed(POD, pod(2))
    sink.changed(POD, pod(3, text=""))
    await asyncio.sleep(3 * len(BIG) * REST_S_PER_BYTE)
    assert intake.sink.known(POD) == {"evil/p": 3}


async def test_what_a_list_does_not_have_any_more_does_not_come_back(intake: Intake) -> None:
    sink = PacedSink(intake.sink)
    sink.changed(POD, pod(1))
    sink.changed(POD, pod(2))
    sink.begin(POD)
    sink.finish(POD)
    await asyncio.sleep(3 * len(BIG) * REST_S_PER_BYTE)
    assert intake.sink.known(POD) == {}
