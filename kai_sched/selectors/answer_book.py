"""Which expression is evaluated next, and which answers are kept: the questions that are open, the time that each
namespace has had, and the answers in a bounded number of bytes.

Fair by namespace: of those with open questions it is the turn of the one that has used the least time lately, and one
that has used up its time waits until it has some again. Where answers take too many bytes, those of the namespace with
the most bytes go, the oldest first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from kai_sched.model.claims.selectors import (
    NO_ANSWERS,
    DeviceView,
    SelectorAnswer,
    SelectorAnswers,
    SelectorQuestion,
)
from kai_sched.selectors.wire import Reply
from kai_sched.selectors.worker_process import DELAYED

VIEWS_AT_ONCE = 256  # of one expression in one request
JOBS_AT_ONCE = 64  # for one namespace, and views of all of them together:
VIEWS_OF_JOBS = 2048
CHARGED_MAX_S = 0.6  # of one request: on the clock it may take longer, where others need the processor
SLICE_S = 0.05  # after which it is another namespace's turn
BURST_S = 2.0  # evaluation time that a namespace may use at once
SHARE = 0.1  # and then, of each second
KEPT_BYTES = 64 * 2**20
EXPRESSION_BYTES = 200  # of an expression without its text and answers
ANSWER_BYTES = 120  # of an answer without its text
TEXTS_MAX = 64 * 2**10  # characters of the texts that one expression may have as answers
RETRY_S = 300.0  # after which an expression that had no time is tried again

NOTHING = SelectorAnswer()


@dataclass(slots=True)
class Usage:
    """Evaluation time of a namespace, in seconds; it decreases by ``SHARE`` of the time that passes."""

    seconds: float = 0.0
    at: float = 0.0

    def now(self, now: float) -> float:
        """What is left of it at the time."""
        return max(0.0, self.seconds - SHARE * (now - self.at))


class Job(NamedTuple):
    """One request: an expression, some of the views that it is asked about, and who pays for it."""

    expression: str
    views: tuple[DeviceView, ...]
    namespace: str


class AnswerBook:
    """Open questions and kept answers. For one thread; it evaluates nothing itself.

    Parameters
    ----------
    burst_s
        Evaluation time that a namespace may use at once, in seconds.
    kept_bytes
        How many bytes of answers are kept.
    """

    def __init__(self, burst_s: float = BURST_S, kept_bytes: int = KEPT_BYTES) -> None:
        self._burst_s = burst_s
        self._kept_bytes = kept_bytes
        self._open: dict[str, dict[str, SelectorQuestion]] = {}  # by namespace and expression
        self._answers: dict[str, SelectorAnswer] = {}
        self._shown: SelectorAnswers | None = NO_ANSWERS
        self._owner: dict[str, str] = {}  # the namespace that paid for the answer, by expression
        self._sizes: dict[str, dict[str, int]] = {}  # bytes by owner and expression, oldest first
        self._bytes: dict[str, int] = {}  # by owner
        self.size = 0  # bytes of all of them
        self._usage: dict[str, Usage] = {}
        self._delayed: dict[str, float] = {}  # when these expressions are tried again

    @property
    def answers(self) -> SelectorAnswers:
        """All answers; the same object until there are others."""
        if self._shown is None:
            self._shown = MappingProxyType(dict(self._answers))
        return self._shown

    @property
    def is_open(self) -> bool:
        """Whether there are open questions."""
        return bool(self._open)

    def ask(self, questions: Iterable[SelectorQuestion]) -> None:
        """These questions are open from now on, and no others."""
        self._open = {}
        for question in questions:
            if self._lacks(question):
                for namespace in question.namespaces:
                    self._open.setdefault(namespace, {})[question.expression] = question

    def next_jobs(self, now: float) -> list[Job]:
        """What is evaluated next, for one namespace; nothing while none of them may."""
        self._usage = {each: use for each, use in self._usage.items() if use.now(now) > 0.0}
        waiting = [(used, each) for each in self._open if (used := self._used(each, now)) < self._burst_s]
        if not waiting:
            return []
        _, namespace = min(waiting)
        jobs: list[Job] = []
        left = VIEWS_OF_JOBS
        for expression, question in islice(self._open[namespace].items(), JOBS_AT_ONCE):
            if left > 0:
                jobs.append(Job(expression, tuple(islice(self._missing(question), VIEWS_AT_ONCE)), namespace))
                left -= len(jobs[-1].views)
        return jobs

    def forget_delayed(self, now: float) -> bool:
        """Forget the answers that there was no time for, after ``RETRY_S``; whether there were any."""
        due = [expression for expression, at in self._delayed.items() if at <= now]
        for expression in due:
            del self._delayed[expression]
            self._drop(expression)
        return bool(due)

    def retry_s(self, now: float) -> float | None:
        """How long until ``forget_delayed`` has something to forget; None while it has not."""
        return max(0.0, min(self._delayed.values()) - now) if self._delayed else None

    def give_up(self, fault: str, now: float) -> None:
        """All questions that are open have this answer, until ``forget_delayed`` is called."""
        for namespace, questions in self._open.items():
            for expression in questions:
                self._keep(Job(expression, (), namespace), SelectorAnswer(fault))
                self._delayed[expression] = now
        self._open = {}

    def forget_usage(self) -> None:
        """All namespaces have their time again."""
        self._usage = {}

    def wait_s(self, now: float) -> float | None:
        """How long until some namespace may have something evaluated; None while nothing is asked."""
        waits = [(self._used(each, now) - self._burst_s) / SHARE for each in self._open]
        return max(0.0, min(waits)) if waits else None

    def take(self, job: Job, reply: Reply, seconds: float, now: float) -> bool:
        """Note the reply, and that it took so long. Whether a question is answered now."""
        used = self._used(job.namespace, now) + min(seconds, CHARGED_MAX_S)
        self._usage[job.namespace] = Usage(used, now)
        before = self._answers.get(job.expression, SelectorAnswer())
        found = dict(zip((view.key for view in job.views), reply.answers, strict=False))
        after = SelectorAnswer(reply.fault, {} if reply.fault else {**before.of, **found})
        if _text_length(after) > TEXTS_MAX:
            after = SelectorAnswer("fails for too many devices: correct it")
        self._keep(job, after)
        if reply.fault == DELAYED:
            self._delayed[job.expression] = now + RETRY_S
        is_done = False
        for namespace, questions in list(self._open.items()):
            question = questions.get(job.expression)
            if question is not None and not self._lacks(question):
                is_done = True
                del questions[job.expression]
                if not questions:
                    del self._open[namespace]
        return is_done

    def _lacks(self, question: SelectorQuestion) -> bool:
        return question.expression not in self._answers or any(True for _ in self._missing(question))

    def _missing(self, question: SelectorQuestion) -> Iterator[DeviceView]:
        answer = self._answers.get(question.expression, NOTHING)
        return iter(()) if answer.fault else (view for view in question.views if view.key not in answer.of)

    def _used(self, namespace: str, now: float) -> float:
        return self._usage[namespace].now(now) if namespace in self._usage else 0.0

    def _keep(self, job: Job, answer: SelectorAnswer) -> None:
        self._drop(job.expression)
        size = EXPRESSION_BYTES + sys.getsizeof(job.expression) + 4 * _text_length(answer)
        size += ANSWER_BYTES * len(answer.of)
        self._answers[job.expression], self._owner[job.expression] = answer, job.namespace
        self._sizes.setdefault(job.namespace, {})[job.expression] = size
        self._bytes[job.namespace] = self._bytes.get(job.namespace, 0) + size
        self.size += size
        self._shown = None
        while self.size > self._kept_bytes:
            most = max(self._bytes, key=lambda each: (self._bytes[each], each))
            self._drop(next(iter(self._sizes[most])))

    def _drop(self, expression: str) -> None:
        if self._answers.pop(expression, None) is None:
            return
        owner = self._owner.pop(expression)
        size = self._sizes[owner].pop(expression)
        self._bytes[owner] -= size
        self.size -= size
        self._shown = None
        self._delayed.pop(expression, None)
        if not self._sizes[owner]:
            del self._sizes[owner], self._bytes[owner]


def _text_length(answer: SelectorAnswer) -> int:
    return len(answer.fault) + sum(len(each) for each in answer.of.values() if isinstance(each, str))


def evaluated(
    jobs: Sequence[Job], ask: Callable[[str, list[bytes]], Reply], timer: Callable[[], float]
) -> list[tuple[Job, Reply, float]]:
    """The replies to the first of these jobs, as many as ``SLICE_S`` suffices for, and the seconds that each took."""
    began = before = timer()
    found = []
    for job in jobs:
        reply = ask(job.expression, [view.content for view in job.views])
        now = timer()
        found.append((job, reply, now - before))
        before = now
        if now - began > SLICE_S:
            break
    return found
