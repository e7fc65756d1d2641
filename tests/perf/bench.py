"""The benchmark: `make bench ARGS='--only SHAPE --json FILE'`.

Every repetition starts from a fresh store with all objects renamed and shuffled, nothing kept but compiled code: a
cycle with claims starts the process that evaluates selectors. A steady shape keeps its store and cache while some
hundred pods change, and one with a newcomer while one pod comes: *lowering* is what passes of the cycle of that pod
before its first action. The median counts. A shape of many cycles runs once, as the operator would: what counts is its
slowest cycle (the median of them is in the JSON). Of an explained shape it is the whole explanation of one group. It
fails where an outcome differs from the shape's, where two repetitions come to different plans, or where a warm cycle
decides otherwise than a cold one. Each shape runs in a process of its own, so that its memory is its own. `--against
COMMIT` runs each shape in that version and in this one in turn, and fails where a cycle of this one is slower
(``tests.perf.against``).
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kai_sched import Cache, Cluster, Config, CycleResult, HintTracker, Store, run_cycle
from kai_sched.answers.trial import Trials
from kai_sched.answers.workloads import workloads_of
from kai_sched.cycle.world.pods import World, advance
from kai_sched.model.claims.objects import ResourceClaim
from kai_sched.model.objects import Phase, Pod, PodGroup
from kai_sched.plan.effects import Bind, Evict, Pipeline
from kai_sched.plan.reasons import NOT_TRIED
from kai_sched.selectors.offline import evaluator
from kai_sched.snapshot.tables import Help
from kai_sched.solver import jit
from tests.perf.against import run_against
from tests.perf.builder import NOW_NS
from tests.perf.explained import timed_explanation
from tests.perf.shapes import CASES, Case, fresh_store

REPETITIONS = 9
EXPLANATIONS = 3
STEP_NS = 1_000_000_000
COLUMNS = {
    "shape": 28,
    "solver ms": 11,
    "cycle ms": 11,
    "RSS MB": 9,
    "bound": 8,
    "pipelined": 11,
    "evicted": 9,
    "unschedulable": 15,
    "lowering ms": 13,
}


def plan_of(result: CycleResult, prefix: str) -> str:
    """A digest of the plan in the order of deciding, with the names of this repetition taken out."""
    lines = [f"{type(effect).__name__} {effect.pod} {effect.node}" for effect in result.effects]
    return hashlib.sha256("\n".join(lines).replace(prefix, "").encode()).hexdigest()


@dataclass
class Runs:
    """The repetitions of a shape that count. Of their results only the last one is kept: others would be its memory."""

    times: list[float] = field(default_factory=list)  # of all of ``run_cycle``, in seconds
    solver: list[float] = field(default_factory=list)
    plans: set[str] = field(default_factory=set)
    lowering: list[float] = field(default_factory=list)
    last: CycleResult | None = None

    def add(self, result: CycleResult, seconds: float) -> None:
        self.times.append(seconds)
        self.solver.append(result.solver_s)
        self.last = result


def measure(
    store: Store, config: Config, cache: Cache | None, now_ns: int = NOW_NS, tracker: HintTracker | None = None
) -> tuple[CycleResult, float]:
    """One cycle and how long all of it took."""
    cluster, hints = store.cluster(), (tracker or HintTracker()).next_hints()
    gc.collect()
    started = time.perf_counter()
    result = run_cycle(cluster, config, now_ns, cache, timer=time.perf_counter, hints=hints)
    return result, time.perf_counter() - started


def settle(store: Store, result: CycleResult) -> None:
    """What was bound runs."""
    for effect in result.effects:
        pod = store.get(Pod, effect.pod)
        assert isinstance(pod, Pod)
        if isinstance(effect, Bind):
            store.put(replace(pod, node=effect.node, phase=Phase.RUNNING, gpu_groups=effect.gpu_groups))
            for use in effect.claims:
                claim = store.get(ResourceClaim, use.claim)
                assert isinstance(claim, ResourceClaim)
                store.put(replace(claim, allocation=use.allocation, consumers=((pod.name, pod.uid),)))


def churn(store: Store, turn: int, changed: int) -> None:
    """Half of the changed pods finish, as many new single-pod jobs come to their queues."""
    half = changed // 2
    running = [pod for pod in store.cluster().pods.values() if pod.node]
    for number, pod in enumerate(sorted(running, key=lambda pod: pod.name)[turn * half : (turn + 1) * half]):
        store.remove(Pod, pod.key)
        group = store.get(PodGroup, f"{pod.namespace}/{pod.group}")
        assert isinstance(group, PodGroup)
        store.remove(PodGroup, group.key)
        name = f"{group.name}-again-{turn}-{number:04}"
        created = NOW_NS - 1_000_000 + turn * half + number
        store.put(replace(group, name=name, uid=f"{name}-uid", created_ns=created))
        again = replace(
            pod,
            name=f"{name}-0",
            uid=f"{name}-0-uid",
            group=name,
            node="",
            phase=Phase.PENDING,
            created_ns=created,
            gpu_groups=(),
            claims=tuple(replace(use, claim=f"{name}-0") for use in pod.claims),
        )
        store.put(again)
        renew_claims(store, pod, again)


def renew_claims(store: Store, gone: Pod, again: Pod) -> None:
    """The claims of the pod that is gone go with it; the pod that came has the same, with nothing allocated."""
    for old, new in zip(gone.claims, again.claims, strict=True):
        claim = store.get(ResourceClaim, f"{gone.namespace}/{old.claim}")
        assert isinstance(claim, ResourceClaim)
        store.remove(ResourceClaim, claim.key)
        store.put(replace(claim, name=new.claim, uid=f"{new.claim}-claim-uid", allocation=None, consumers=()))


def forget_answers() -> None:
    """What selectors of devices say is asked again, of a new process."""
    if evaluator.cache_info().currsize:
        evaluator().close()
        evaluator.cache_clear()


def repeat_fresh(case: Case, config: Config) -> Runs:
    """Independent cycles; the first pays for loading compiled code and is thrown away."""
    runs = Runs()
    for repetition in range(REPETITIONS + 1):
        forget_answers()
        prefix = f"r{repetition}x-"
        result, seconds = measure(fresh_store(case, prefix, repetition), config, None)
        runs.plans.add(plan_of(result, prefix))
        if repetition:
            runs.add(result, seconds)
    return runs


def repeat_steady(case: Case, config: Config) -> Runs:
    """The cycle after pods of a settled cluster changed, on its store and cache; compared with one from scratch."""
    runs = Runs()
    for repetition in range(REPETITIONS + 1):
        prefix = f"r{repetition}x-"
        store, cache = fresh_store(case, prefix, repetition), Cache()
        for _ in range(2):
            result, _ = measure(store, config, cache)
            settle(store, result)
        churn(store, 0, case.churned)
        result, seconds = measure(store, config, cache)
        again, _ = measure(store, config, None)
        plan = plan_of(result, prefix)
        runs.plans.add(plan)
        if plan_of(again, prefix) != plan:
            raise SystemExit(f"repetition {repetition}: the warm plan differs from the one from scratch")
        if repetition > 0:
            runs.add(result, seconds)
    return runs


def repeat_arrivals(case: Case, config: Config) -> Runs:
    """The cycles in which one pod comes to a settled cluster, each compared with one from scratch; and what passes of
    each before the first action."""
    assert case.newcomer is not None
    runs, prefix = Runs(), "r0x-"
    store, cache = fresh_store(case, prefix, 0), Cache()
    measure(store, config, cache)
    for repetition in range(REPETITIONS + 1):
        for item in case.newcomer(prefix, repetition):
            store.put(item)
        result, seconds = measure(store, config, cache)
        again, _ = measure(store, config, None)
        if plan_of(again, prefix) != plan_of(result, prefix):
            raise SystemExit(f"repetition {repetition}: the warm plan differs from the one from scratch")
        settle(store, result)
        measure(store, config, cache)
        if repetition > 0:
            runs.add(result, seconds)
            runs.lowering.append(result.open_s)
            runs.plans = {plan_of(result, prefix)}  # each of them is another pod's
    return runs


def repeat_cycles(case: Case, config: Config) -> Runs:
    """Cycle after cycle on one cluster, of which those that count are returned; SystemExit where a search was cut."""
    store, cache, tracker = fresh_store(case, "r0x-", 0), Cache(), HintTracker()
    measure(fresh_store(case, "w-", 1), config, None)  # pays for loading compiled code
    runs, plans, evicted, used, still = Runs(), hashlib.sha256(), 0.0, 0.0, False
    for number in range(case.cycles):
        if case.changed and number >= 2:
            churn(store, number - 2, case.churned)
        cluster = store.cluster()
        result, seconds = measure(store, config, cache, NOW_NS + number * STEP_NS, tracker)
        tracker.record(cluster, result, config)
        plans.update(plan_of(result, "r0x-").encode())
        if any(Help.TOO_LONG in found for found in result.searches.values()):
            raise SystemExit(f"cycle {number}: a search was cut")
        gone = [effect for effect in result.effects if isinstance(effect, Evict)]
        evicted += gpus_of(cluster, gone)
        waits = [effect for effect in result.effects if isinstance(effect, Pipeline)]
        used += gpus_of(cluster, [effect for effect in waits if effect.pod not in result.evicted])
        still = not result.effects
        if number < case.counted and not (case.changed and number < 2):
            runs.add(result, seconds)
        if still and not case.changed:
            break
        advance(store, cluster, result, NOW_NS + number * STEP_NS, World(STEP_NS, restarts_clocks=False))
    if case.outcome.rests and not still:
        raise SystemExit(f"no rest after {case.cycles} cycles")
    most = case.outcome.most_evicted_share
    if most is not None and evicted > most * used:
        raise SystemExit(f"{evicted:.0f} GPUs evicted for {used:.0f} that got used")
    runs.plans = {plans.hexdigest()}
    return runs


def repeat_explanations(case: Case, config: Config) -> Runs:
    """The explanation of one group, with trials that have been made before; the plan is what it says."""
    runs, cluster = Runs(), fresh_store(case, "r0x-", 0).cluster()
    trials, workloads = Trials(cluster, config, NOW_NS), workloads_of(cluster)
    base = trials.outcome().first
    assert case.explained is not None
    waiting = sorted(key for key, group in base.groups.items() if group.reason is not None)
    asked = workloads.of(waiting[case.explained])
    for repetition in range(EXPLANATIONS + 1):
        gc.collect()
        seconds, plan = timed_explanation(trials, asked, workloads)
        runs.plans.add(plan)
        if repetition:
            runs.add(base, seconds)
    return runs


def gpus_of(cluster: Cluster, effects: Sequence[Evict | Pipeline]) -> float:
    """The GPUs that the pods of these effects ask for."""
    return sum(dict(cluster.pods[effect.pod].shape.request).get("gpu", 0.0) for effect in effects)


def check(name: str, case: Case, result: CycleResult, plans: set[str]) -> list[str]:
    """What differs from the shape's outcome."""
    wrong = [] if len(plans) == 1 else [f"{len(plans)} different plans"]
    bound = [effect for effect in result.effects if isinstance(effect, Bind)]
    gpus = sum(node.allocatable["gpu"] - node.idle["gpu"] for node in result.nodes.values())
    outcome = case.outcome
    if outcome.bound is not None and len(bound) != outcome.bound:
        wrong.append(f"{len(bound)} bound, {outcome.bound} expected")
    if outcome.evicted is not None and len(result.evicted) != outcome.evicted:
        wrong.append(f"{len(result.evicted)} evicted, {outcome.evicted} expected")
    if outcome.most_evicted is not None and len(result.evicted) > outcome.most_evicted:
        wrong.append(f"{len(result.evicted)} evicted, {outcome.most_evicted} at the most expected")
    if outcome.held_gpus is not None:
        held = sum(node.allocatable["gpu"] - node.idle["gpu"] - node.releasing["gpu"] for node in result.nodes.values())
        if held < outcome.held_gpus:
            wrong.append(f"{held} GPUs bound or pipelined, {outcome.held_gpus} expected")
    if outcome.bound_gpus is not None and gpus != outcome.bound_gpus:
        wrong.append(f"{gpus} GPUs bound, {outcome.bound_gpus} expected")
    if outcome.reasons_for_all:
        mute = [
            key
            for key, group in result.groups.items()
            if "Pending" in group.counts and (not group.reason or group.reason.code == NOT_TRIED)
        ]
        if mute:
            wrong.append(f"{len(mute)} pending groups without a reason, such as {mute[0]}")
    return [f"{name}: {text}" for text in wrong]


