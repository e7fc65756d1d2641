"""Selectors are evaluated while cycles go on: an answer requests a cycle, and nothing else waits for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from kai_sched.model.claims.objects import DeviceClass
from kai_sched.model.claims.selectors import SelectorQuestion
from kai_sched.model.store import Store
from kai_sched.operator import selector_service
from kai_sched.operator.selector_service import SelectorService
from kai_sched.selectors.wire import Reply
from kai_sched.selectors.worker_process import UNEVALUATED
from tests.unit.selectors.commands import SLOW


class Requests:
    """Counts requests for a cycle."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - conditions are of any kind
            await asyncio.sleep(0.002)


@asynccontextmanager
async def running(store: Store, worker: Any = None) -> AsyncIterator[tuple[SelectorService, Requests]]:
    requests = Requests()
    service = SelectorService(store, requests, time.monotonic, worker)
    task = asyncio.create_task(service.run())
    try:
        yield service, requests
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await service.stop()


async def test_an_answer_comes_with_the_next_view_and_requests_a_cycle() -> None:
    async with running(Store()) as (service, requests):
        assert service.cluster().selector_answers == {}
        service.ask([SelectorQuestion("true", ("a",)), SelectorQuestion("1 +", ("a",))])
        await until(lambda: len(service.cluster().selector_answers) == 2)
        assert requests.count >= 1
        assert service.cluster().selector_answers["1 +"].fault.startswith("cannot be compiled")
        before = requests.count
        service.ask([SelectorQuestion("true", ("a",))])
        await asyncio.sleep(0.05)
        assert requests.count == before


@pytest.mark.alone
@pytest.mark.slow
async def test_the_event_loop_does_not_wait_for_an_expression_that_takes_long() -> None:
    """The longest time for which it stands still, while the expression runs until it is ended."""
    async with running(Store()) as (service, _):
        from kai_sched.model.claims.selectors import DeviceView

        view = DeviceView(b"key", b'{"driver":"a","attributes":{},"capacity":{}}')
        service.ask([SelectorQuestion(SLOW, ("a",), (view,))])
        longest, last = 0.0, time.monotonic()
        while SLOW not in service.cluster().selector_answers:
            await asyncio.sleep(0.005)
            now = time.monotonic()
            longest, last = max(longest, now - last), now
            service.ask([SelectorQuestion(SLOW, ("a",), (view,))])
        assert service.cluster().selector_answers[SLOW].fault == UNEVALUATED
        assert longest < 0.3
        service.ask([SelectorQuestion("true", ("b",), (view,))])
        await until(lambda: "true" in service.cluster().selector_answers)


class Failing:
    """A worker that cannot be started at first."""

    def __init__(self) -> None:
        self.fails, self.ended, self.closed = 1, 0, 0

    def ask(self, _expression: str, devices: Sequence[bytes]) -> Reply:
        if self.fails:
            self.fails -= 1
            raise OSError("no more processes")
        return Reply("", [True] * len(devices))

    def end(self) -> None:
        self.ended += 1

    def close(self) -> None:
        self.closed += 1


async def test_a_process_that_cannot_be_started_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selector_service, "FAILED_PAUSE_S", 0.01)
    async with running(Store(), Failing()) as (service, _):
        service.ask([SelectorQuestion("true")])
        await until(lambda: "true" in service.cluster().selector_answers)


async def test_without_questions_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selector_service, "IDLE_S", 0.01)
    worker = Failing()
    worker.fails = 0
    async with running(Store(), worker) as (service, _):
        service.ask([SelectorQuestion("true")])
        await until(lambda: worker.ended > 0)
    assert worker.closed == 1


async def test_a_class_that_cannot_be_used_is_logged_once() -> None:
    store = Store()
    store.put(DeviceClass("gpu", ("device.driver == 'a'", "device.driver ==")))
    with capture_logs() as logs:
        async with running(store) as (service, _):
            service.ask([])
            await until(lambda: len(service.cluster().selector_answers) == 2)
            await until(lambda: bool(logs))
            service.ask([])
            store.put(DeviceClass("other", ("device.driver ==",)))
            service.ask([])
    assert [(each["event"], each["kind"], each["object"]) for each in logs] == [
        ("object.doubtful", "DeviceClass", "gpu"),
        ("object.doubtful", "DeviceClass", "other"),
    ]
    assert logs[0]["problem"].startswith("spec.selectors[1].cel.expression: 'device.driver ==' cannot be compiled (")
