"""What selectors of devices say, for the cycle loop: views of the cluster with the answers so far, and their evaluation
in a process of its own while cycles go on. An answer that a pod may wait for requests a cycle.

The process is waited for in a thread. It is started with the first selector, and ended when there is nothing to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import structlog

from kai_sched.model.claims.objects import DeviceClass, DeviceTaintRule
from kai_sched.model.claims.selectors import SelectorQuestion, object_questions, selector_problems
from kai_sched.model.store import Cluster, Store
from kai_sched.selectors.answer_book import AnswerBook, evaluated
from kai_sched.selectors.worker_process import WorkerProcess
from kai_sched.telemetry.unexpected import FAULTS

IDLE_S = 60.0  # without a question, after which the process ends
FAILED_PAUSE_S = 5.0  # after a process that could not be started

log = structlog.get_logger("selectors")


class SelectorService:
    """For one event loop.

    Parameters
    ----------
    store
        The cluster as the informers show it, with what is under way.
    request
        Requests a cycle.
    monotonic
        Seconds that never go back.
    worker
        Evaluates expressions.
    """

    def __init__(
        self,
        store: Store,
        request: Callable[[], None],
        monotonic: Callable[[], float],
        worker: WorkerProcess | None = None,
    ) -> None:
        self._store = store
        self._request = request
        self._monotonic = monotonic
        self._worker = worker or WorkerProcess()
        self._book = AnswerBook()
        self._has_news = asyncio.Event()
        self._warned: dict[tuple[str, str], str] = {}
        self._thread = ThreadPoolExecutor(1, "selectors")

    def cluster(self) -> Cluster:
        """A view of the store, with the answers so far."""
        return replace(self._store.cluster(), selector_answers=self._book.answers)

    def ask(self, questions: Iterable[SelectorQuestion]) -> None:
        """A cycle has asked these questions; those that earlier ones asked no longer matter."""
        classes, rules = self._store.all(DeviceClass), self._store.all(DeviceTaintRule)
        own = object_questions(classes, rules, self._book.answers)
        self._book.ask([*own, *questions])
        self._warn()
        if self._book.is_open:
            self._has_news.set()

    async def run(self) -> None:
        """Evaluate what is asked, until cancelled."""
        while True:
            jobs = self._book.next_jobs(self._monotonic())
            if not jobs:
                await self._wait()
                continue
            loop = asyncio.get_running_loop()
            work = partial(evaluated, jobs, self._worker.ask, self._monotonic)
            try:
                found = await loop.run_in_executor(self._thread, work)
            except Exception as error:
                FAULTS.note("selectors", jobs[0].expression[:100], error)
                await asyncio.sleep(FAILED_PAUSE_S)
                continue
            now = self._monotonic()
            done = [self._book.take(job, reply, seconds, now) for job, reply, seconds in found]
            if any(done):
                self._request()
            self._warn()

    async def stop(self) -> None:
        """End the process."""
        self._worker.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _wait(self) -> None:
        self._has_news.clear()
        now = self._monotonic()
        wait_s, retry_s = self._book.wait_s(now), self._book.retry_s(now)
        try:
            async with asyncio.timeout(min(IDLE_S if each is None else each for each in (wait_s, retry_s))):
                await self._has_news.wait()
        except TimeoutError:
            if self._book.forget_delayed(self._monotonic()):
                self._request()
            elif wait_s is None:
                await asyncio.get_running_loop().run_in_executor(self._thread, self._worker.end)

    def _warn(self) -> None:
        """Log classes and rules with selectors that cannot be used, each once."""
        classes, rules = self._store.all(DeviceClass), self._store.all(DeviceTaintRule)
        found: dict[tuple[str, str], list[str]] = {}
        for kind, name, field, message in selector_problems(classes, rules, self._book.answers):
            found.setdefault((kind, name), []).append(f"{field}: {message}")
        texts = {each: "; ".join(problems) for each, problems in found.items()}
        for (kind, name), text in texts.items():
            if self._warned.get((kind, name)) != text:
                log.warning("object.doubtful", kind=kind, object=name, problem=text)
        self._warned = texts
