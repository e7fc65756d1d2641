"""``kai-sched simulate``: the cycles that are run on clusters from files, what its options override, what is printed,
and the exit status.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kai_sched import library
from kai_sched.cycle.world.pods import World, advance, restart_clocks
from kai_sched.files.load import SimulationCase, load
from kai_sched.model.field_errors import FieldError
from kai_sched.model.problems import Problem
from kai_sched.model.read.config import parse_actions
from kai_sched.model.times import parse_time
from kai_sched.report import json
from kai_sched.report.console import width_of_output, write_lines
from kai_sched.report.json import Cycle
from kai_sched.report.layout import Line, fold
from kai_sched.report.text import count, plain
from kai_sched.report.text_tables import cycle_line, evictions, summary, tables
from kai_sched.solver import jit
from kai_sched.telemetry.progress import Progress

BAD_INPUT = 2
DATA = ("json", "yaml")


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """The options of the command; None for options that were not given."""

    paths: tuple[str, ...]
    actions: str | None
    cycles: int | None
    now: str | None
    config: str | None
    output: str
    solver: str = library.AUTO
    settings: Mapping[str, str] = field(default_factory=dict)  # fields of Config
    cluster: ClusterOptions | None = None  # a running cluster that is read beside the files


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Which running cluster is read; None for the default kubeconfig and its current context."""

    kubeconfig: str | None = None
    context: str | None = None


def simulate(options: SimulateOptions) -> int:
    """Run the command; returns the exit status."""
    # Names that the encoding of the terminal cannot show must not stop the command.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    progress = Progress(sys.stderr)
    problems: list[Problem] = []
    actions = _read_actions(options.actions, problems)
    now_ns = _read_now(options.now, problems)
    if options.solver == library.COMPILED and jit.interpreted() and not jit.decided():
        problems.append(Problem("", "", "--solver", "compiled, but KAI_SCHED_JIT=off is set: unset it", fatal=True))
    paths, contents = options.paths, dict[str, bytes]()
    if options.cluster is not None:
        from kai_sched.cli.live_cluster import read_cluster

        live = read_cluster(options.cluster.kubeconfig, options.cluster.context)
        problems += live.problems
        if not live.is_usable:
            _print_problems(problems)
            return BAD_INPUT
        paths, contents = (live.name, *paths), {live.name: live.content()}
    loaded = load(paths, config=options.config, settings=options.settings, contents=contents, on_progress=progress.say)
    fatal = any(problem.fatal for problem in (*problems, *loaded.problems))
    about_selectors = (
        [] if fatal else [each for case in loaded.cases for each in library.selector_warnings(case.store.cluster())]
    )
    if _print_problems([*problems, *loaded.problems, *about_selectors]):
        return BAD_INPUT
    for case in loaded.cases:
        if now_ns is None and case.now_ns is not None and not case.is_scenario:
            print(case.now_source.sentence(case.now_ns), file=sys.stderr)
    cases = [_with_options(case, actions, options.cycles, now_ns) for case in loaded.cases]
    if not jit.decided():
        _choose_solver(cases, options.solver, progress)
    for case in cases:
        if options.output in DATA:
            _print_data(case, options.output, [*loaded.problems, *about_selectors], progress)
        else:
            write_lines(sys.stdout, _tables(case, options.output == "wide", len(cases) > 1, progress))
        sys.stdout.flush()
    return 0


def _choose_solver(cases: Sequence[SimulationCase], solver: str, progress: Progress) -> None:
    clusters = [case.store.cluster() for case in cases]
    effort_s = sum(
        library.effort_s(cluster, case.actions) * case.cycles for cluster, case in zip(clusters, cases, strict=True)
    )
    library.choose(effort_s, max(len(cluster.nodes) for cluster in clusters), solver, progress)


def _print_problems(problems: Iterable[Problem]) -> bool:
    """Print each problem on its line of stderr; whether one of them stops the command."""
    fatal = False
    for problem in problems:
        print(f"{'error' if problem.fatal else 'warning'}: {plain(str(problem))}", file=sys.stderr)
        fatal = fatal or problem.fatal
    return fatal


