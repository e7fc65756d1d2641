"""``run_cycle`` for programs, and the choice of a compiled or an interpreted solver, by an estimate of how long a cycle
takes.

The choice takes effect when the first kernel is imported, so it is made before that, once for the process.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kai_sched.lowering.cache import Cache
from kai_sched.model.claims.selectors import SelectorAnswers, SelectorQuestion, object_questions, selector_problems
from kai_sched.model.config import Config
from kai_sched.model.field_errors import shown
from kai_sched.model.hints import NO_HINTS, PoolAmounts, SchedulingHints
from kai_sched.model.objects import Phase
from kai_sched.model.problems import Problem
from kai_sched.model.store import Cluster
from kai_sched.plan.result import CycleResult
from kai_sched.solver import jit
from kai_sched.telemetry.progress import Progress

# Estimated costs of the interpreted solver, high rather than low: for each pending pod, for each pair of a node and a
# kind of pod, and, if an evicting action runs, for each pair of a pending and another pod. Then the costs of loading
# and of compiling the kernels.
POD_S = 100e-6
PAIR_S = 5e-6
VICTIM_S = 20e-6
LOAD_S = 0.5
COMPILE_S = 30.0
MANY_NODES = 200  # from here on, compiled kernels are loaded where the cache has them
EVICTING = frozenset(("consolidation", "reclaim", "preempt"))

AUTO, COMPILED, INTERPRETED = "auto", "compiled", "interpreted"


def run_cycle(
    cluster: Cluster,
    config: Config,
    now_ns: int,
    cache: Cache | None = None,
    timer: Callable[[], float] | None = None,
    hints: SchedulingHints | None = None,
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
        ``next_hints()``: pods that wait for room then get it before others, and groups whose search for victims was
        cut short search again. Where ``HintTracker.due`` is true, the next cycle should start at once.

    Returns
    -------
    CycleResult
        The effects to carry out and the state that results.

    Raises
    ------
    TypeError
        For a cluster that is no Cluster, and a time that is no whole number.

    Notes
    -----
    The first call of a process chooses how the solver runs: compiled, if the kernels are in the cache
    (``kai-sched warmup``) or the cluster is large enough to make compiling worthwhile; else interpreted, with the same
    results. Steps that take longer than two seconds are reported on stderr.
    """
    _check_arguments(cluster, now_ns)
    timer = timer or float
    hints = hints or NO_HINTS
    progress = Progress(sys.stderr)
    if not jit.decided() and not jit.warm():
        choose(effort_s(cluster, config.actions), len(cluster.nodes), AUTO, progress)
    from kai_sched.cycle.run import run_cycle as run

    cache = cache if cache is not None else Cache()
    cluster = with_answers(cluster)
    if not jit.interpreted():
        return run(cluster, config, now_ns, cache, timer, hints, answer)
    with progress.step("running a scheduling cycle with the interpreted solver (`kai-sched warmup` makes it faster)"):
        return run(cluster, config, now_ns, cache, timer, hints, answer)


def _check_arguments(cluster: object, now_ns: object) -> None:
    if not isinstance(cluster, Cluster):
        text = f"run_cycle takes a Cluster, not {type(cluster).__name__}"
        raise TypeError(f"{text}: write Cluster.of(objects), or kai_sched.load(path).cluster")
    if isinstance(now_ns, bool) or not isinstance(now_ns, int):
        text = f"now_ns is a whole number of nanoseconds since the epoch, not {shown(now_ns)}"
        raise TypeError(f"{text}: write int(time.timestamp() * 1e9)")


def with_answers(cluster: Cluster) -> Cluster:
    """The cluster of a cycle that begins, with what is known of selectors of devices."""
    if not (cluster.device_classes or cluster.device_taint_rules or cluster.resource_claims):
        return cluster
    from kai_sched.selectors.offline import evaluator

    return replace(cluster, selector_answers=evaluator().begin(cluster.store_id))


def answer(questions: Sequence[SelectorQuestion]) -> SelectorAnswers | None:
    """Evaluate selectors of devices in another process, which is started with the first one (``cycle.run.Answer``)."""
    from kai_sched.selectors.offline import evaluator

    return evaluator().answer(questions)


