"""Answers about selectors for programs that wait for them: ``simulate`` and the library. One process for the whole
program, started with the first selector.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Sequence
from functools import cache

from kai_sched.model.device_selectors import SelectorAnswers, SelectorQuestion
from kai_sched.selectors.answer_book import AnswerBook, evaluated
from kai_sched.selectors.worker_process import WorkerProcess

NAMESPACE_S = 10.0  # evaluation time of a namespace; what is left of its selectors is not evaluated


class OfflineEvaluator:
    """Evaluates what is asked while the caller waits."""

    def __init__(self) -> None:
        self._worker = WorkerProcess()
        self._book = AnswerBook(NAMESPACE_S)
        atexit.register(self.close)

    def close(self) -> None:
        """End the process for good."""
        self._worker.close()

    @property
    def answers(self) -> SelectorAnswers:
        """What is known of all expressions that were asked about so far."""
        return self._book.answers

    def answer(self, questions: Sequence[SelectorQuestion]) -> SelectorAnswers | None:
        """All answers, as far as the time of each namespace goes; None if no question could be evaluated."""
        self._book.ask(questions)
        return self._book.answers if self._evaluate() else None

    def _evaluate(self) -> bool:
        """Evaluate the open questions; whether there were any that could be."""
        some = False
        while jobs := self._book.next_jobs(time.monotonic()):
            for job, reply, seconds in evaluated(jobs, self._worker.ask, time.monotonic):
                self._book.take(job, reply, seconds, time.monotonic())
                some = True
        return some


@cache
def evaluator() -> OfflineEvaluator:
    """The evaluator of this program."""
    return OfflineEvaluator()
