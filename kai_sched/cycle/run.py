"""``run_cycle``, one scheduling cycle as a pure function: lowering, solver and lifting in their order, and the times
that are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from kai_sched.cycle.lift import lift
from kai_sched.cycle.next_deadline import next_deadline
from kai_sched.lowering.cache import Cache
from kai_sched.lowering.lower import Lowered, lower
from kai_sched.lowering.settings import lower_settings
from kai_sched.model.claims.selectors import SelectorAnswers, SelectorQuestion
from kai_sched.model.config import Config
from kai_sched.model.garbage import collector_paused
from kai_sched.model.hints import NO_HINTS, SchedulingHints
from kai_sched.model.store import Cluster
from kai_sched.plan.result import CycleResult
from kai_sched.solver.pipeline import solve

# All answers, now that these questions are asked; None where there are no more than before.
Answer = Callable[[Sequence[SelectorQuestion]], SelectorAnswers | None]


def no_answer(_: Sequence[SelectorQuestion]) -> SelectorAnswers | None:
    """What is asked stays open: it is answered between cycles."""
    return None


def run_cycle(
    cluster: Cluster,
    config: Config,
    now_ns: int,
    cache: Cache | None = None,
    timer: Callable[[], float] = float,
    hints: SchedulingHints = NO_HINTS,
    answer: Answer = no_answer,
) -> CycleResult:
    """Compute one scheduling cycle.

    The same arguments give the same result, in whatever order the objects came in.

    Parameters
    ----------
    cluster
        A consistent view of the cluster: ``Store.cluster()`` or ``Cluster.of(objects)``.
    config
        The scheduler's configuration.
    now_ns
        The time of the cycle, in nanoseconds since the epoch.
    cache
        Makes the next cycle on the same store cheaper. The result is the same with and without it. After an exception
        it is empty.
    timer
        Returns seconds, for the durations in the result. Without it they are 0.
    hints
        What earlier cycles tell this one. A program that runs several cycles keeps a ``HintTracker`` and passes its
        ``next_hints()``.
    answer
        Answers questions about selectors of devices while the cycle waits.

    Returns
    -------
    CycleResult
        The effects to carry out and the state that results.
    """
    cache = cache if cache is not None else Cache()
    try:
        with collector_paused():
            began = timer()
            lowered = lower_answered(cluster, config, now_ns, cache, hints, answer)
            return _decide(lowered, config, now_ns, timer, began)
    except BaseException:
        cache.reset()
        raise


def lower_answered(
    cluster: Cluster, config: Config, now_ns: int, cache: Cache, hints: SchedulingHints, answer: Answer
) -> Lowered:
    """The cluster lowered, again for as long as there are questions about selectors and ``answer`` has more answers."""
    lowered = lower(cluster, config, now_ns, cache, hints)
    while lowered.claims.questions and (answers := answer(lowered.claims.questions)) is not None:
        cluster = replace(cluster, selector_answers=answers)
        lowered = lower(cluster, config, now_ns, cache, hints)
    return lowered


def _decide(lowered: Lowered, config: Config, now_ns: int, timer: Callable[[], float], began: float) -> CycleResult:
    """What a cycle decides that ``began`` at this time of the timer."""
    settings = lower_settings(config, now_ns)
    started = timer()
    solution = solve(lowered.snapshot, settings, config.actions, timer)
    solver_s = timer() - started
    actions_s: dict[str, float] = {}
    for action, (start, end) in zip(config.actions, pairwise(solution.times), strict=True):
        actions_s[action] = actions_s.get(action, 0.0) + end - start
    return replace(
        lift(lowered, solution, now_ns, config.detailed_fit_errors),
        solver_s=solver_s,
        open_s=solution.times[0] - began,
        actions_s=actions_s,
        next_deadline_ns=next_deadline(lowered, settings, config),
        questions=lowered.claims.questions,
    )
