"""Answers about selectors for programs that wait for them: ``simulate`` and the library. One process for the whole
program, started with the first selector.
"""

from __future__ import annotations

import atexit
import sys
import time
from collections.abc import Sequence
from functools import cache

from kai_sched.model.claims.selectors import SelectorAnswers, SelectorQuestion
from kai_sched.selectors.answer_book import KEPT_BYTES, RETRY_S, AnswerBook, evaluated
from kai_sched.selectors.worker_process import WorkerProcess

# Evaluation time, in seconds, that each namespace has and that all have together. Another store has it anew, and the
# same one after ``RETRY_S``: what there was no time for does not make each of its cycles wait again.
NAMESPACE_S, ALL_S = 10.0, 30.0
TOO_MUCH = (
    f"was not evaluated: selectors take more than {NAMESPACE_S:.0f} s for its namespace, "
    f"or {ALL_S:.0f} s for all together: use fewer, or simpler ones"
)


class OfflineEvaluator:
    """Evaluates what is asked while the caller waits."""

    def __init__(self) -> None:
        self._worker = WorkerProcess()
        self._book = _new_book()
        self._store: object = None
        self._renewed_at = 0.0  # the time of all that the book is told, so that nothing is had back before
        self._left_s = ALL_S
        self._gave_up = False  # whether some question had no time
        atexit.register(self.close)

    def close(self) -> None:
        """End the process for good."""
        self._worker.close()

    def begin(self, store: object) -> SelectorAnswers:
        """A cycle of this store begins: what is known of all expressions that were asked about before."""
        now = time.monotonic()
        if store is not self._store or now >= self._renewed_at + RETRY_S:
            self._store, self._renewed_at = store, now
            self._left_s, self._gave_up = ALL_S, False
            if self._book.size > KEPT_BYTES:
                self._book = _new_book()
            self._book.forget_delayed(now)
            self._book.forget_usage()
        return self._book.answers

    def answer(self, questions: Sequence[SelectorQuestion]) -> SelectorAnswers | None:
        """All answers; None if there are no more than before. What there is no time for is a fault, or stays open."""
        self._book.ask(questions)
        if not self._book.is_open:
            return None
        is_answered = False
        while self._left_s > 0.0 and (jobs := self._book.next_jobs(self._renewed_at)):
            for job, reply, seconds in evaluated(jobs, self._worker.ask, time.monotonic):
                self._book.take(job, reply, seconds, self._renewed_at)
                self._left_s -= seconds
            is_answered = True
        if self._book.is_open:
            # Where nothing at all was evaluated the caller would only ask the next ones, and again.
            if self._gave_up and not is_answered:
                return None
            self._gave_up = True
            self._book.give_up(TOO_MUCH, self._renewed_at)
        return self._book.answers


def _new_book() -> AnswerBook:
    # Within a cycle nothing is forgotten, or it would be asked again and again.
    return AnswerBook(NAMESPACE_S, sys.maxsize)


@cache
def evaluator() -> OfflineEvaluator:
    """The evaluator of this program."""
    return OfflineEvaluator()
