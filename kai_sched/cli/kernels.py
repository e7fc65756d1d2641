"""Compiled or interpreted: decided before the first kernel is imported, for that is when it takes effect."""

from __future__ import annotations

import time

from kai_sched.model.objects import Phase
from kai_sched.model.store import Cluster
from kai_sched.solver import jit
from kai_sched.telemetry.progress import Progress

# What interpreting takes, roughly and rather too much than too little: for each pod that waits, and for each pair of a
# node and a kind of pod; against that, what it takes to load compiled kernels, and to compile them.
POD_S = 100e-6
PAIR_S = 5e-6
LOAD_S = 0.5
COMPILE_S = 30.0


def effort_s(cluster: Cluster) -> float:
    """About how many seconds it would take to decide a cycle of this cluster with kernels that are interpreted."""
    waiting = [pod for pod in cluster.pods.values() if pod.phase == Phase.PENDING and not pod.node]
    # Equal pods are judged together, unless it matters which others are already placed.
    kinds = {pod.uid or pod.key if pod.shape.anti_affinity or pod.shape.affinity else id(pod.shape) for pod in waiting}
    return len(waiting) * POD_S + len(kinds) * len(cluster.nodes) * PAIR_S


def choose(effort_s: float, progress: Progress) -> None:
    """Make the kernels ready for work that takes so long when they are interpreted: interpret, load or compile them."""
    if effort_s <= LOAD_S:
        jit.interpret()
    elif not jit.warm():
        if effort_s <= COMPILE_S:
            jit.interpret()
            return
        progress.say("compiling the solver, once for this version (`kai-sched warmup` does it ahead of time)")
        _compile()


def warm_up() -> tuple[str, bool]:
    """Compile what is not in the cache yet. Returns what came of it, and whether that is as it should be."""
    if jit.interpreted():
        return "KAI_SCHED_JIT=off is set: kernels are interpreted, there is nothing to compile.", True
    folder = jit.cache_folder()
    if folder is None:
        return "The kernels cannot be kept: set KAI_SCHED_CACHE_DIR to a folder that can be written.", False
    started_s = time.monotonic()
    _compile()
    return f"The solver's kernels are compiled and in {folder} ({time.monotonic() - started_s:.1f} s).", True


def _compile() -> None:
    from kai_sched.solver.warmup import compile_all

    compile_all()
