"""What selectors say about the devices of a cycle: answers that came with the cluster, and questions."""

from __future__ import annotations

import pytest

from kai_sched.lowering.claims import selectors as claim_selectors
from kai_sched.lowering.claims.selectors import ASKED_EACH, ASKED_MAX, SelectorBook
from kai_sched.model.claims.objects import Device
from kai_sched.model.claims.selectors import (
    EXPRESSION_MAX,
    SelectorAnswer,
    SelectorAnswers,
    SelectorError,
    SelectorQuestion,
    UnansweredError,
)
from kai_sched.selectors.expressions import ExpressionFault
from kai_sched.selectors.expressions import answers as evaluate


def device(i: int) -> Device:
    return Device(f"d{i}", {"a.com/model": "AB"[i % 2], "a.com/slot": i, "a.com/uuid": f"u{i}"})


DEVICES = [("a.com" if i < 6 else "b.com", device(i)) for i in range(8)]
MODEL = "device.attributes['a.com'].model == 'A'"
DRIVER = "device.driver == 'a.com'"
INVERSE = "6 / (device.attributes['a.com'].slot - 6) < 0"


def answered(questions: tuple[SelectorQuestion, ...], before: SelectorAnswers | None = None) -> SelectorAnswers:
    """The answers so far and those to the questions."""
    found = dict(before or {})
    for question in questions:
        try:
            replies = evaluate(question.expression, [view.content for view in question.views])
        except ExpressionFault as fault:
            found[question.expression] = SelectorAnswer(str(fault))
            continue
        known = found.get(question.expression, SelectorAnswer()).of
        now = zip((view.key for view in question.views), replies, strict=True)
        found[question.expression] = SelectorAnswer("", {**known, **dict(now)})
    return found


def book(*expressions: str) -> SelectorBook:
    """A book with answers to these expressions."""
    found = SelectorBook(DEVICES)
    found.ask(expressions, "ns")
    found.begin(answered(found.questions))
    return found


def test_a_question_has_what_the_expression_sees_and_who_asks() -> None:
    found = SelectorBook(DEVICES)
    found.ask([MODEL, DRIVER, "device == {}", "false"], "one")
    found.ask([MODEL], "two")
    by_text = {each.expression: each for each in found.questions}
    assert [*by_text] == sorted(by_text)
    assert by_text[MODEL].namespaces == ("one", "two")
    assert by_text[DRIVER].namespaces == ("one",)
    sizes = {text: len(each.views) for text, each in by_text.items()}
    assert sizes == {MODEL: 2, DRIVER: 2, "device == {}": 8, "false": 1}


def test_all_selectors_must_select() -> None:
    found = book(MODEL, DRIVER)
    assert found.selected([MODEL]).tolist() == [1, 0] * 4
    assert found.selected([DRIVER, MODEL]).tolist() == [1, 0, 1, 0, 1, 0, 0, 0]
    assert found.selected([]).tolist() == [1] * 8
    assert found.questions == ()


def test_a_selector_may_fail_where_those_before_it_do_not_select() -> None:
    """As Kubernetes evaluates them: the class first, one device after another."""
    found = book(DRIVER, INVERSE)
    assert found.selected([DRIVER, INVERSE]).tolist() == [1, 1, 1, 1, 1, 1, 0, 0]
    with pytest.raises(SelectorError, match=r"fails for device d6 of driver b.com \(division by zero"):
        found.selected([INVERSE])


def test_what_is_not_answered_is_an_error_of_its_own() -> None:
    found = SelectorBook(DEVICES)
    with pytest.raises(UnansweredError, match="is not evaluated yet"):
        found.selected([MODEL])
    assert found.questions == ()
    found.ask([MODEL], "ns")
    (question,) = found.questions
    part = SelectorQuestion(MODEL, ("ns",), question.views[:1])
    known = answered((part,))
    found.begin(known)
    with pytest.raises(UnansweredError):
        found.selected([MODEL])
    found.ask([MODEL], "ns")
    (rest,) = found.questions
    assert rest.views == question.views[1:]
    assert found.begin(answered((rest,), known))
    assert found.selected([MODEL]).tolist() == [1, 0] * 4


