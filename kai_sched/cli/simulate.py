"""``kai-sched simulate``: the cycles that are run on clusters from files, what is printed, and the exit status."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kai_sched import library
from kai_sched.answers.selection import Selection
from kai_sched.answers.words import count
from kai_sched.cli.inputs import BAD_INPUT, HTML, Input, InputOptions, print_error, read_input
from kai_sched.cycle.world.pods import World, advance, restart_clocks, settled_states
from kai_sched.files.load import SimulationCase
from kai_sched.model.field_errors import FieldError
from kai_sched.model.problems import Problem
from kai_sched.report import json
from kai_sched.report.columns import Line
from kai_sched.report.console import width_of_terminal, write_lines
from kai_sched.report.json import Cycle
from kai_sched.report.text import plain
from kai_sched.solver import jit
from kai_sched.telemetry.progress import Progress

DATA = ("json", "yaml")
# About so many cycles the explanations on a page take: whether compiled kernels are worth loading depends on it.
CYCLES_OF_A_PAGE = 1000
RECORDS = ("name", "csv")  # nothing but a line for each workload is printed


@dataclass(frozen=True, slots=True)
class Shown:
    """What of a cluster is shown, and how.

    Attributes
    ----------
    output
        One of the formats of ``--output``.
    everything
        Running and finished workloads as well.
    pending
        Only what waits.
    namespace, queue, labels
        Only workloads of this namespace, of this queue or one below it, and with these labels (key=value); "" for all.
    sort
        How workloads are sorted: "age", "name", "queue" or "gpus".
    headers
        Whether tables have titles.
    """

    output: str = "table"
    everything: bool = False
    pending: bool = False
    namespace: str = ""
    queue: str = ""
    labels: str = ""
    sort: str = "age"
    headers: bool = True


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """The options of the command; ``cycles`` is None where it was not given."""

    input: InputOptions
    cycles: int | None = None
    shown: Shown = Shown()


def simulate(options: SimulateOptions) -> int:
    """Run the command; returns the exit status."""
    # Names that the encoding of the terminal cannot show must not stop the command.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    progress = Progress(sys.stderr)
    cycles = CYCLES_OF_A_PAGE if options.shown.output == HTML else 1
    found = read_input(options.input, max(options.cycles or 1, cycles), progress)
    if found is None:
        return BAD_INPUT
    if found.as_of and options.shown.output not in ("table", "wide"):
        print(found.as_of, file=sys.stderr)
    try:
        if options.shown.output in DATA:
            for flag in (flag for flag, is_given in _choices(options.shown).items() if is_given):
                raise FieldError(flag, f"{options.shown.output} has the whole plan: omit it, or another --output")
        if options.shown.output == HTML and len(found.cases) > 1:
            names = f"the input has {len(found.cases)} clusters: name one"
            raise FieldError("--output", f"a page shows one cluster, and {names}")
        if options.input.changes.any:
            return _simulate_changes(found, options)
        for case in found.cases:
            case = replace(case, cycles=options.cycles or case.cycles)
            _print(case, options.shown, found, len(found.cases) > 1, progress)
            sys.stdout.flush()
    except FieldError as error:
        print_error(error)
        return BAD_INPUT
    return 0


def _simulate_changes(found: Input, options: SimulateOptions) -> int:
    from kai_sched.cli.questions import open_case, print_difference

    _refuse_choices(options)
    print_difference(open_case(found, options.input.changes), options.shown.output)
    return 0


def _refuse_choices(options: SimulateOptions) -> None:
    """What chooses from a table has no meaning for a difference. Raises FieldError."""
    given = {
        "--output": options.shown.output in RECORDS,
        **_choices(options.shown),
        "--cycles": options.cycles is not None,
    }
    for flag in (flag for flag, is_given in given.items() if is_given):
        raise FieldError(flag, "changes are printed as a difference, of all workloads once they have settled: omit it")


def _choices(shown: Shown) -> dict[str, bool]:
    """By flag that chooses from a table, whether it was given."""
    return {
        "--all": shown.everything,
        "--pending": shown.pending,
        "--namespace": bool(shown.namespace),
        "--queue": bool(shown.queue),
        "--selector": bool(shown.labels),
        "--sort": shown.sort != Shown().sort,
        "--no-headers": not shown.headers,
    }


def _print(case: SimulationCase, shown: Shown, found: Input, one_of_many: bool, progress: Progress) -> None:
    if shown.output in DATA:
        _print_data(case, shown.output, found.problems, progress)
        return
    if shown.output == HTML:
        _print_page(case, shown, found, progress)
        return
    write_lines(sys.stdout, tables(case, shown, found.as_of, one_of_many, progress))


def _decide(case: SimulationCase, settle_last: bool, progress: Progress) -> Iterator[Cycle]:
    """Run the cycles of the case. The last one's effects are applied to the store only with ``settle_last``."""
    from kai_sched.cycle.shards import AllShards

    step_ns = round(case.seconds_between_cycles * 1e9)
    world = World(step_ns, case.keeps_terminating, *[case.is_scenario] * 3)
    cluster, now_ns = case.store.cluster(), case.now_ns or 0
    cycles = AllShards(case.decided, library.decide, library.count).begin()
    if world.restarts_clocks:
        restart_clocks(case.store, cluster.pod_groups, cluster.pods, now_ns)
    work = f"scheduling {count(len(cluster.pods), 'pod')} on {count(len(cluster.nodes), 'node')}"
    if jit.interpreted():
        work += " with the interpreted solver (--solver compiled is faster for large clusters)"
    for number in range(1, case.cycles + 1):
        cluster = case.store.cluster()
        with progress.step(work if case.cycles == 1 else f"{work}, cycle {number} of {case.cycles}"):
            result = cycles.decide(cluster, now_ns, remember=step_ns > 0 or not case.is_scenario)
            settle = settle_last or number < case.cycles
            if settle:
                advance(case.store, cluster, result, now_ns, world)
            settled = settled_states(result, case.store.cluster()) if settle_last else {}
        yield Cycle(cluster, result, settled, now_ns, tuple(each.by_kueue for each in case.suspended))
        now_ns += step_ns