def _read_actions(text: str | None, problems: list[Problem]) -> tuple[str, ...] | None:
    try:
        return None if text is None else parse_actions(text, "--actions")
    except FieldError as error:
        problems.append(Problem("", "", error.field, error.message, fatal=True))
        return None


def _read_now(text: str | None, problems: list[Problem]) -> int | None:
    try:
        return None if text is None else parse_time(text)
    except ValueError as error:
        problems.append(Problem("", "", "--now", str(error), fatal=True))
        return None


def _with_options(
    case: SimulationCase, actions: tuple[str, ...] | None, cycles: int | None, now_ns: int | None
) -> SimulationCase:
    """The case changed by the options. Without an option the value of the files applies; the default time is now."""
    if now_ns is None:
        now_ns = time.time_ns() if case.now_ns is None else case.now_ns
    config = case.config if actions is None else replace(case.config, actions=actions)
    return replace(case, config=config, cycles=cycles or case.cycles, now_ns=now_ns)


def _decide(case: SimulationCase, settle_last: bool, progress: Progress) -> Iterator[Cycle]:
    """Run the cycles of the case. The last one's effects are applied to the store only with ``settle_last``."""
    from kai_sched.cycle.hint_tracker import HintTracker
    from kai_sched.cycle.run import run_cycle
    from kai_sched.lowering.cache import Cache

    step_ns = round(case.seconds_between_cycles * 1e9)
    world = World(step_ns, case.keeps_terminating, *[case.is_scenario] * 3)
    cluster, cache = case.store.cluster(), Cache()
    now_ns, tracker = case.now_ns or 0, HintTracker()
    if world.restarts_clocks:
        restart_clocks(case.store, cluster.pod_groups, cluster.pods, now_ns)
    work = f"scheduling {count(len(cluster.pods), 'pod')} on {count(len(cluster.nodes), 'node')}"
    if jit.interpreted():
        work += " with the interpreted solver (--solver compiled is faster for large clusters)"
    for number in range(1, case.cycles + 1):
        cluster = case.store.cluster()
        with progress.step(work if case.cycles == 1 else f"{work}, cycle {number} of {case.cycles}"):
            asked = library.with_answers(cluster)
            result = run_cycle(asked, case.config, now_ns, cache, hints=tracker.next_hints(), answer=library.answer)
            settle = settle_last or number < case.cycles
            settled = advance(case.store, cluster, result, now_ns, world) if settle else {}
        yield Cycle(cluster, result, settled)
        now_ns += step_ns
        if step_ns > 0 or not case.is_scenario:
            tracker.record(cluster, result, case.config)


def _print_data(case: SimulationCase, output: str, problems: Sequence[Problem], progress: Progress) -> None:
    """The case as one line of JSON, or one YAML document."""
    documents = (json.cycle_document(cycle, not case.is_scenario) for cycle in _decide(case, True, progress))
    shown = None if case.is_scenario else problems
    if output == "json":
        # Encoded cycle by cycle, so that only one of them is ever there as objects.
        cycles = [json.encoded(document) for document in documents]
        sys.stdout.buffer.write(json.encode(json.document(case.path, case.name, cycles, shown)) + b"\n")
    else:
        sys.stdout.write(json.to_yaml(json.document(case.path, case.name, list(documents), shown)))


def _tables(case: SimulationCase, wide: bool, one_of_many: bool, progress: Progress) -> Iterator[Line]:
    """A line and the evictions of each cycle but the last, the tables of the last, and a summary."""
    width = width_of_output(unfolded=wide)
    if one_of_many:
        yield [(plain(f"{case.name} ({case.path})"), "bold underline")]
    for number, cycle in enumerate(_decide(case, False, progress), 1):
        if number < case.cycles:
            yield from _folded(f"Cycle {number}: {cycle_line(cycle.result)}.", width)
            yield from evictions(cycle.result, width, wide)
            continue
        if case.cycles > 1:
            yield []
        yield from tables(cycle.cluster, cycle.result, width, wide)
        title = f"Cycle {number}" if case.cycles > 1 else "This cycle"
        for text in summary(cycle.cluster, cycle.result, case.config, title):
            yield from _folded(text, width)
    if one_of_many:
        yield []


def _folded(text: str, width: int) -> Iterator[Line]:
    for line in fold(text, width):
        yield [(line, "")]
