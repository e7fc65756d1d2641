"""When a workload that waits starts: whose end it waits for, and a time where something bounds how long these run.

Nothing is guessed. A deadline says when a workload has ended at the latest; a run time that the user gives says when it
ends. Both are used to simulate on, as pods end, with nothing else arriving.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kai_sched.answers.changes import Remove
from kai_sched.answers.goal import Goal
from kai_sched.answers.trial import Trials
from kai_sched.answers.words import duration, minute, some
from kai_sched.answers.workloads import Workload, Workloads
from kai_sched.model.store import Cluster

SECOND_NS = 1_000_000_000
# How many times somebody ends before the simulation gives up.
ENDS_MAX = 200
# Objects that its cycles may look at.
WORK_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class RunTime:
    """How long a workload runs from its start: exactly, or at most. ``started_ns`` where its start is known, else 0."""

    seconds: float
    exact: bool
    started_ns: int = 0


@dataclass(frozen=True, slots=True)
class When:
    """When a workload starts, with nothing else arriving.

    Attributes
    ----------
    not_before_ns
        It starts then at the earliest, by the run times that were given; 0 where nothing says so.
    latest_ns
        It starts then at the latest; 0 where nothing bounds that.
    unbounded
        Running workloads without a deadline, which is why there is no latest time: those whose end would start it
        first.
    now_ns
        The time of the question.
    never
        Whether it does not start whoever ends.
    """

    not_before_ns: int
    latest_ns: int
    unbounded: tuple[Workload, ...]
    now_ns: int
    never: bool = False

    @property
    def is_known(self) -> bool:
        """Whether some time bounds it."""
        return bool(self.latest_ns) or self.not_before_ns > self.now_ns

    @property
    def text(self) -> str:
        """The answer in a line."""
        if self.never:
            return "never, not even once all others have ended"
        parts = []
        if self.not_before_ns == self.latest_ns > self.now_ns:
            return f"at {self._at(self.latest_ns)}"
        if self.not_before_ns > self.now_ns:
            parts.append(f"not before {self._at(self.not_before_ns)}")
        if self.latest_ns:
            parts.append(f"at the latest {self._at(self.latest_ns)}")
        elif self.unbounded:
            parts.append(f"unknown, since no deadline is set on {some([each.name for each in self.unbounded])}")
        else:
            parts.append("unknown, since the end of no running workload starts it")
        return ", ".join(parts)

    def _at(self, time_ns: int) -> str:
        return f"{minute(time_ns)} (in {duration((time_ns - self.now_ns) / SECOND_NS)})"


def deadline_run_times(
    deadlines: Iterable[tuple[tuple[str, str, str], tuple[float, int]]], workloads: Workloads
) -> dict[str, RunTime]:
    """How long workloads run at most, by key of their group.

    ``deadlines`` are pairs of (kind, namespace, name) and (seconds, start; 0 where that is not known).
    """
    known = dict(deadlines)
    named = {group: (each.kind, each.namespace, each.name) for group, each in workloads.by_group.items()}
    found = {group: known[name] for group, name in named.items() if name in known}
    return {group: RunTime(seconds, False, started_ns) for group, (seconds, started_ns) in found.items()}


def when_starts(
    trials: Trials, goal: Goal, run_times: Mapping[str, RunTime], enough: tuple[Workload, ...], workloads: Workloads
) -> When:
    """When the goal is met. ``run_times`` are by key of a group, ``enough`` are workloads whose end alone is enough."""
    latest = _first_start(trials, goal, run_times, all_may_end=False)
    exact = {group: each for group, each in run_times.items() if each.exact}
    earliest = _first_start(trials, goal, exact, all_may_end=True) if exact else 0
    unbounded = tuple(each for each in enough if each.group not in run_times)
    if not latest and not unbounded and not enough:
        held = {pod.group_key for pod in trials.cluster.pods.values() if pod.node and not pod.has_ended}
        unbounded = tuple(workloads.of(key) for key in sorted(held - run_times.keys()) if key in workloads.by_group)
    return When(earliest, latest, () if latest else unbounded, trials.now_ns)


def _first_start(trials: Trials, goal: Goal, run_times: Mapping[str, RunTime], all_may_end: bool) -> int:
    """The first time at which the goal is met, in nanoseconds since the epoch; 0 for never.

    Workloads end when their run time is over. All others run for ever, or, where ``all_may_end``, end at once.
    """
    now_ns, started = trials.now_ns, dict[str, int]()
    with trials.left_alone() as course:
        before = trials.work
        for _ in range(ENDS_MAX):
            over = _running(course.cluster) - run_times.keys() - {goal.group} if all_may_end else set()
            for group in sorted(over):
                course.apply(Remove(group))
            cluster = course.settle(now_ns)
            if goal.met(cluster):
                return now_ns
            if trials.work - before > WORK_MAX:
                return 0
            if all_may_end and _running(cluster) - run_times.keys() - {goal.group}:
                continue  # what has started may end at once as well
            for group in _running(cluster) & run_times.keys():
                started.setdefault(group, _begin(run_times[group], cluster, group, now_ns, trials))
            ends = {
                group: begin + round(run_times[group].seconds * SECOND_NS)
                for group, begin in started.items()
                if group in _running(cluster)
            }
            if not ends:
                return 0
            now_ns = max(now_ns, min(ends.values()))
            for group in sorted(group for group, end_ns in ends.items() if end_ns <= now_ns):
                course.apply(Remove(group))
                del started[group]
    return 0


def _begin(run_time: RunTime, cluster: Cluster, group: str, now_ns: int, trials: Trials) -> int:
    """When the workload started: as it says itself, as its group says, else now."""
    if group not in _running(trials.cluster):
        return now_ns
    known = trials.cluster.pod_groups.get(group)
    pods = [pod.created_ns for pod in cluster.pods.values() if pod.group_key == group and pod.created_ns]
    return run_time.started_ns or (known.last_start_ns if known else 0) or min(pods, default=now_ns)


def _running(cluster: Cluster) -> set[str]:
    return {pod.group_key for pod in cluster.pods.values() if pod.node and not pod.has_ended}
