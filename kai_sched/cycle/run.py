"""The product: one pure call that decides a cycle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from kai_sched.cycle.clockwork import next_change
from kai_sched.cycle.lift import lift
from kai_sched.lowering.cache import Cache
from kai_sched.lowering.lower import lower
from kai_sched.lowering.settings import lower_settings
from kai_sched.model.config import Config
from kai_sched.model.garbage import collector_paused
from kai_sched.model.inflight import NO_TURNS, Turns
from kai_sched.model.store import Cluster
from kai_sched.plan.result import CycleResult
from kai_sched.solver.pipeline import solve


def run_cycle(
    cluster: Cluster,
    config: Config,
    now_ns: int,
    cache: Cache | None = None,
    timer: Callable[[], float] = float,
    turns: Turns = NO_TURNS,
) -> CycleResult:
    """Decide one cycle.

    ``cluster`` is a consistent view (``Store.cluster()``, ``Cluster.of(objects)``), ``now_ns`` the time in
    nanoseconds since the epoch. ``cache`` makes the next cycle on the same store cheap; with and without it the
    result is the same. ``timer`` gives seconds, for the times in the result, which are 0 without it. ``turns`` says
    which groups go first and which must wait. The same arguments give the same result, whatever order the objects
    came in. Where it raises, the cache is empty again, so that the next cycle is decided as from scratch.
    """
    cache = cache if cache is not None else Cache()
    try:
        with collector_paused():
            return _decide(cluster, config, now_ns, cache, timer, turns)
    except BaseException:
        cache.reset()
        raise


def _decide(
    cluster: Cluster, config: Config, now_ns: int, cache: Cache, timer: Callable[[], float], turns: Turns
) -> CycleResult:
    began = timer()
    lowered = lower(cluster, config, now_ns, cache, turns)
    settings = lower_settings(config, now_ns)
    started = timer()
    solution = solve(lowered.snapshot, settings, config.actions, timer)
    solver_s = timer() - started
    actions_s: dict[str, float] = {}
    for action, (start, end) in zip(config.actions, pairwise(solution.times), strict=True):
        actions_s[action] = actions_s.get(action, 0.0) + end - start
    return replace(
        lift(lowered, solution),
        solver_s=solver_s,
        open_s=solution.times[0] - began,
        actions_s=actions_s,
        next_ns=next_change(lowered, settings, config),
    )
