"""Whose turn it is, what a question still lacks, and how many answers are kept."""

from __future__ import annotations

import pytest

from kai_sched.model.claims.selectors import DeviceView, SelectorQuestion
from kai_sched.selectors import answer_book
from kai_sched.selectors.answer_book import BURST_S, RETRY_S, SHARE, AnswerBook, Job, evaluated
from kai_sched.selectors.wire import Reply
from kai_sched.selectors.worker_process import DELAYED, UNEVALUATED

VIEWS = tuple(DeviceView(bytes([i]), b"%d" % i) for i in range(10))


def question(expression: str, *namespaces: str, views: tuple[DeviceView, ...] = VIEWS[:2]) -> SelectorQuestion:
    return SelectorQuestion(expression, namespaces or ("a",), views)


def selects(job: Job) -> Reply:
    return Reply("", [True] * len(job.views))


def play(book: AnswerBook, seconds: float, until: float, now: float = 0.0) -> list[tuple[str, str]]:
    """(namespace, expression) of what is evaluated until then, if each request takes so long."""
    found = []
    while now < until:
        jobs = book.next_jobs(now)
        if not jobs:
            wait_s = book.wait_s(now)
            if wait_s is None:
                break
            now += max(wait_s, 0.001)
            continue
        now += seconds
        book.take(jobs[0], selects(jobs[0]), seconds, now)
        found.append((jobs[0].namespace, jobs[0].expression))
    return found


def test_namespaces_take_turns() -> None:
    book = AnswerBook()
    book.ask([*(question(f"a{i}") for i in range(100)), question("b0", "b"), question("c0", "c")])
    order = play(book, 0.1, 1000.0)
    assert sorted(order[:3]) == [("a", "a0"), ("b", "b0"), ("c", "c0")]
    assert len(order) == 102


def test_who_has_used_up_its_time_waits_and_others_do_not() -> None:
    book = AnswerBook()
    book.ask(question(f"a{i}") for i in range(1000))
    done = len(play(book, 0.5, 100.0))
    assert done <= (BURST_S + SHARE * 100.0) / 0.5 + 1
    assert done >= (BURST_S + SHARE * 95.0) / 0.5 - 1
    assert book.next_jobs(100.0) == [] or done
    book.ask([*(question(f"a{i}") for i in range(1000, 2000)), question("b0", "b")])
    assert book.next_jobs(100.0)[0].namespace == "b"


def test_who_has_to_wait_for_the_processor_does_not_pay_for_it() -> None:
    """A request has a limit of processor time, but may take much longer on the clock of a busy machine."""
    book = AnswerBook()
    book.ask([question("a"), question("b")])
    assert len(play(book, 9.0, 19.0)) == 2


def test_an_expression_that_several_ask_for_is_evaluated_once_and_for_whom_time_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answer_book, "CHARGED_MAX_S", BURST_S)
    book = AnswerBook()
    book.ask([*(question(f"a{i}") for i in range(100)), question("a0", "a", "b")])
    assert play(book, BURST_S, 2 * BURST_S)[0] == ("a", "a0")
    assert [job.expression for job in book.next_jobs(2 * BURST_S)] == []
    book.ask([question("a7", "a", "b")])
    assert book.next_jobs(2 * BURST_S)[0][::2] == ("a7", "b")
    assert book.wait_s(2 * BURST_S) == 0.0


def test_what_is_known_is_not_asked_again() -> None:
    book = AnswerBook()
    book.ask([question("x")])
    (job,) = book.next_jobs(0.0)
    assert book.take(job, selects(job), 0.1, 1.0)
    assert not book.is_open
    book.ask([question("x")])
    assert not book.is_open
    book.ask([question("x", views=VIEWS[1:4])])
    (job,) = book.next_jobs(1.0)
    assert job.views == VIEWS[2:4]
    before = book.answers
    book.take(job, Reply("", [False, "fails"]), 0.1, 1.0)
    assert before["x"].of == {b"\0": True, b"\1": True}
    assert book.answers["x"].of == {b"\0": True, b"\1": True, b"\2": False, b"\3": "fails"}
    assert book.answers is book.answers


