"""Programs that wait for answers: they get some for all that they ask, in a bounded time for each namespace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kai_sched.model.claims.selectors import SelectorQuestion
from kai_sched.selectors import offline
from kai_sched.selectors.offline import TOO_MUCH, OfflineEvaluator

STORE = object()


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
    assert evaluator.begin(STORE) is found


def test_what_a_namespace_has_no_time_for_is_a_fault_until_its_time_is_renewed(
    evaluator: OfflineEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluator._book, "_burst_s", 0.0)
    check_faults_until(evaluator, monkeypatch)


def test_what_all_together_have_no_time_for_is_a_fault_too(
    evaluator: OfflineEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offline, "ALL_S", 0.0)
    check_faults_until(evaluator, monkeypatch)


def check_faults_until(evaluator: OfflineEvaluator, monkeypatch: pytest.MonkeyPatch) -> None:
    first, later = ([SelectorQuestion(f"{i} == {n}", ("a",)) for i in range(10)] for n in range(2))
    evaluator.begin(STORE)
    found = evaluator.answer(first)
    assert found is not None
    assert {answer.fault for answer in found.values()} == {TOO_MUCH}
    assert evaluator.answer(first) is None
    assert evaluator.answer(later) is None, "else the cycle would be lowered for each of many parts"
    monkeypatch.undo()
    assert evaluator.begin(STORE) is found, "else each warm cycle would wait again"
    assert evaluator.begin(object()) == {}
    found = evaluator.answer(first)
    assert found is not None
    assert {answer.fault for answer in found.values()} == {""}


def test_answers_are_forgotten_for_another_store_alone(
    evaluator: OfflineEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or what one cycle asks might never be there at the same time."""
    monkeypatch.setattr(offline, "KEPT_BYTES", 1000)
    evaluator.begin(STORE)
    assert len(evaluator.answer([SelectorQuestion(f"{i} == 1") for i in range(10)]) or ()) == 10
    assert len(evaluator.begin(STORE)) == 10
    assert evaluator.begin(object()) == {}