def run_shape(name: str) -> dict[str, Any]:
    """One row of the result; SystemExit where the outcome is wrong."""
    case = CASES[name]
    config = Config(actions=case.actions, max_consolidation_preemptees=case.most_moved)
    if case.newcomer is not None:
        runs = repeat_arrivals(case, config)
    elif case.cycles:
        runs = repeat_cycles(case, config)
    elif case.explained is not None:
        runs = repeat_explanations(case, config)
    else:
        runs = (repeat_steady if case.steady else repeat_fresh)(case, config)
    last = runs.last
    assert last is not None
    rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    wrong = check(name, case, last, runs.plans)
    if wrong:
        raise SystemExit("\n".join(wrong))
    bound = sum(isinstance(effect, Bind) for effect in last.effects)
    pipelined = sum(isinstance(effect, Pipeline) for effect in last.effects)
    return {
        "shape": name,
        "solver_s": (max if case.cycles else statistics.median)(runs.solver),
        "cycle_s": (max if case.cycles else statistics.median)(runs.times),
        "median_cycle_s": statistics.median(runs.times),
        "rss_mb": round(rss_mb, 1),
        "bound": bound,
        "pipelined": pipelined,
        "evicted": len(last.evicted),
        "unschedulable": sum(group.reason is not None for group in last.groups.values()),
        "lowering_s": statistics.median(runs.lowering) if runs.lowering else None,
        "plan_sha256": next(iter(runs.plans)),
    }


