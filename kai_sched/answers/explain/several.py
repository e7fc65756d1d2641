"""Explanations of several workloads that wait, as many as there is work for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kai_sched.answers.explain.explanation import Explanation, explain
from kai_sched.answers.overview import Overview
from kai_sched.answers.trial import Trials
from kai_sched.answers.words import count
from kai_sched.answers.workloads import Workloads

# An explanation takes a second or two of work: at most so many, and none once all have looked at so many objects.
MOST_EXPLAINED = 10
WORK_MAX = 4_000_000


@dataclass(frozen=True, slots=True)
class Explained:
    """Explanations by the key of the group; ``rows`` is how many rows of the overview wait."""

    found: Mapping[str, Explanation]
    rows: int

    @property
    def text(self) -> str:
        """How many are explained, and how the others can be; "" where nothing waits."""
        if not self.rows:
            return ""
        if len(self.found) == self.rows:
            return "What would start each workload that waits was found by simulating changes."
        return (
            f"What would start it was looked for by simulation for the {count(len(self.found), 'workload')} at the top;"
            " for any other: kai-sched explain NAME."
        )


def explain_waiting(overview: Overview, trials: Trials, workloads: Workloads) -> Explained:
    """Explain the first workloads of the overview that wait, of equal ones one. Deterministic: the bound is no time."""
    found: dict[str, Explanation] = {}
    before = trials.work
    for row in overview.waiting[:MOST_EXPLAINED]:
        if trials.work - before > WORK_MAX:
            break
        first = row.workloads[0]
        found[first.group] = explain(trials, first, workloads)
    return Explained(found, len(overview.waiting))
