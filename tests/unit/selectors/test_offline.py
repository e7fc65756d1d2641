"""Programs that wait for answers: they get some for all that they ask, in a bounded time for each namespace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kai_sched.model.device_selectors import SelectorQuestion
from kai_sched.selectors import offline
from kai_sched.selectors.offline import TOO_MUCH, OfflineEvaluator


@pytest.fixture
def evaluator() -> Iterator[OfflineEvaluator]:
    found = OfflineEvaluator()
    yield found
    found.close()


def test_all_questions_have_answers(evaluator: OfflineEvaluator) -> None:
    questions = [SelectorQuestion(f"{i} == 1", ("a",)) for i in range(100)]
    found = evaluator.answer(questions)
    assert found is not None
    assert len(found) == 100
    assert evaluator.answer(questions) is None
    assert evaluator.begin() is found


def test_what_a_namespace_has_no_time_for_is_a_fault_of_this_cycle(
    evaluator: OfflineEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = [SelectorQuestion(f"{i} == 1", ("a",)) for i in range(10)]
    monkeypatch.setattr(evaluator._book, "_burst_s", 0.0)
    found = evaluator.answer(questions)
    assert found is not None
    assert {answer.fault for answer in found.values()} == {TOO_MUCH}
    assert evaluator.answer(questions) is None
    monkeypatch.undo()
    assert evaluator.begin() == {}
    found = evaluator.answer(questions)
    assert found is not None
    assert {answer.fault for answer in found.values()} == {""}


def test_answers_are_forgotten_between_cycles_alone(
    evaluator: OfflineEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or what one cycle asks might never be there at the same time."""
    monkeypatch.setattr(offline, "KEPT_BYTES", 1000)
    assert len(evaluator.answer([SelectorQuestion(f"{i} == 1") for i in range(10)]) or ()) == 10
    assert evaluator.begin() == {}