def test_a_fault_is_an_answer_about_everything() -> None:
    book = AnswerBook()
    book.ask([question("x", views=())])
    (job,) = book.next_jobs(0.0)
    book.take(job, Reply("cannot be used", []), 0.1, 1.0)
    book.ask([question("x"), question("x", views=VIEWS)])
    assert not book.is_open
    assert book.answers["x"].fault == "cannot be used"


def test_many_devices_are_asked_about_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_book, "VIEWS_AT_ONCE", 4)
    book = AnswerBook()
    book.ask([question("x", views=VIEWS)])
    done = []
    while jobs := book.next_jobs(0.0):
        done.append((len(jobs[0].views), book.take(jobs[0], selects(jobs[0]), 0.0, 0.0)))
    assert done == [(4, False), (4, False), (2, True)]


def test_questions_that_nobody_asks_any_more_are_forgotten() -> None:
    book = AnswerBook()
    book.ask([question("x")])
    book.ask([])
    assert book.next_jobs(0.0) == []
    assert book.wait_s(0.0) is None


def test_answers_take_no_more_bytes_than_they_may() -> None:
    """Who has most loses its oldest; others keep what they have."""
    book = AnswerBook(burst_s=1e9, kept_bytes=20_000)
    book.ask([question("b0", "b"), *(question(f"a{i:03}" + "x" * 1000) for i in range(100))])
    play(book, 0.1, 1e6)
    assert 5 < len(book.answers) < 15
    assert "b0" in book.answers
    assert sorted(text[:4] for text in book.answers if text != "b0")[-1] == "a099"
    assert book.size == sum(book._bytes.values()) <= 20_000


def test_an_expression_that_fails_in_many_ways_is_at_fault_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_book, "TEXTS_MAX", 1000)
    book = AnswerBook()
    book.ask([question("x", views=VIEWS)])
    (job,) = book.next_jobs(0.0)
    book.take(job, Reply("", ["y" * 200] * 10), 0.0, 0.0)
    assert book.answers["x"].fault == "fails for too many devices: correct it"
    assert not book.answers["x"].of


def test_a_slice_of_work_ends_after_its_time() -> None:
    times = iter([0.0, 0.01, 0.04, 0.06, 0.07])
    jobs = [Job(name, (), "a") for name in "wxyz"]
    found = evaluated(jobs, lambda _text, _devices: Reply("", []), lambda: next(times))
    assert [(job.expression, round(seconds, 2)) for job, _, seconds in found] == [("w", 0.01), ("x", 0.03), ("y", 0.02)]


@pytest.mark.parametrize(("fault", "is_tried_again"), [(DELAYED, True), (UNEVALUATED, False)])
def test_what_had_no_time_is_tried_again_later(fault: str, is_tried_again: bool) -> None:
    book = AnswerBook()
    book.ask([question("x")])
    (job,) = book.next_jobs(0.0)
    assert book.take(job, Reply(fault, []), 0.1, 1.0)
    assert book.retry_s(1.0) == (RETRY_S if is_tried_again else None)
    assert not book.forget_delayed(RETRY_S)
    assert "x" in book.answers
    assert book.forget_delayed(RETRY_S + 1.0) is is_tried_again
    book.ask([question("x")])
    assert book.is_open is is_tried_again
    assert book.retry_s(1.0) is None
    assert (book.size == 0) is is_tried_again


def test_what_is_given_up_is_answered_until_it_is_forgotten() -> None:
    book = AnswerBook()
    book.ask([question("x"), question("y", "b")])
    book.give_up("there was no time", 1.0)
    assert not book.is_open
    assert {text: answer.fault for text, answer in book.answers.items()} == dict.fromkeys("xy", "there was no time")
    assert book.forget_delayed(1.0)
    assert book.answers == {}


def test_a_round_has_a_bounded_number_of_views() -> None:
    """Whatever a namespace asks: putting its questions together takes no time that others need."""
    many = tuple(DeviceView(b"%d" % i, b"") for i in range(10_000))
    book = AnswerBook()
    book.ask(question(f"{i}", views=many) for i in range(100))
    assert sum(len(job.views) for job in book.next_jobs(0.0)) == answer_book.VIEWS_OF_JOBS
