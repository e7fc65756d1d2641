"""Answers about selectors for programs that wait for them: ``simulate`` and the library. One process for the whole
program, started with the first selector.
"""

from __future__ import annotations

import atexit
import sys
import time
from collections.abc import Sequence
from functools import cache

from kai_sched.model.device_selectors import SelectorAnswers, SelectorQuestion
from kai_sched.selectors.answer_book import KEPT_BYTES, AnswerBook, evaluated
from kai_sched.selectors.worker_process import WorkerProcess

NAMESPACE_S = 10.0  # evaluation time of a namespace in one cycle
TOO_MUCH = f"was not evaluated: all selectors of its namespace together take more than {NAMESPACE_S:.0f} s"


class OfflineEvaluator:
    """Evaluates what is asked while the caller waits."""

    def __init__(self) -> None:
        self._worker = WorkerProcess()
        self._book = _new_book()
        atexit.register(self.close)

    def close(self) -> None:
        """End the process for good."""
        self._worker.close()

    def begin(self) -> SelectorAnswers:
        """A cycle begins: what is known of all expressions that were asked about before. Namespaces have their time
        again."""
        if self._book.size > KEPT_BYTES:
            self._book = _new_book()
        self._book.forget_delayed(time.monotonic())
        self._book.forget_usage()
        return self._book.answers

    def answer(self, questions: Sequence[SelectorQuestion]) -> SelectorAnswers | None:
        """All answers; None if there are no more than before. What a namespace has no time for is a fault."""
        self._book.ask(questions)
        if not self._book.is_open:
            return None
        while jobs := self._book.next_jobs(time.monotonic()):
            for job, reply, seconds in evaluated(jobs, self._worker.ask, time.monotonic):
                self._book.take(job, reply, seconds, time.monotonic())
        self._book.give_up(TOO_MUCH, time.monotonic())
        return self._book.answers


def _new_book() -> AnswerBook:
    # Within a cycle nothing is forgotten, or it would be asked again and again.
    return AnswerBook(NAMESPACE_S, sys.maxsize)


@cache
def evaluator() -> OfflineEvaluator:
    """The evaluator of this program."""
    return OfflineEvaluator()
