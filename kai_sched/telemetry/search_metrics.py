"""The metrics about searches for victims (API 9.1)."""

from __future__ import annotations

from collections import Counter

from kai_sched.plan.result import CycleResult
from kai_sched.snapshot.tables import Help
from kai_sched.telemetry.series import Series

NOT_ATTEMPTED = "not_attempted"
# What the contract calls what a search found.
RESULTS = {
    Help.HELPED: "solved",
    Help.TOO_LONG: "deadline_exhausted",
    **dict.fromkeys(
        (Help.NO_VICTIMS, Help.NO_ROOM, Help.SHARES, Help.NOT_FOUND, Help.VICTIMS_GO_FIRST), "generators_exhausted"
    ),
}


class SearchMetrics:
    """Counted by cycle. ``prefix`` begins the names."""

    def __init__(self, prefix: str) -> None:
        self._acted_on = Series(
            f"{prefix}podgroups_acted_on_by_action", "Pod groups that an action searched victims for", ("action",)
        )
        self._jobs = Series(
            f"{prefix}scenario_search_jobs_total",
            "Pod groups by what the search for victims found",
            ("action", "result", "reduced_budget"),
        )
        self._simulated = Series(
            f"{prefix}scenarios_simulation_by_action", "Sets of victims that an action simulated", ("action",)
        )
        self._exhausted = Series(
            f"{prefix}scenario_search_action_budget_exhausted_total",
            "Cycles in which searches of an action were cut short",
            ("action",),
        )
        self.series = (self._acted_on, self._jobs, self._simulated, self._exhausted)

    def count(self, result: CycleResult) -> None:
        """A cycle has ended."""
        for action, tried in result.tried.items():
            found = Counter[str]()
            for name, count in tried.items():
                found[RESULTS.get(Help[name], NOT_ATTEMPTED)] += count
            for word, count in found.items():
                self._jobs.add((action, word, "false"), count)
            self._acted_on.add((action,), found.total() - found[NOT_ATTEMPTED])
            if Help.TOO_LONG.name in tried:
                self._exhausted.add((action,), 1)
        for action, count in result.simulated.items():
            if count:
                self._simulated.add((action,), count)
