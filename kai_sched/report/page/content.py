"""What is on the page: the rows of its tables, bounded, and the lengths of the bars. Texts are those of the answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kai_sched.answers.explain.explanation import Explanation
from kai_sched.answers.headlines import Headline
from kai_sched.answers.overview import Overview, PlacedWorkload, RunningWorkload, room_text
from kai_sched.answers.waiting import Waiting
from kai_sched.answers.words import count, duration, number
from kai_sched.plan.result import QueueState
from kai_sched.report.columns import Line
from kai_sched.report.explain_text import explanation_lines
from kai_sched.report.overview_text import evictions_text, hidden_text, in_units, nodes_text, waiting_text
from kai_sched.report.page.node_map import NodeMap

MOST_ROWS = 500  # of a table
BAR = 100.0  # the width of a bar in its own units


@dataclass(frozen=True, slots=True)
class PageInput:
    """What a page is made of.

    Attributes
    ----------
    overview, nodes
        The answer, and who holds which GPU.
    as_of
        The time of the cycle in words.
    title
        Of the window: the name of the cluster, or the workload that is explained.
    explanations
        By the key of the group.
    answer
        The one that was asked for; it comes first.
    notes
        Sentences about the page itself, such as how many workloads are explained.
    changes
        What the changes come to that the cluster was asked about.
    history
        By queue the points of its line (``History.lines``).
    is_live, number
        Whether a server updates the page, and the number of its cycle there.
    """

    overview: Overview
    nodes: NodeMap
    as_of: str = ""
    title: str = "cluster"
    explanations: Mapping[str, Explanation] = field(default_factory=dict)
    answer: Explanation | None = None
    notes: Sequence[str] = ()
    changes: Sequence[str] = ()
    history: Mapping[str, str] = field(default_factory=dict)
    is_live: bool = False
    number: int = 0


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue: amounts in words, and the ends of its bars in parts of BAR."""

    state: QueueState
    held: str
    fair_share: str
    quota: str
    limit: str
    waiting: str
    over: str
    held_end: float
    asked_end: float
    fair_end: float
    quota_end: float
    line: str


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A workload that waits, with the lines that explain it."""

    row: Waiting
    waits: str
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class PlacedRow:
    """A workload that has nodes, or gets them."""

    row: PlacedWorkload | RunningWorkload
    nodes: str


@dataclass(frozen=True, slots=True)
class PageContent:
    """The page as its template has it.

    Of each table ``titles`` says how many rows there are, and ``more`` how many of them are left out, "" for none.
    """

    given: PageInput
    summary: str
    queues: Sequence[QueueRow]
    waiting: Sequence[WaitingRow]
    starting: Sequence[PlacedRow]
    later: Sequence[PlacedRow]
    running: Sequence[PlacedRow]
    evictions: Sequence[Headline]
    more: Mapping[str, str]
    titles: Mapping[str, str]
    answer: Sequence[Line]
    hidden: str
    unit: str


def page_content(given: PageInput) -> PageContent:
    """Everything that the template shows."""
    found = given.overview
    starting = [each for each in found.placed if each.starts]
    later = [each for each in found.placed if not each.starts]
    tables: dict[str, Sequence[object]] = {
        "waiting": found.waiting,
        "starting": starting,
        "later": later,
        "running": found.running,
        "evictions": found.headlines,
    }
    return PageContent(
        given=given,
        summary=room_text(found.room),
        queues=_queues(found, given.history),
        waiting=[_waiting(each, given.explanations) for each in found.waiting[:MOST_ROWS]],
        starting=[_placed(each) for each in starting[:MOST_ROWS]],
        later=[_placed(each) for each in later[:MOST_ROWS]],
        running=[_placed(each) for each in found.running[:MOST_ROWS]],
        evictions=found.headlines[:MOST_ROWS],
        more={name: _more(len(rows)) for name, rows in tables.items()},
        titles={
            **{name: str(len(rows)) for name, rows in tables.items()},
            "waiting": waiting_text(found),
            "evictions": evictions_text(found.headlines),
        },
        answer=list(explanation_lines(given.answer, None, True)) if given.answer is not None else (),
        hidden=hidden_text(found, True),
        unit="GPUs" if found.room.resource == "gpu" else "CPU cores",
    )


def _more(rows: int) -> str:
    return f"{count(rows - MOST_ROWS, 'more row')} not listed: kai-sched simulate -o csv has all" * (rows > MOST_ROWS)


def _queues(found: Overview, history: Mapping[str, str]) -> list[QueueRow]:
    resource = found.room.resource
    most = 1e-9
    for queue in found.queues:
        ends = (queue.allocated, queue.requested, queue.fair_share, queue.quota)
        most = max(most, *(value for each in ends if math.isfinite(value := in_units(resource, each))))
    return [_queue(queue, resource, most, history.get(queue.name, "")) for queue in found.queues]


def _queue(queue: QueueState, resource: str, most: float, line: str) -> QueueRow:
    held, asked, fair, quota, limit = (
        in_units(resource, each)
        for each in (queue.allocated, queue.requested, queue.fair_share, queue.quota, queue.limit)
    )

    def end(amount: float) -> float:
        return round(BAR * min(1.0, amount / most), 2)

    return QueueRow(
        state=queue,
        held=number(held),
        fair_share=number(fair),
        quota=number(quota),
        limit=number(limit),
        waiting=number(asked - held) if asked > held else "",
        over=f"+{number(held - quota)}" if held > quota else "",
        held_end=end(held),
        asked_end=end(max(asked, held)),
        fair_end=end(fair),
        quota_end=end(quota),
        line=line,
    )


def _waiting(row: Waiting, explanations: Mapping[str, Explanation]) -> WaitingRow:
    known = explanations.get(row.workloads[0].group)
    lines = list(explanation_lines(known, None, True)) if known is not None else []
    return WaitingRow(row, duration(row.waits_s) if row.waits_s else "-", lines)


def _placed(row: PlacedWorkload | RunningWorkload) -> PlacedRow:
    return PlacedRow(row, nodes_text(row.nodes, False))
