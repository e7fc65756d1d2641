"""The input of ``simulate``, ``explain`` and ``fit``: files or a running cluster are read, problems are printed, the
time and how the solver runs are settled.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kai_sched import library
from kai_sched.files.input_time import TimeSource
from kai_sched.files.load import SimulationCase, load
from kai_sched.model.field_errors import FieldError
from kai_sched.model.problems import Problem
from kai_sched.model.read.config import parse_actions
from kai_sched.model.times import parse_time
from kai_sched.report.text import plain
from kai_sched.solver import jit
from kai_sched.telemetry.progress import Progress

BAD_INPUT = 2
HTML = "html"  # the output that is a page


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Which running cluster is read; None for the default kubeconfig and its current context."""

    kubeconfig: str | None = None
    context: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """What is changed before it is asked about, as written: the values of each flag in their order."""

    settings: tuple[str, ...] = ()
    new_nodes: tuple[str, ...] = ()
    drained: tuple[str, ...] = ()
    uncordoned: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether something is changed."""
        lists = (self.settings, self.new_nodes, self.drained, self.uncordoned, self.removed, self.overrides)
        return any(lists)


@dataclass(frozen=True, slots=True)
class InputOptions:
    """Where a cluster is read from, and how it is decided. None for options that were not given."""

    paths: tuple[str, ...]
    config: str | None = None
    now: str | None = None
    actions: str | None = None
    solver: str = library.AUTO
    settings: Mapping[str, str] = field(default_factory=dict)  # fields of Config
    cluster: ClusterOptions | None = None  # a running cluster that is read beside the files
    changes: ChangeOptions = ChangeOptions()
    run_times: tuple[str, ...] = ()  # "KIND/NAME=2h"
    all_shards: bool = False


@dataclass(frozen=True, slots=True)
class Input:
    """What was read: usable cases with their times, and all that was said about the input.

    ``as_of`` says for a cluster from which its time is.
    """

    cases: tuple[SimulationCase, ...]
    problems: tuple[Problem, ...]
    as_of: str


def read_input(options: InputOptions, cycles: int = 1, progress: Progress | None = None) -> Input | None:
    """The input; None where it cannot be used, which has been told on stderr. Chooses how the solver runs.

    ``cycles`` is how many are going to be run, at least.
    """
    progress = progress or Progress(sys.stderr)
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
            print_problems(problems)
            return None
        paths, contents = (live.name, *paths), {live.name: live.content()}
    loaded = load(
        paths,
        config=options.config,
        settings=options.settings,
        contents=contents,
        all_shards=options.all_shards,
        on_progress=progress.say,
    )
    fatal = any(problem.fatal for problem in (*problems, *loaded.problems))
    about_selectors = (
        [] if fatal else [each for case in loaded.cases for each in library.selector_warnings(case.store.cluster())]
    )
    if print_problems([*problems, *loaded.problems, *about_selectors]):
        return None
    read_now = options.cluster is not None
    as_of = next((_as_of(case, now_ns, read_now) for case in loaded.cases if not case.is_scenario), "")
    cases = tuple(_with_options(case, actions, now_ns) for case in loaded.cases)
    if not jit.decided():
        _choose_solver(cases, cycles, options.solver, progress)
    return Input(cases, (*loaded.problems, *about_selectors), as_of)


def _as_of(case: SimulationCase, now_ns: int | None, read_now: bool) -> str:
    if now_ns is not None or case.now_ns is None:
        return ""
    source = TimeSource.READ if read_now and case.now_source is TimeSource.DUMP else case.now_source
    return source.sentence(case.now_ns)


def print_problems(problems: Iterable[Problem]) -> bool:
    """Print each problem on its line of stderr; whether one of them stops the command."""
    fatal = False
    for problem in problems:
        print(f"{'error' if problem.fatal else 'warning'}: {plain(str(problem))}", file=sys.stderr)
        fatal = fatal or problem.fatal
    return fatal


def print_error(error: FieldError) -> None:
    """Print what is wrong with an option."""
    print_problems([Problem("", "", error.field, error.message, fatal=True)])


def name_is_file(name: str) -> FieldError | None:
    """The error for a file in the place of the name of a workload; None where there is no such file."""
    if not os.path.isfile(name):
        return None
    return FieldError("NAME", f"{name} is a file: the name comes first: kai-sched explain NAME CLUSTER")


def _choose_solver(cases: Sequence[SimulationCase], cycles: int, solver: str, progress: Progress) -> None:
    clusters = [case.store.cluster() for case in cases]
    effort_s = sum(
        library.effort_s(cluster, case.actions) * max(case.cycles, cycles)
        for cluster, case in zip(clusters, cases, strict=True)
    )
    library.choose(effort_s, max(len(cluster.nodes) for cluster in clusters), solver, progress)


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


def _with_options(case: SimulationCase, actions: tuple[str, ...] | None, now_ns: int | None) -> SimulationCase:
    """The case changed by the options. Without an option the value of the files applies; the default time is now."""
    if now_ns is None:
        now_ns = time.time_ns() if case.now_ns is None else case.now_ns
    if actions is None:
        return replace(case, now_ns=now_ns)
    shards = tuple(replace(each, actions=actions) for each in case.shards)
    return replace(case, config=replace(case.config, actions=actions), shards=shards, now_ns=now_ns)