def decide(
    cluster: Cluster, config: Config, now_ns: int, cache: Cache, hints: SchedulingHints = NO_HINTS
) -> CycleResult:
    """A cycle for which selectors of devices are evaluated; the solver has been chosen (``answers.trial.Decide``)."""
    from kai_sched.cycle.run import run_cycle as run

    return run(with_answers(cluster), config, now_ns, cache, hints=hints, answer=answer)


def count(cluster: Cluster, config: Config, now_ns: int, cache: Cache, pipelined: Mapping[str, str]) -> PoolAmounts:
    """As ``cycle.pool_amounts.count_pool``, with what is known of selectors of devices (``cycle.shards.AllShards``)."""
    from kai_sched.cycle.pool_amounts import count_pool

    return count_pool(with_answers(cluster), config, now_ns, cache, pipelined)


def selector_warnings(cluster: Cluster) -> list[Problem]:
    """The selectors of device classes and taint rules that can be used for no device."""
    classes, rules = cluster.device_classes, cluster.device_taint_rules
    if not object_questions(classes, rules, {}):
        return []
    answers = with_answers(cluster).selector_answers
    while (more := answer(object_questions(classes, rules, answers))) is not None:
        answers = more
    return [
        Problem("", f"{kind} {name}", field, message)
        for kind, name, field, message in selector_problems(classes, rules, answers)
    ]


def effort_s(cluster: Cluster, actions: Sequence[str]) -> float:
    """An estimate of the seconds that a cycle of this cluster takes with the interpreted solver."""
    waiting = [pod for pod in cluster.pods.values() if pod.phase == Phase.PENDING and not pod.node]
    # Pods of one shape share their node checks, unless their affinity depends on the pods that are placed already.
    kinds = {pod.uid or pod.key if pod.shape.anti_affinity or pod.shape.affinity else id(pod.shape) for pod in waiting}
    found = len(waiting) * POD_S + len(kinds) * len(cluster.nodes) * PAIR_S
    if not EVICTING.isdisjoint(actions):
        found += len(waiting) * (len(cluster.pods) - len(waiting)) * VICTIM_S
    return found


def choose(effort_s: float, n_nodes: int, solver: str, progress: Progress) -> None:
    """Choose the solver for this process, and compile its kernels if they are needed and missing.

    Parameters
    ----------
    effort_s
        Estimated seconds of all cycles with the interpreted solver (``effort_s``).
    n_nodes
        The number of nodes of the largest cluster.
    solver
        AUTO, COMPILED or INTERPRETED.
    progress
        Reports that kernels are being compiled.
    """
    if solver == AUTO:
        # jit.warm() comes last, as it hashes the sources of the kernels.
        worth_loading = effort_s > LOAD_S or n_nodes >= MANY_NODES
        worth_it = effort_s > COMPILE_S or (worth_loading and jit.warm())
        solver = COMPILED if worth_it else INTERPRETED
    if solver == INTERPRETED:
        jit.interpret()
    elif not jit.warm():
        progress.say("compiling the solver, once for this version (`kai-sched warmup` does it ahead of time)")
        _compile(progress)


def warm_up(progress: Progress) -> tuple[str, bool]:
    """Compile the kernels that are not in the cache yet. Returns a sentence for the user, and whether it succeeded."""
    if jit.interpreted():
        return "KAI_SCHED_JIT=off is set: kernels are interpreted, there is nothing to compile.", True
    jit.compile_for_this_cpu()
    folder = jit.cache_folder()
    if folder is None:
        return "The kernels cannot be kept: set KAI_SCHED_CACHE_DIR to a folder that can be written.", False
    started_s = time.monotonic()
    _compile(progress)
    return f"The solver's kernels are compiled, in {folder} ({time.monotonic() - started_s:.1f} s).", True


def _compile(progress: Progress) -> None:
    from kai_sched.solver.warmup import compile_all

    began_s = time.monotonic()

    def how_far() -> str:
        done, total = jit.compiled()
        left_s = (time.monotonic() - began_s) * (total - done) / max(done, 1)
        return f"compiling the solver: {done} of {total} kernels" + (f", about {left_s:.0f} s left" if done else "")

    with progress.step(how_far):
        compile_all()
