"""What ``simulate`` prints for people: the cluster in one line, the queues, who waits and why, who starts, who pays."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kai_sched.answers.headlines import Headline
from kai_sched.answers.overview import Overview, PlacedWorkload, RunningWorkload, room_text
from kai_sched.answers.selection import names
from kai_sched.answers.waiting import Waiting
from kai_sched.answers.words import count, duration, number
from kai_sched.model.store import Cluster
from kai_sched.plan.result import QUEUE_RESOURCES, CycleResult, QueueState
from kai_sched.report.columns import Cell, Line, cells, folded, lay_out
from kai_sched.report.device_text import devices
from kai_sched.report.text import plain

BAR_WIDTH = 20
_EIGHTHS = " \u258f\u258e\u258d\u258c\u258b\u258a\u2589"
_FULL = "\u2588"
MOST_NODES = 3
CSV_COLUMNS = (
    "kind",
    "namespace",
    "name",
    "podGroup",
    "queue",
    "state",
    "pods",
    "gpus",
    "code",
    "why",
    "waitingSeconds",
    "nodes",
)


@dataclass(frozen=True, slots=True)
class TableView:
    """How the overview is shown.

    Attributes
    ----------
    width
        Columns of the terminal; None for a pipe, which gets every name in full.
    wide
        Whether to show the PodGroup, the priority and all resources of queues.
    everything
        Whether running and finished workloads are listed.
    headers
        Whether tables have a line of titles.
    as_of
        The time of the cycle in words.
    """

    width: int | None = None
    wide: bool = False
    everything: bool = False
    headers: bool = True
    as_of: str = ""


def overview_lines(overview: Overview, view: TableView, cluster: Cluster, result: CycleResult) -> Iterator[Line]:
    """The whole overview; ``cluster`` and ``result`` are of its cycle."""
    first = f"Cluster  {room_text(overview.room)}"
    yield from folded([(f"{first}   {view.as_of}" if view.as_of else first, "")], view.width)
    sections = (
        _queues(overview, view),
        _waiting(overview, view),
        _placed(overview, view),
        evictions(overview, view),
        _running(overview, view) if view.everything else iter(()),
        *(devices(cluster, result, view.width, view.wide) if view.wide or view.everything else ()),
    )
    for section in sections:
        if lines := list(section):
            yield []
            yield from lines
    if hidden := hidden_text(overview, view.everything):
        yield []
        yield from folded([(hidden, "dim")], view.width)


def _queues(overview: Overview, view: TableView) -> Iterator[Line]:
    if not overview.queues:
        return
    resources = ("gpu", "cpu", "memory") if view.wide else (overview.room.resource,)
    for resource in resources:
        rows = _queue_rows(overview, resource, view, BAR_WIDTH)
        if view.width is not None:
            over = max(sum(cells(text) for text, _ in line) for line in lay_out(rows, None)) - view.width
            rows = _queue_rows(overview, resource, view, max(0, BAR_WIDTH - over)) if over > 0 else rows
        yield from lay_out(rows, view.width)


def _queue_rows(overview: Overview, resource: str, view: TableView, bar_width: int) -> list[list[Cell]]:
    unit = {"gpu": "GPUS", "cpu": "CPU CORES", "memory": "MEMORY GI"}[resource]
    titles = [f"QUEUE ({unit})", "USED", "FAIR SHARE", "QUOTA", *(["LIMIT"] if view.wide else []), "WAITING", ""]
    most = max(in_units(resource, queue.allocated) for queue in overview.queues)
    rows = [_queue_row(queue, resource, most, view.wide, bar_width) for queue in overview.queues]
    if not view.headers:
        return rows
    return [[Cell(title, "dim", right=0 < place < len(titles) - 1) for place, title in enumerate(titles)], *rows]


def _queue_row(queue: QueueState, resource: str, most: float, wide: bool, bar_width: int) -> list[Cell]:
    held, fair, quota, asked, limit = (
        in_units(resource, each)
        for each in (queue.allocated, queue.fair_share, queue.quota, queue.requested, queue.limit)
    )
    over = held - quota
    waiting = max(0.0, asked - held)
    end = bar(held, most, bar_width) + (f" +{number(over)} over quota" if over > 0 else "")
    return [
        Cell("  " * queue.depth + plain(queue.name), elastic=True),
        Cell(number(held), "magenta" if over > 0 else "", right=True),
        Cell(number(fair), right=True),
        Cell(number(quota), right=True),
        *([Cell(number(limit), right=True)] if wide else []),
        Cell(number(waiting) if waiting else "", "yellow", right=True),
        Cell(end.lstrip(), "magenta" if over > 0 else "green"),
    ]


def in_units(resource: str, amounts: tuple[float, float, float]) -> float:
    """The amount in GPUs, cores or Gi."""
    scale = {"gpu": 1.0, "cpu": 1000.0, "memory": 2.0**30}[resource]
    return amounts[QUEUE_RESOURCES.index(resource)] / scale


def bar(value: float, most: float, width: int = BAR_WIDTH) -> str:
    """A bar of at most ``width`` columns, in eighths of a column."""
    if most <= 0.0 or value <= 0.0 or width <= 0:
        return ""
    eighths = max(1, round(value / most * width * 8))
    return _FULL * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


def _waiting(overview: Overview, view: TableView) -> Iterator[Line]:
    if not overview.waiting:
        return
    if view.headers:
        yield [(f"WAITING  {waiting_text(overview)}, the oldest first", "bold")]
    rows = [_waiting_row(each, view.wide) for each in overview.waiting]
    yield from lay_out(rows, view.width, indent=2)


def waiting_text(overview: Overview) -> str:
    """How many pods wait, of how many workloads."""
    return f"{count(overview.waiting_pods, 'pod')} in {count(overview.waiting_workloads, 'workload')}"


def _waiting_row(each: Waiting, wide: bool) -> list[Cell]:
    first = each.workloads[0]
    many = f" ({len(each.workloads)})" if len(each.workloads) > 1 else ""
    row = [
        Cell(plain(each.name) + many, "yellow", elastic=True),
        Cell(plain(first.kind)),
        Cell(plain(each.queue) or "-"),
        Cell(each.size, right=True),
        Cell(duration(each.waits_s) if each.waits_s else "-", right=True),
    ]
    if wide:
        return [*row, Cell(plain(first.group)), Cell(each.code), Cell(plain(each.message))]
    return [*row, Cell(plain(each.why), last=True)]


def _placed(overview: Overview, view: TableView) -> Iterator[Line]:
    for starts, title in ((True, "STARTS NOW"), (False, "STARTS ONCE OTHERS HAVE LEFT")):
        found = [each for each in overview.placed if each.starts == starts]
        if found:
            if view.headers:
                pods = sum(each.pods for each in found)
                yield [(f"{title}  {count(pods, 'pod')} in {count(len(found), 'workload')}", "bold")]
            yield from lay_out([_place_row(each, view) for each in found], view.width, indent=2)


def _place_row(each: PlacedWorkload | RunningWorkload, view: TableView) -> list[Cell]:
    amount = f"{count(each.pods, 'pod')}, {number(each.gpus)} GPU" if each.gpus else count(each.pods, "pod")
    row = [
        Cell(plain(each.workload.name), "green", elastic=True),
        Cell(plain(each.workload.kind)),
        Cell(plain(each.queue) or "-"),
        Cell(amount, right=True),
    ]
    nodes = Cell(nodes_text(each.nodes, view.wide), elastic=True)
    if not view.wide:
        return [*row, nodes]
    after = [Cell(plain(each.after))] if isinstance(each, PlacedWorkload) else []
    return [*row, Cell(plain(each.workload.group)), nodes, *after]


def nodes_text(nodes: Sequence[tuple[str, int]], wide: bool) -> str:
    """The nodes with their pods, at most MOST_NODES of them unless ``wide``."""
    names = [f"{plain(name)} ({pods})" if pods > 1 else plain(name) for name, pods in nodes]
    if not wide and len(names) > MOST_NODES:
        return f"{', '.join(names[: MOST_NODES - 1])} and {len(names) - MOST_NODES + 1} more"
    return ", ".join(names)


def evictions(overview: Overview, view: TableView) -> Iterator[Line]:
    """Who is evicted for whom: a headline for each, and the rule."""
    if not overview.headlines:
        return
    if view.headers:
        yield [(f"EVICTIONS  {evictions_text(overview.headlines)}", "bold")]
    for each in overview.headlines:
        yield from folded([(f"  {plain(each.text)}", "magenta")], view.width)
        if each.winner is not None:
            yield from folded([(f"    {each.action}: {plain(each.winner.name)} {each.rule}", "dim")], view.width, 6)


def evictions_text(found: Sequence[Headline]) -> str:
    """How many workloads get room, and how many pay for it."""
    winners = len({each.winner.group for each in found if each.winner})
    victims = {victim.workload.group for each in found for victim in each.victims}
    return f"{count(winners, 'workload')} {'gets' if winners == 1 else 'get'} room, {len(victims)} pay"


def _running(overview: Overview, view: TableView) -> Iterator[Line]:
    if overview.running:
        if view.headers:
            yield [(f"RUNNING  {count(len(overview.running), 'workload')}", "bold")]
        yield from lay_out([_place_row(each, view) for each in overview.running], view.width, indent=2)


def hidden_text(overview: Overview, everything: bool) -> str:
    """What is not listed."""
    parts = []
    if overview.running and not everything:
        parts.append(f"{count(len(overview.running), 'running workload')} (--all)")
    if overview.finished:
        parts.append(count(overview.finished, "finished pod"))
    if overview.suspended:
        kueue = f" ({overview.suspended_by_kueue} by Kueue)" if overview.suspended_by_kueue else ""
        parts.append(f"{count(overview.suspended, 'suspended workload')}{kueue}")
    if overview.others:
        pods = sum(number for _, number in overview.others)
        names = ", ".join(plain(name) for name, _ in overview.others)
        parts.append(f"{count(pods, 'pod')} waiting for other schedulers ({names})")
    return f"Not listed: {', '.join(parts)}." if parts else ""


def cycle_text(overview: Overview) -> str:
    """One cycle in a line: pods that are bound, wait for a place, are evicted, and wait."""
    bound = sum(each.pods for each in overview.placed if each.starts)
    pipelined = sum(each.pods for each in overview.placed if not each.starts)
    evicted = sum(each.pods for each in overview.headlines)
    text = f"{count(bound, 'pod')} bound, {pipelined} pipelined, {evicted} evicted"
    if not overview.waiting:
        return f"{text}; nothing waits"
    return f"{text}; {waiting_text(overview)} wait"


def name_lines(overview: Overview, everything: bool) -> Iterator[Line]:
    """The workloads that wait or start, with ``everything`` also those that run, each as "kind/namespace/name"."""
    for name in names([*overview.waiting, *overview.placed, *(overview.running if everything else ())]):
        yield [(plain(name), "")]


def csv_lines(overview: Overview, headers: bool) -> Iterator[Line]:
    """A row for each workload, those that run included."""
    if headers:
        yield [(",".join(CSV_COLUMNS), "")]
    for row in workload_rows(overview):
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow([_csv_text(value) for value in row])
        yield [(plain(text.getvalue()), "")]


def workload_rows(overview: Overview) -> Iterator[tuple[str | int | float | None, ...]]:
    """The values of CSV_COLUMNS for each workload, those that run included; None where it does not wait."""
    for state, rows in (("waiting", overview.waiting), ("placed", overview.placed), ("running", overview.running)):
        for row in rows:
            if isinstance(row, PlacedWorkload):
                state = "starting" if row.starts else "pipelined"
            waits = (row.code, row.why, round(row.waits_s)) if isinstance(row, Waiting) else ("", "", None)
            nodes = "" if isinstance(row, Waiting) else " ".join(name for name, _ in row.nodes)
            for each in row.workloads if isinstance(row, Waiting) else (row.workload,):
                names = (each.kind, each.namespace, each.name, each.group, row.queue, state)
                yield (*names, row.pods, row.gpus, *waits, nodes)


def _csv_text(value: str | int | float | None) -> str:
    if isinstance(value, float):
        return number(value)
    return "" if value is None else str(value)
