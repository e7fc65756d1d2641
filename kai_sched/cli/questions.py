"""``kai-sched explain``, ``fit`` and ``diff``, and what ``simulate`` prints of changes: a cluster is opened for trials,
asked, and the answer printed.

This module imports the solver, so it is imported once the input is read and it is chosen how the solver runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kai_sched import library
from kai_sched.answers.changes import Change, Drain, Override, Remove, Uncordon, changed, unknown
from kai_sched.answers.difference import Difference, difference
from kai_sched.answers.fit import EVICTS, RUNS, WAITS, fit
from kai_sched.answers.overview import overview
from kai_sched.answers.trial import Trials
from kai_sched.answers.what_if import read_new_nodes, read_setting
from kai_sched.answers.when import RunTime, deadline_run_times
from kai_sched.answers.words import minute, some
from kai_sched.answers.workload_changes import InPool
from kai_sched.answers.workloads import Workload, Workloads, workloads_of
from kai_sched.cli.inputs import (
    BAD_INPUT,
    HTML,
    ChangeOptions,
    Input,
    InputOptions,
    name_is_file,
    print_error,
    print_problems,
)
from kai_sched.files.load import SimulationCase, load
from kai_sched.files.sources import FilePosition
from kai_sched.model.field_errors import FieldError
from kai_sched.model.priorities import SHIPPED_CLASSES
from kai_sched.model.problems import Problem
from kai_sched.model.read.kinds import NAMESPACED
from kai_sched.model.store import Cluster
from kai_sched.model.times import parse_duration
from kai_sched.report import answers_json
from kai_sched.report.console import width_of_terminal, write_lines
from kai_sched.report.json import encode, to_yaml
from kai_sched.report.plan_documents import plan_difference, read_plan
from kai_sched.report.text import plain
from kai_sched.telemetry.progress import Progress

if TYPE_CHECKING:
    from kai_sched.answers.explain.explanation import Explanation

EXIT_STATUS = {RUNS: 0, WAITS: 3, EVICTS: 4}


@dataclass(frozen=True, slots=True)
class Opened:
    """A cluster that can be asked: its case with all changes made, trials of it, and the names of its workloads."""

    case: SimulationCase
    trials: Trials
    workloads: Workloads
    before: Trials | None = None  # without the changes, if there are any


def open_case(found: Input, changes: ChangeOptions) -> Opened:
    """The one cluster of the input, changed. Raises FieldError."""
    for case in found.cases:
        if case.is_scenario:
            message = "a scenario file is no cluster to ask about: name files with Kubernetes objects"
            raise FieldError(str(FilePosition(case.path)), message)
    (case,) = found.cases
    cluster = case.store.cluster()
    trials = trials_of(case, cluster)
    if not changes.any:
        return Opened(case, trials, workloads_of(cluster))
    made = read_changes(changes, case, workloads_of(cluster))
    store = changed(cluster, made)
    after = trials_of(case, store.cluster())
    if len(case.shards) > 1 and any(isinstance(each, InPool) for each in made):
        # Another shard decides about the workload than before.
        after, trials = after.of_all_shards(), trials.of_all_shards()
    return Opened(replace(case, store=store), after, workloads_of(store.cluster()), trials)


def trials_of(case: SimulationCase, cluster: Cluster) -> Trials:
    """Trials of a cluster with the settings and the time of the case."""
    return Trials(cluster, case.config, case.now_ns or 0, library.decide, case.shards, library.count)


def read_changes(changes: ChangeOptions, case: SimulationCase, workloads: Workloads) -> list[Change]:
    """The changes in the order of their kinds: files, settings, nodes, workloads. Raises FieldError."""
    cluster, config = case.store.cluster(), case.config
    found: list[Change] = [_override(path, case) for path in changes.overrides]
    found += [read_setting(text, cluster, config, workloads) for text in changes.settings]
    found += [read_new_nodes(text, cluster) for text in changes.new_nodes]
    for names, flag in ((changes.drained, "--drain"), (changes.uncordoned, "--uncordon")):
        for name in names:
            if name not in cluster.nodes:
                raise unknown("node", name, cluster.nodes, flag)
            found.append(Drain(name, config.scheduler_name) if flag == "--drain" else Uncordon(name))
    for name in changes.removed:
        try:
            found.append(Remove(workloads.find(name).group))
        except FieldError as error:
            raise FieldError("--remove", error.message) from None
    return found


def _override(path: str, case: SimulationCase) -> Override:
    loaded = load([path], settings={"scheduler_name": case.config.scheduler_name})
    if fatal := [problem for problem in loaded.problems if problem.fatal]:
        raise FieldError("--override", str(fatal[0]))
    store = loaded.cases[0].store
    return Override(path, tuple(store.everything()))


def read_run_times(texts: Sequence[str], opened: Opened) -> dict[str, RunTime]:
    """How long workloads run, by key of their group: by their deadlines, and as given. Raises FieldError."""
    found = deadline_run_times(opened.case.deadlines.items(), opened.workloads)
    for text in texts:
        name_text, equals, value = text.rpartition("=")
        try:
            seconds = parse_duration(value, long_units=True)
        except ValueError as error:
            raise FieldError("--runtime", f"{text!r}: {error}: write it as KIND/NAME=2h") from None
        if not equals or seconds <= 0:
            raise FieldError("--runtime", f"{text!r} is no run time: write it as KIND/NAME=2h")
        try:
            group = opened.workloads.find(name_text).group
        except FieldError as error:
            raise FieldError("--runtime", error.message) from None
        found[group] = RunTime(seconds, True)
    return found


def _opened(found: Input, changes: ChangeOptions) -> Opened | None:
    """The cluster to ask; None where it cannot be changed so, which has been told."""
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if found.as_of:
        print(found.as_of, file=sys.stderr)
    try:
        return open_case(found, changes)
    except FieldError as error:
        print_error(error)
        return None


def run_explain(name: str, found: Input, options: InputOptions, output: str) -> int:
    """Print why a workload waits and what would start it; returns the exit status."""
    # Imported here alone, as fit and simulate do without.
    from kai_sched.answers.explain.explanation import explain
    from kai_sched.report.explain_text import explanation_lines

    opened = _opened(found, options.changes)
    if opened is None:
        return BAD_INPUT
    try:
        asked = opened.workloads.find(name)
    except FieldError as error:
        print_error(name_is_file(name) or error)
        return BAD_INPUT
    try:
        run_times = read_run_times(options.run_times, opened)
    except FieldError as error:
        print_error(error)
        return BAD_INPUT
    with Progress(sys.stderr).step("simulating changes"):
        answer = explain(opened.trials, asked, opened.workloads, run_times)
    if output in ("json", "yaml"):
        _print_data(answers_json.explanation_document(answer), output)
    elif output == HTML:
        _print_page(opened, (), answer)
    else:
        write_lines(sys.stdout, explanation_lines(answer, width_of_terminal(), output == "wide"))
    return 0


def run_fit(found: Input, options: InputOptions, workloads: Sequence[str], output: str, exit_status: bool) -> int:
    """Print whether the workloads in these files, which are a part of what was read, would run; the exit status."""
    opened = _opened(found, options.changes)
    if opened is None:
        return BAD_INPUT
    asked = _workloads_in(workloads, opened)
    if not asked:
        names = ", ".join(workloads)
        print_error(FieldError("WORKLOAD", f"no pod of this scheduler in {names}: name files with workloads"))
        return BAD_INPUT
    try:
        run_times = read_run_times(options.run_times, opened)
    except FieldError as error:
        print_error(error)
        return BAD_INPUT
    if added := _added(workloads, opened):
        text = f"adds {some(added)} to the cluster, and the answer is for the cluster with that"
        print_problems([Problem("", "", "WORKLOAD", text)])
    answers = fit(opened.trials, asked, opened.workloads, run_times)
    if output in ("json", "yaml"):
        _print_data(answers_json.fit_document(answers), output)
    else:
        for answer in answers:
            print(plain(answer.text))
            if answer.verdict == WAITS and answer.reason is not None and output == "wide":
                print(f"  {plain(answer.reason.message)}")
    if not exit_status:
        return 0
    verdicts = {answer.verdict for answer in answers}
    worst = next(verdict for verdict in (WAITS, EVICTS, RUNS) if verdict in verdicts)
    return EXIT_STATUS[worst]


def _objects_in(paths: Sequence[str], opened: Opened) -> Iterator[tuple[str, str]]:
    """(kind, key) of the objects in these files or folders."""
    folders = tuple(path.rstrip("/") + "/" for path in paths)
    for subject, position in opened.case.sources.items():
        kind, _, key = subject.partition(" ")
        if position.path in paths or position.path.startswith(folders):
            yield kind, key


def _added(paths: Sequence[str], opened: Opened) -> list[str]:
    """The objects in these files that are a part of the cluster, as nodes and queues are; the workload's namespace is
    not, nor are the priority classes that every installation has."""
    usual = NAMESPACED | {"Namespace"}
    found = [(kind, key) for kind, key in _objects_in(paths, opened) if kind not in usual]
    return [f"{kind} {key}" for kind, key in found if kind != "PriorityClass" or key not in SHIPPED_CLASSES]


def _workloads_in(paths: Sequence[str], opened: Opened) -> list[Workload]:
    """The workloads whose pods come from these files or folders."""
    found: dict[str, Workload] = {}
    for kind, key in _objects_in(paths, opened):
        if kind == "Pod":
            group = opened.workloads.pods.get(key, "")
            pod = opened.trials.cluster.pods.get(key)
            if group and pod is not None and pod.scheduler == opened.case.config.scheduler_name:
                found[group] = opened.workloads.of(group)
    return sorted(found.values(), key=lambda each: (each.namespace, each.name))


def print_difference(opened: Opened, output: str) -> None:
    """Print what the changes of the cluster come to."""
    assert opened.before is not None  # the caller has changes
    before, after = opened.before.base, opened.trials.base
    old = workloads_of(opened.before.cluster)
    found = difference(before, after, old, opened.workloads, opened.case.now_ns or 0)
    if output == HTML:
        _print_page(opened, found.texts, None)
    else:
        _print_texts(found, output)


def _print_texts(found: Difference, output: str) -> None:
    if output in ("json", "yaml"):
        _print_data(answers_json.difference_document(found), output)
    else:
        for text in found.texts:
            print(plain(text))


def run_plan_diff(paths: Sequence[str], plans: Sequence[bytes], output: str) -> int:
    """Print what differs between two plans that ``simulate -o json`` has printed; returns the exit status."""
    try:
        before, after = (read_plan(path, data) for path, data in zip(paths, plans, strict=True))
    except FieldError as error:
        print_error(error)
        return BAD_INPUT
    _print_texts(plan_difference(before, after), output)
    return 0


def _print_page(opened: Opened, changes: Sequence[str], answer: Explanation | None) -> None:
    """The page of the first cycle of the cluster with its changes."""
    from kai_sched.cli.html_page import DecidedCase, PageExtras, write_page

    trials, case = opened.trials, opened.case
    first = trials.base.first
    whole = overview(trials.cluster, first, case.config, trials.now_ns)
    decided = DecidedCase(case, trials.cluster, first, trials.now_ns, whole)
    write_page(decided, f"as of {minute(trials.now_ns)}", PageExtras(changes, answer))


def run_diff(paths: Sequence[str], inputs: Sequence[Input], output: str) -> int:
    """Print what differs between the plans of two clusters; returns the exit status."""
    named = [
        replace(each, as_of=each.as_of and plain(f"{each.as_of} ({FilePosition(path)})"))
        for path, each in zip(paths, inputs, strict=True)
    ]
    before, after = (_opened(each, ChangeOptions()) for each in named)
    if before is None or after is None:
        return BAD_INPUT
    print_difference(replace(after, before=before.trials), output)
    return 0


def _print_data(document: object, output: str) -> None:
    if output == "json":
        sys.stdout.buffer.write(encode(document) + b"\n")
    else:
        sys.stdout.write(to_yaml(document))
