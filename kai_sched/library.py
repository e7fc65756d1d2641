"""``run_cycle`` for programs, and the choice that they and the command line make: a compiled or an interpreted solver.

The choice is made before the first kernel is imported, for that is when it takes effect, and holds for the process.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from kai_sched.lowering.cache import Cache
from kai_sched.model.config import Config
from kai_sched.model.inflight import NO_TURNS, Turns
from kai_sched.model.objects import Phase
from kai_sched.model.store import Cluster
from kai_sched.plan.result import CycleResult
from kai_sched.solver import jit
from kai_sched.telemetry.progress import Progress

# What interpreting takes, roughly and rather too much than too little: for each pod that waits, for each pair of a node
# and a kind of pod, and, where pods may be evicted, for each pair of one that waits and one that runs. Against that,
# what it takes to load compiled kernels, and to compile them.
POD_S = 100e-6
PAIR_S = 5e-6
VICTIM_S = 20e-6
LOAD_S = 0.5
COMPILE_S = 30.0
MANY_NODES = 200  # kernels that are compiled already are worth loading
EVICTING = frozenset(("consolidation", "reclaim", "preempt"))

AUTO, COMPILED, INTERPRETED = "auto", "compiled", "interpreted"


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
    which groups go first and which must wait: who decides cycle after cycle keeps a ``Promises`` and hands over its
    ``turns()``, so that whoever waits for room that others are leaving is the one who gets it, and whoever had no turn,
    as searches took too long, has it next: where ``Promises.due`` says so at once, without waiting for news.

    The same arguments give the same result, whatever order the objects came in. Where it raises, the cache is empty
    again, so that the next cycle is decided as from scratch.

    The first call of a process chooses how the solver runs: compiled where that has been done before
    (``kai-sched warmup``), or where it is worth it for this cluster; else interpreted, with the same results. What
    takes longer than two seconds is told on stderr.
    """
    progress = Progress(sys.stderr)
    if not jit.decided() and not jit.warm():
        choose(effort_s(cluster, config.actions), len(cluster.nodes), AUTO, progress)
    from kai_sched.cycle.run import run_cycle as decide

    if not jit.interpreted():
        return decide(cluster, config, now_ns, cache, timer, turns)
    with progress.step("deciding a cycle with the solver interpreted (faster once `kai-sched warmup` has been run)"):
        return decide(cluster, config, now_ns, cache, timer, turns)


def effort_s(cluster: Cluster, actions: Sequence[str]) -> float:
    """About how many seconds it would take to decide a cycle of this cluster with kernels that are interpreted."""
    waiting = [pod for pod in cluster.pods.values() if pod.phase == Phase.PENDING and not pod.node]
    # Equal pods are judged together, unless it matters which others are already placed.
    kinds = {pod.uid or pod.key if pod.shape.anti_affinity or pod.shape.affinity else id(pod.shape) for pod in waiting}
    found = len(waiting) * POD_S + len(kinds) * len(cluster.nodes) * PAIR_S
    if not EVICTING.isdisjoint(actions):
        found += len(waiting) * (len(cluster.pods) - len(waiting)) * VICTIM_S
    return found


def choose(effort_s: float, n_nodes: int, solver: str, progress: Progress) -> None:
    """Make the kernels ready: interpret, load or compile them.

    ``solver`` is AUTO, COMPILED or INTERPRETED, ``effort_s`` what deciding all there is would take interpreted.
    """
    if solver == AUTO:
        warm = jit.warm()
        worth_it = effort_s > LOAD_S or n_nodes >= MANY_NODES if warm else effort_s > COMPILE_S
        solver = COMPILED if worth_it else INTERPRETED
    if solver == INTERPRETED:
        jit.interpret()
    elif not jit.warm():
        progress.say("compiling the solver, once for this version (`kai-sched warmup` does it ahead of time)")
        _compile(progress)


def warm_up(progress: Progress) -> tuple[str, bool]:
    """Compile what is not in the cache yet. Returns what came of it, and whether that is as it should be."""
    if jit.interpreted():
        return "KAI_SCHED_JIT=off is set: kernels are interpreted, there is nothing to compile.", True
    folder = jit.cache_folder()
    if folder is None:
        return "The kernels cannot be kept: set KAI_SCHED_CACHE_DIR to a folder that can be written.", False
    started_s = time.monotonic()
    _compile(progress)
    return f"The solver's kernels are compiled and in {folder} ({time.monotonic() - started_s:.1f} s).", True


def _compile(progress: Progress) -> None:
    from kai_sched.solver.warmup import compile_all

    began_s = time.monotonic()

    def how_far() -> str:
        done, total = jit.compiled()
        left_s = (time.monotonic() - began_s) * (total - done) / max(done, 1)
        return f"compiling the solver: {done} of {total} kernels" + (f", about {left_s:.0f} s left" if done else "")

    with progress.step(how_far):
        compile_all()
