"""``-o html`` of ``simulate`` and ``explain``: the page of one cluster, and how many workloads are explained on it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from kai_sched import library
from kai_sched.answers.explain.explanation import Explanation
from kai_sched.answers.explain.several import explain_waiting
from kai_sched.answers.overview import Overview
from kai_sched.answers.trial import Trials
from kai_sched.answers.workloads import workloads_of
from kai_sched.files.load import SimulationCase
from kai_sched.model.store import Cluster
from kai_sched.plan.result import CycleResult
from kai_sched.report.page.content import PageInput
from kai_sched.report.page.node_map import node_map
from kai_sched.report.page.rendering import render
from kai_sched.telemetry.progress import Progress


@dataclass(frozen=True, slots=True)
class PageExtras:
    """What is on a page beside the cluster: what its changes come to, and the explanation that was asked for."""

    changes: Sequence[str] = ()
    answer: Explanation | None = None


@dataclass(frozen=True, slots=True)
class DecidedCase:
    """The last cycle of a case. ``overview`` is what of it is shown."""

    case: SimulationCase
    cluster: Cluster
    result: CycleResult
    now_ns: int
    overview: Overview


def write_page(decided: DecidedCase, as_of: str, extras: PageExtras = PageExtras()) -> None:
    """Print the page. Workloads that wait are explained, unless the explanation of one was asked for."""
    config, workloads = decided.case.config, workloads_of(decided.cluster)
    explanations, notes = {}, []
    if extras.answer is None and decided.overview.waiting:
        trials = Trials(decided.cluster, config, decided.now_ns, library.decide, decided.case.shards, library.count)
        with Progress(sys.stderr).step("simulating changes"):
            explained = explain_waiting(decided.overview, trials, workloads)
        explanations, notes = dict(explained.found), [explained.text]
    page = PageInput(
        overview=decided.overview,
        nodes=node_map(decided.cluster, decided.result, config, workloads),
        as_of=as_of,
        title=extras.answer.workload.name if extras.answer is not None else decided.case.name or "cluster",
        explanations=explanations,
        answer=extras.answer,
        notes=notes,
        changes=extras.changes,
    )
    sys.stdout.buffer.write(render(page).encode("utf-8"))
