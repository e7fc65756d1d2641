"""When a workload starts: by deadlines, by run times that are given, and why no time can be said."""

from __future__ import annotations

from kai_sched import Config
from kai_sched.answers.goal import goal_of
from kai_sched.answers.trial import Trials
from kai_sched.answers.when import RunTime, When, when_starts
from kai_sched.answers.workloads import workloads_of
from tests.scenarios.objects import NOW_NS
from tests.scenarios.table import cluster_of

HOUR_NS = 3600 * 10**9
# One node, two jobs of four GPUs each that have run for an hour, and two that wait, the older one first.
FULL = """
    node a gpu=8
    queue team gpu=8
    group first owner=Job/first queue=team min=1 started=3600
    pod first-0 gpu=4 on=a
    group second owner=Job/second queue=team min=1 started=3600
    pod second-0 gpu=4 on=a
    group older owner=Job/older queue=team min=1 age=600
    pod older-0 gpu=4 age=600
    group asked owner=Job/asked queue=team min=1 age=60
    pod asked-0 gpu=4 age=60
"""


def when(run_times: dict[str, RunTime], enough: tuple[str, ...] = (), text: str = FULL) -> When:
    cluster = cluster_of(text)
    trials, workloads = Trials(cluster, Config(), NOW_NS), workloads_of(cluster)
    named = tuple(workloads.of(name) for name in enough)
    times = {f"ns/{name}": each for name, each in run_times.items()}
    return when_starts(trials, goal_of(cluster, "ns/asked"), times, named, workloads)


def hours(found: When) -> tuple[float, float]:
    """Not before, and at the latest, in hours from now; 0 where there is none."""
    times = (found.not_before_ns, found.latest_ns)
    earliest, latest = ((each - NOW_NS) / HOUR_NS if each else 0.0 for each in times)
    return earliest, latest


def test_without_a_deadline_no_time_is_said() -> None:
    found = when({})
    assert hours(found) == (0.0, 0.0)
    assert found.text == "unknown, since no deadline is set on first, second"
    assert not found.is_known


def test_those_whose_end_is_enough_are_named() -> None:
    assert when({}, ("ns/second",)).text == "unknown, since no deadline is set on second"


def test_one_deadline_lets_the_older_one_in_only() -> None:
    """The other job has none, so the second place is never known to come."""
    assert hours(when({"first": RunTime(7200, False)})) == (0.0, 0.0)


def test_the_second_deadline_is_when_it_starts_at_the_latest() -> None:
    """They have run for an hour of their two and their three."""
    found = when({"first": RunTime(7200, False), "second": RunTime(3 * 3600, False)})
    assert hours(found) == (0.0, 2.0)
    assert found.text == "at the latest 2027-01-15 10:00 UTC (in 2h)"


def test_what_starts_meanwhile_has_its_own_deadline() -> None:
    """The older one starts after an hour, runs for half an hour, and leaves its place."""
    found = when({"first": RunTime(7200, False), "older": RunTime(1800, False)})
    assert hours(found) == (0.0, 1.5)


def test_a_start_that_the_workload_tells_counts() -> None:
    started = NOW_NS - 2 * HOUR_NS
    found = when({"first": RunTime(3 * 3600, False, started), "second": RunTime(3 * 3600, False, started)})
    assert hours(found) == (0.0, 1.0)


def test_run_times_that_are_given_say_when_exactly() -> None:
    found = when({"first": RunTime(7200, True), "second": RunTime(3 * 3600, True), "older": RunTime(86_400, True)})
    assert hours(found) == (2.0, 2.0)
    assert found.text == "at 2027-01-15 10:00 UTC (in 2h)"


def test_others_may_end_at_once() -> None:
    """With the run time of one of them, it starts then at the earliest where nobody else has to end."""
    alone = FULL.replace("pod second-0 gpu=4 on=a", "").replace("pod first-0 gpu=4", "pod first-0 gpu=8")
    only = alone.replace("pod older-0 gpu=4 age=600", "")
    assert hours(when({"first": RunTime(7200, True)}, text=only)) == (1.0, 1.0)
    assert hours(when({"first": RunTime(7200, True)})) == (0.0, 0.0)


def test_a_run_time_that_is_over_ends_now() -> None:
    found = when({"first": RunTime(60, False), "second": RunTime(60, False)})
    assert found.latest_ns == NOW_NS


def test_where_no_end_helps_it_is_said() -> None:
    big = FULL.replace("pod asked-0 gpu=4", "pod asked-0 gpu=16")
    times = {name: RunTime(60, False) for name in ("first", "second", "older")}
    assert when(times, text=big).text == "unknown, since the end of no running workload starts it"