def test_what_cannot_be_used_is_told_without_a_question() -> None:
    found = book("device.driver ==")
    long = f"{'!' * EXPRESSION_MAX}true"
    found.ask(["device.driver ==", long], "ns")
    assert found.questions == ()
    with pytest.raises(SelectorError, match="cannot be compiled"):
        found.selected(["device.driver =="])
    with pytest.raises(SelectorError, match=f"shorten it to {EXPRESSION_MAX}"):
        found.selected([long])


def test_for_objects_of_the_cluster_unknown_counts_as_selected() -> None:
    found = SelectorBook(DEVICES)
    assert found.selected_or_unknown([DRIVER, INVERSE]).tolist() == [1] * 8
    assert [(each.expression, each.namespaces) for each in found.questions] == [(INVERSE, ("",)), (DRIVER, ("",))]
    found.begin(answered(found.questions))
    assert found.selected_or_unknown([DRIVER]).tolist() == [1] * 6 + [0] * 2
    assert found.selected_or_unknown([INVERSE]).tolist() == [1] * 6 + [0, 0]
    assert found.questions == ()


@pytest.mark.parametrize("length", [5, 10_000])
def test_a_namespace_asks_a_bounded_number_of_questions_in_a_cycle(length: int) -> None:
    found = SelectorBook(DEVICES)
    found.ask((f"{i:05}".ljust(length) for i in range(1000)), "one")
    found.ask(["true"], "two")
    asked = [each.expression for each in found.questions]
    assert len(asked) == ASKED_MAX // (length + ASKED_EACH) + 1
    assert "true" in asked
    found.begin({})
    assert found.questions == ()


def test_answers_that_are_gone_are_gone() -> None:
    """Whatever a book has kept, it says what the answers of the cycle say."""
    found = book(MODEL)
    found.selected([MODEL])
    assert found.begin({})
    with pytest.raises(UnansweredError):
        found.selected([MODEL])


def test_what_an_expression_sees_does_not_depend_on_what_others_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_selectors, "VIEWS_BYTES", 1)
    found = SelectorBook(DEVICES)
    found.ask([DRIVER, MODEL], "ns")
    assert [len(each.views) for each in found.questions] == [2, 2]
    found.begin(answered(found.questions))
    assert found.selected([DRIVER, MODEL]).tolist() == [1, 0, 1, 0, 1, 0, 0, 0]
    assert len(found._views) == 1


def test_expressions_that_tell_most_devices_apart_see_whole_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that however many attributes such expressions combine, all of them see the same."""
    monkeypatch.setattr(claim_selectors, "FEW", 3)
    found = SelectorBook(DEVICES)
    slot = "device.attributes['a.com'].slot != 5"
    texts = [f"{slot} && device.attributes['a.com'].{name} != 'A'" for name in ("slot", "model", "uuid")]
    found.ask([*texts, MODEL], "ns")
    views = {each.expression: each.views for each in found.questions}
    assert len(views[MODEL]) == 2
    assert len(views[texts[0]]) == 8
    assert all(views[text] == views[texts[0]] for text in texts)
    found.begin(answered(found.questions))
    assert found.selected([texts[1]]).tolist() == [0, 1, 0, 1, 0, 0, 0, 1]


def test_what_is_kept_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_selectors, "KEPT_BYTES", 1000)
    texts = [f"device.driver != '{i}'" for i in range(100)]
    found = book(*texts)
    for text in texts:
        assert found.selected([text]).tolist() == [1] * 8
    assert len(found._verdicts) < 6


def test_without_devices_expressions_are_asked_about_all_the_same() -> None:
    found = SelectorBook([])
    found.ask([MODEL, "1 +"], "ns")
    assert [each.views for each in found.questions] == [(), ()]
    found.begin(answered(found.questions))
    assert found.selected([MODEL]).size == 0
    with pytest.raises(SelectorError, match="cannot be compiled"):
        found.selected(["1 +"])