def in_process_of_its_own(name: str) -> dict[str, Any]:
    """The row of a shape, from a fresh process: memory is the shape's own."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.perf.bench", "--worker", name], stdout=subprocess.PIPE, text=True, check=False
    )
    if run.returncode:
        raise SystemExit(run.returncode)
    row: dict[str, Any] = json.loads(run.stdout)
    return row


def write(rows: Sequence[dict[str, Any]], file: Path | None) -> None:
    """Write the rows to the file, if there is one."""
    if file:
        file.write_text(json.dumps(rows, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", action="append", choices=sorted(CASES), metavar="SHAPE", help="repeatable; default: all shapes"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there")
    parser.add_argument("--against", metavar="COMMIT", help="compare with that version, both in turn")
    parser.add_argument("--pairs", type=int, default=5, metavar="N", help="how often, with --against")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(run_shape(args.worker)))
        return
    shapes = args.only or list(CASES)
    mode = "interpreted" if jit.interpreted() else "compiled"
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    print(f"{machine}, Python {platform.python_version()}, kernels {mode}")
    if args.against:
        rows, slow = run_against(args.against, shapes, args.pairs)
        write(rows, args.json)
        if slow:
            raise SystemExit("slower than allowed: " + "; ".join(slow))
        return
    if not jit.warm():
        started = time.perf_counter()
        # not in this process: a child's peak memory counts from its parent's
        subprocess.run([sys.executable, "-m", "kai_sched.solver.warmup"], check=True)
        print(f"cold compile of all kernels: {time.perf_counter() - started:.1f} s")
    print("".join(f"{title:>{width}}" for title, width in COLUMNS.items()))
    rows = []
    for name in shapes:
        row = in_process_of_its_own(name)
        rows.append(row)
        shown = dict(
            {key: value for key, value in row.items() if key != "median_cycle_s"},
            solver_s=1e3 * row["solver_s"],
            cycle_s=1e3 * row["cycle_s"],
        )
        shown["lowering_s"] = "" if row["lowering_s"] is None else 1e3 * row["lowering_s"]
        cells = zip(shown.values(), COLUMNS.values(), strict=False)
        print(
            "".join(f"{cell:>{width}.2f}" if isinstance(cell, float) else f"{cell:>{width}}" for cell, width in cells)
        )
        sys.stdout.flush()
    write(rows, args.json)


if __name__ == "__main__":
    main()