def _print_data(case: SimulationCase, output: str, problems: Sequence[Problem], progress: Progress) -> None:
    """The case as one line of JSON, or one YAML document."""
    documents = (
        json.cycle_document(cycle, None if case.is_scenario else case.config) for cycle in _decide(case, True, progress)
    )
    shown = None if case.is_scenario else problems
    if output == "json":
        # Encoded cycle by cycle, so that only one of them is ever there as objects.
        cycles = [json.encoded(document) for document in documents]
        sys.stdout.buffer.write(json.encode(json.document(case.path, case.name, cycles, shown)) + b"\n")
    else:
        sys.stdout.write(json.to_yaml(json.document(case.path, case.name, list(documents), shown)))


def _print_page(case: SimulationCase, shown: Shown, found: Input, progress: Progress) -> None:
    """The page of the last cycle."""
    from kai_sched.answers.overview import overview
    from kai_sched.answers.selection import selected
    from kai_sched.cli.html_page import DecidedCase, write_page

    *_, last = _decide(case, False, progress)
    whole = overview(last.cluster, last.result, case.config, last.now_ns, last.suspended)
    chosen = selected(whole, _selection(shown), last.cluster)
    write_page(DecidedCase(case, last.cluster, last.result, last.now_ns, chosen), found.as_of)


def _selection(shown: Shown) -> Selection:
    return Selection(shown.namespace, shown.queue, shown.labels, shown.pending, shown.sort)


def tables(case: SimulationCase, shown: Shown, as_of: str, one_of_many: bool, progress: Progress) -> Iterator[Line]:
    """A line for each cycle but the last, and what the last one comes to."""
    from kai_sched.answers.overview import overview
    from kai_sched.answers.selection import selected
    from kai_sched.report.overview_text import TableView, csv_lines, cycle_text, evictions, name_lines, overview_lines

    wide, titled = shown.output == "wide", shown.output not in RECORDS
    view = TableView(None if wide else width_of_terminal(), wide, shown.everything, shown.headers, as_of)
    if one_of_many and titled:
        yield [(plain(f"{case.name} ({case.path})"), "bold underline")]
    wanted = _selection(shown)
    for number, cycle in enumerate(_decide(case, False, progress), 1):
        whole = overview(cycle.cluster, cycle.result, case.config, cycle.now_ns, cycle.suspended)
        found = selected(whole, wanted, cycle.cluster)
        if number < case.cycles:
            if titled:
                yield [(f"Cycle {number}: {cycle_text(whole)}", "")]
                yield from evictions(found, view)
            continue
        if case.cycles > 1 and titled:
            yield []
        match shown.output:
            case "name":
                yield from name_lines(found, shown.everything)
            case "csv":
                yield from csv_lines(found, shown.headers)
            case _:
                yield from overview_lines(found, view, cycle.cluster, cycle.result)
    if one_of_many and titled:
        yield []
