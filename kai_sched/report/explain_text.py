"""What ``explain`` prints."""

from __future__ import annotations

from collections.abc import Iterator

from kai_sched.answers.explain.explanation import Explanation
from kai_sched.answers.words import count, duration, number, some
from kai_sched.report.columns import Line, cells, folded
from kai_sched.report.text import plain

MOST_HOLDERS = 5


def explanation_lines(answer: Explanation, width: int | None, wide: bool) -> Iterator[Line]:
    """The explanation, in a screen of text. ``width`` in columns of the terminal, None for no limit."""
    for line in _lines(answer, width, wide):
        yield from folded(line, width, 6)


def _lines(answer: Explanation, width: int | None, wide: bool) -> Iterator[Line]:
    yield from _head(answer, wide)
    if answer.state.text:
        yield []
        yield [(plain(answer.state.text), "bold")]
        return
    if answer.starts:
        yield []
        yield [("It starts without any change", "bold green"), (f": {plain(answer.after.text)}.", "")]
        return
    yield from _why(answer)
    yield from _holders(answer)
    yield from _suggestions(answer, width, wide)
    yield []
    if answer.earlier:
        names = some([plain(each.name) for each in answer.earlier])
        yield [(f"In line: {len(answer.earlier) + 1} of {answer.waiting}, after {names}", "")]
    if answer.when is not None:
        yield [(f"When it starts without a change: {plain(answer.when.text)}", "")]


def _head(answer: Explanation, wide: bool) -> Iterator[Line]:
    work = answer.workload
    yield [(plain(f"{work.namespace}/{work.name}"), "bold"), (f"  {plain(work.kind)}{_standing(answer)}", "")]
    if wide:
        yield [(f"PodGroup  {plain(work.group)}", "dim")]
    if answer.needs:
        yield [(f"needs   {plain(answer.needs_text)}", "")]
    if answer.running and answer.needs:
        yield [(f"has     {count(answer.running, 'pod')} with a node", "")]


def _standing(answer: Explanation) -> str:
    parts = [f"queue {plain(answer.queue)}" if answer.queue else "no queue"]
    name = f"{plain(answer.priority_class)} " if answer.priority_class else ""
    parts.append(f"priority {name}({answer.priority})" if name else f"priority {answer.priority}")
    if not answer.preemptible:
        parts.append("not preemptible")
    if answer.waits_s:
        parts.append(f"waiting {duration(answer.waits_s)}")
    return ", " + ", ".join(parts)


def _why(answer: Explanation) -> Iterator[Line]:
    yield []
    if answer.constraints:
        alone = answer.constraints[0].necessary
        title = "What blocks it" if alone else "What blocks it, only together"
        more = " (without any one of these it starts)" if alone and len(answer.constraints) > 1 else ""
        yield [(title, "bold"), (more, "dim")]
        for place, each in enumerate(answer.constraints, 1):
            yield [(f"  {place}. {plain(each.text)}", "")]
    elif answer.reason is not None:
        yield [("What blocks it", "bold")]
        yield [(f"  {plain(answer.reason.message)}", "")]


def _holders(answer: Explanation) -> Iterator[Line]:
    if not answer.holders:
        return
    texts = [
        f"{plain(name)} {number(held)}" + (f" (+{number(over)} over quota)" if over else "")
        for name, held, over in answer.holders
    ]
    yield []
    yield [(f"Who holds the GPUs: {some(texts, MOST_HOLDERS)}", "")]


def _suggestions(answer: Explanation, width: int | None, wide: bool) -> Iterator[Line]:
    yield []
    if answer.suggestions:
        yield [("Any one of these starts it", "bold"), (" (each was simulated)", "dim")]
        rows = []
        for each, costs in answer.suggestions:
            more = f" (or of {count(each.more, 'other')})" if each.more else ""
            flags = " ".join(change.flag for change in each.changes)
            rows.append((plain(each.text) + more, plain(costs.text), flags))
        first = max(cells(text) for text, _, _ in rows)
        fits = width is None or all(2 + first + 2 + cells(paid) <= width for _, paid, _ in rows)
        for text, paid, flags in rows:
            if fits:
                yield [(f"  {text}{' ' * (first - cells(text))}  ", "green"), (paid, "")]
            else:
                yield [(f"  {text}", "green")]
                yield [(f"      {paid}", "")]
            if wide:
                yield [(f"      {plain(flags)}", "dim")]
    else:
        yield [("Nothing that was tried starts it", "bold")]
    if answer.nothing:
        yield [(f"Does not help: {plain('; '.join(each.bound for each in answer.nothing))}", "dim")]
