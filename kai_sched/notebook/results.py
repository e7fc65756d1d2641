"""What a simulation gives, and what all answers have: the document that `-o json` prints (``to_dict``), a text
for ``print``, a short repr, and HTML for notebooks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kai_sched.answers.goal import pod_gpus
from kai_sched.answers.headlines import Headline
from kai_sched.answers.overview import Overview, PlacedWorkload, RunningWorkload, overview
from kai_sched.answers.waiting import Waiting
from kai_sched.answers.workloads import Workloads, workloads_of
from kai_sched.model.config import Config
from kai_sched.model.keys import split_key
from kai_sched.model.problems import Problem
from kai_sched.notebook.arguments import moment
from kai_sched.notebook.tables import Amounts, NamedRows, Rows, frame, html_text
from kai_sched.plan.result import CycleResult
from kai_sched.report import answers_json
from kai_sched.report.columns import Line
from kai_sched.report.documents import AnswerDocument
from kai_sched.report.json import Cycle, cycle_document, document, to_dict
from kai_sched.report.overview_text import CSV_COLUMNS, TableView, cycle_text, overview_lines, workload_rows

if TYPE_CHECKING:
    from pandas import DataFrame

WIDTH = 120  # of printed tables, in columns


class AnswerResult(ABC):
    """What all answers have: the document, the text, and how notebooks show it."""

    __slots__ = ()

    @abstractmethod
    def _lines(self) -> Iterator[str]:
        """The lines of the text."""

    @abstractmethod
    def _document(self) -> AnswerDocument:
        """The document that `-o json` prints."""

    def to_dict(self) -> dict[str, Any]:
        """The document that `-o json` prints, as dictionaries and lists (docs/answers.schema.json)."""
        found: dict[str, Any] = to_dict(self._document())
        return found

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        return html_text(self._lines())


@dataclass(frozen=True, slots=True)
class QueueResult:
    """A queue at the end of a cycle.

    Attributes
    ----------
    parent
        The queue above it; "" for a queue at the top. ``depth`` is how many queues are above it.
    priority
        The higher one gets what is over the quotas first.
    quota, limit
        What it is guaranteed, and what it can hold at most.
    fair_share
        What it is entitled to.
    allocated, requested
        What its pods hold, and what they hold and ask for.
    """

    name: str
    parent: str
    depth: int
    priority: int
    quota: Amounts
    limit: Amounts
    fair_share: Amounts
    allocated: Amounts
    requested: Amounts

    def __repr__(self) -> str:
        gpus = (f"{name} {getattr(self, name).gpu:g}" for name in ("quota", "fair_share", "allocated", "requested"))
        return f"<queue {self.name}, GPUs: {', '.join(gpus)}>"


@dataclass(frozen=True, slots=True)
class PodResult:
    """A pod at the end of a cycle.

    Attributes
    ----------
    status
        As of ``kai_sched.plan.result.PodState``.
    node
        Where it is or will be; "" for nowhere.
    workload
        "Kind namespace/name" of what its user wrote.
    gpus
        What it asks for, in devices; 0 for a part of a GPU that is given as memory.
    """

    namespace: str
    name: str
    status: str
    node: str
    workload: str
    gpus: float


@dataclass(frozen=True, slots=True)
class NodeResult:
    """A node at the end of a cycle.

    Attributes
    ----------
    accepts_pods
        Whether it is ready and not cordoned.
    capacity
        What it has for pods.
    free, releasing
        What is free, and what will be once pods that are leaving have left; of GPUs the whole ones.
    """

    name: str
    accepts_pods: bool
    capacity: Amounts
    free: Amounts
    releasing: Amounts


class SimulatedCycle:
    """One cycle of a simulation. All tables are computed when they are first read.

    Attributes
    ----------
    cycle
        The cluster and the result, in scheduler units.
    """

    def __init__(self, cycle: Cycle, config: Config) -> None:
        self.cycle = cycle
        self._config = config

    @property
    def result(self) -> CycleResult:
        """What ``run_cycle`` returns, in scheduler units."""
        return self.cycle.result

    @property
    def now(self) -> datetime:
        """The time of the cycle, in UTC."""
        return moment(self.cycle.now_ns)

    @cached_property
    def overview(self) -> Overview:
        """All of it as ``kai-sched simulate`` shows it, in scheduler units."""
        cycle = self.cycle
        return overview(cycle.cluster, self.result, self._config, cycle.now_ns, cycle.suspended)

    @cached_property
    def _workloads(self) -> Workloads:
        return workloads_of(self.cycle.cluster)

    @cached_property
    def queues(self) -> NamedRows[QueueResult]:
        """The queues by name, depth first."""
        return NamedRows(
            "queue",
            QueueResult,
            {
                each.name: QueueResult(
                    name=each.name,
                    parent=each.parent,
                    depth=each.depth,
                    priority=each.priority,
                    quota=_of_triple(each.quota),
                    limit=_of_triple(each.limit),
                    fair_share=_of_triple(each.fair_share),
                    allocated=_of_triple(each.allocated),
                    requested=_of_triple(each.requested),
                )
                for each in self.result.queues
            },
        )

    @cached_property
    def pods(self) -> NamedRows[PodResult]:
        """The pods of the scheduler, by "namespace/name"."""
        known, workloads = self.cycle.cluster.pods, self._workloads
        return NamedRows(
            "pod",
            PodResult,
            {
                key: PodResult(
                    *split_key(key),
                    state.status,
                    state.node,
                    str(workloads.of(workloads.pods[key])),
                    pod_gpus(known[key]),
                )
                for key, state in self.result.pods.items()
            },
        )

    @cached_property
    def nodes(self) -> NamedRows[NodeResult]:
        """The nodes of the pool, by name."""
        known = self.cycle.cluster.nodes
        return NamedRows(
            "node",
            NodeResult,
            {
                name: NodeResult(
                    name,
                    known[name].takes_pods,
                    *(_of_mapping(each) for each in (state.allocatable, state.idle, state.releasing)),
                )
                for name, state in self.result.nodes.items()
            },
        )

    @cached_property
    def waiting(self) -> Rows[Waiting]:
        """Workloads that wait and why, the oldest first; equal ones as one."""
        return Rows("waiting workload", Waiting, self.overview.waiting, lambda each: each.name)

    @cached_property
    def placed(self) -> Rows[PlacedWorkload]:
        """Workloads that get nodes in this cycle."""
        return Rows("placed workload", PlacedWorkload, self.overview.placed, lambda each: each.workload.name)

    @cached_property
    def running(self) -> Rows[RunningWorkload]:
        """Workloads that run and are not touched."""
        return Rows("running workload", RunningWorkload, self.overview.running, lambda each: each.workload.name)

    @cached_property
    def evictions(self) -> Rows[Headline]:
        """Who is evicted for whom: a row for each workload that gets room, and each action."""
        return Rows("eviction", Headline, self.overview.headlines, lambda each: each.text)

    def to_pandas(self) -> DataFrame:
        """A row for each workload, as `-o csv` prints it. Raises ImportError where pandas is not installed."""
        return frame(CSV_COLUMNS, [dict(zip(CSV_COLUMNS, row, strict=True)) for row in workload_rows(self.overview)])

    def __repr__(self) -> str:
        return f"<SimulatedCycle: {cycle_text(self.overview)}>"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        lines = overview_lines(self.overview, TableView(WIDTH), self.cycle.cluster, self.result)
        return map(line_text, lines)

    def _repr_html_(self) -> str:
        return html_text(self._lines())


class SimulationResult(SimulatedCycle, AnswerResult):
    """The result of a simulation: its last cycle, and in ``cycles`` all of them.

    Attributes
    ----------
    cycles
        In their order.
    """

    def __init__(self, cycles: Sequence[Cycle], config: Config, source: str, problems: Sequence[Problem]) -> None:
        super().__init__(cycles[-1], config)
        self.cycles = tuple(SimulatedCycle(each, config) for each in cycles)
        self._source = source
        self._problems = problems

    def _document(self) -> AnswerDocument:
        cycles = [cycle_document(each.cycle, self._config) for each in self.cycles]
        return document(self._source, "cluster", cycles, self._problems)

    def __repr__(self) -> str:
        many = f"{len(self.cycles)} cycles, the last one: " if len(self.cycles) > 1 else ""
        return f"<SimulationResult: {many}{cycle_text(self.overview)}>"


def line_text(line: Line) -> str:
    """The text of a line, without styles."""
    return "".join(text for text, _ in line)


def _of_triple(amounts: tuple[float, float, float]) -> Amounts:
    cpu, memory, gpu = amounts
    return Amounts(gpu, answers_json.in_units("cpu", cpu), memory)


def _of_mapping(amounts: Any) -> Amounts:
    return _of_triple((amounts.get("cpu", 0.0), amounts.get("memory", 0.0), amounts.get("gpu", 0.0)))
