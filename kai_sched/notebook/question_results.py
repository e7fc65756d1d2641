"""The answers to ``explain``, ``fit`` and ``diff``. They import the solver, so this module is imported when it is
chosen how that runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from kai_sched.answers.difference import Difference
from kai_sched.answers.explain.explanation import Explanation
from kai_sched.answers.fit import Fit
from kai_sched.answers.words import count
from kai_sched.notebook.results import WIDTH, AnswerResult, line_text
from kai_sched.notebook.tables import Rows
from kai_sched.report import answers_json
from kai_sched.report.documents import AnswerDocument
from kai_sched.report.explain_text import explanation_lines
from kai_sched.report.text import plain


@dataclass(frozen=True, slots=True, repr=False)
class ExplanationResult(Explanation, AnswerResult):
    """An ``Explanation`` that can be shown."""

    def _lines(self) -> Iterator[str]:
        return map(line_text, explanation_lines(self, WIDTH, wide=False))

    def _document(self) -> AnswerDocument:
        return answers_json.explanation_document(self)

    def __repr__(self) -> str:
        state = "starts" if self.starts else "waits" if self.needs else "does not wait"
        return f"<ExplanationResult: {self.workload} {state}; {count(len(self.suggestions), 'suggestion')}>"


@dataclass(frozen=True, slots=True, repr=False)
class DifferenceResult(Difference, AnswerResult):
    """A ``Difference`` that can be shown."""

    def _lines(self) -> Iterator[str]:
        return map(plain, self.texts)

    def _document(self) -> AnswerDocument:
        return answers_json.difference_document(self)

    def __repr__(self) -> str:
        parts = ("starts", "waits", "evicted", "spared", "gone", "new", "shares")
        found = [f"{len(getattr(self, name))} {name}" for name in parts if getattr(self, name)]
        return f"<DifferenceResult: {', '.join(found) or 'nothing differs'}>"


class FitResult(Rows[Fit], AnswerResult):
    """Whether workloads would run: a ``Fit`` for each."""

    __slots__ = ()

    def __init__(self, found: Sequence[Fit]) -> None:
        super().__init__("workload", Fit, found, lambda each: f"{each.workload.name} {each.verdict}")

    def _lines(self) -> Iterator[str]:
        return (plain(each.text) for each in self)

    def _document(self) -> AnswerDocument:
        return answers_json.fit_document(self)


def explanation_result(found: Explanation) -> ExplanationResult:
    """The explanation as a result."""
    return ExplanationResult(**{each.name: getattr(found, each.name) for each in fields(found)})


def difference_result(found: Difference) -> DifferenceResult:
    """The difference as a result."""
    return DifferenceResult(**{each.name: getattr(found, each.name) for each in fields(found)})
