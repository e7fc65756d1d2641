"""Metrics about searches for victims: what the solver found, in the words of API 9.1."""

from __future__ import annotations

from kai_sched.plan.result import CycleResult
from kai_sched.snapshot.tables import Help
from kai_sched.telemetry.search_metrics import RESULTS, SearchMetrics


def result(tried: dict[str, dict[str, int]], simulated: dict[str, int]) -> CycleResult:
    return CycleResult((), (), {}, {}, (), {}, tried=tried, simulated=simulated)


def test_what_searches_found_is_counted_over_cycles() -> None:
    metrics = SearchMetrics("kai_")
    metrics.count(result({"reclaim": {"HELPED": 2, "NOT_FOUND": 1, "LIKE_ANOTHER": 4}}, {"reclaim": 7, "preempt": 0}))
    metrics.count(result({"reclaim": {"TOO_LONG": 1, "NO_ROOM": 1}, "preempt": {"DELAYED": 1}}, {"reclaim": 1}))
    lines = {line for series in metrics.series for line in series.render().splitlines() if not line.startswith("#")}
    assert lines == {
        'kai_podgroups_acted_on_by_action{action="reclaim"} 5',
        'kai_podgroups_acted_on_by_action{action="preempt"} 0',
        'kai_scenario_search_jobs_total{action="reclaim",result="solved",reduced_budget="false"} 2',
        'kai_scenario_search_jobs_total{action="reclaim",result="generators_exhausted",reduced_budget="false"} 2',
        'kai_scenario_search_jobs_total{action="reclaim",result="not_attempted",reduced_budget="false"} 4',
        'kai_scenario_search_jobs_total{action="reclaim",result="deadline_exhausted",reduced_budget="false"} 1',
        'kai_scenario_search_jobs_total{action="preempt",result="not_attempted",reduced_budget="false"} 1',
        'kai_scenarios_simulation_by_action{action="reclaim"} 8',
        'kai_scenario_search_action_budget_exhausted_total{action="reclaim"} 1',
    }


def test_what_is_not_named_was_not_searched_for() -> None:
    left = set(Help) - RESULTS.keys() - {Help.NOT_TRIED}
    assert left == {Help.DELAYED, Help.NOT_PREEMPTIBLE, Help.OVER_SHARE, Help.OVER_QUOTA, Help.LIKE_ANOTHER}
