"""From named files to clusters: which objects form one cluster, which files are scenarios, and what is reported about
the input.

All plain objects together form one cluster; each scenario forms one of its own.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from kai_sched.api import names
from kai_sched.files.admission import admission_problems
from kai_sched.files.claim_templates import with_claims
from kai_sched.files.dump_info import DumpInfo
from kai_sched.files.ephemeral_claims import with_ephemeral_claims
from kai_sched.files.errors import BrokenInput
from kai_sched.files.expanded import Expanded, SuspendedWorkload, has_work
from kai_sched.files.input_problems import answer_problem, idle_files, pool_problems, second_dump, unread_kinds
from kai_sched.files.input_time import TimeSource, newest_time_ns
from kai_sched.files.items import Item, problem_in, read_items, unfold, warner, without_older
from kai_sched.files.past_usage import pasts_of_shards
from kai_sched.files.reading import read_with_faults
from kai_sched.files.run_times import Deadline, WorkloadName, deadlines
from kai_sched.files.scenario import SCENARIO, read_scenario, unplaced
from kai_sched.files.settings import Overlay, cluster_config, read_overlay
from kai_sched.files.sources import FilePosition, read_bytes
from kai_sched.files.strict import name_problems
from kai_sched.model.checks import QUEUE_FIELD, limited, problems_of
from kai_sched.model.config import CLUSTER, Config
from kai_sched.model.field_errors import FieldError, shown
from kai_sched.model.garbage import collector_paused
from kai_sched.model.objects import Queue
from kai_sched.model.problems import Problem
from kai_sched.model.read.kinds import GROUPING, KINDS, OPERATOR_CONFIG, POD, SHARD, Kind, Reader
from kai_sched.model.store import Store
from kai_sched.reconcile.admission.review import AdmissionSettings
from kai_sched.reconcile.past_usage import PoolPast, past_of
from kai_sched.telemetry.pace import Pace

if TYPE_CHECKING:
    from kai_sched.reconcile.grouping.manifest import QueueChoice

CLUSTER_NAME = "cluster"
FIT = "Fit"  # the kind of the items of a FitList, which do not say it
ANSWERS = frozenset((names.ANSWER_VERSION, kind) for kind in (*names.ANSWER_KINDS, FIT))
ITEMS_BETWEEN_REPORTS = 1000


@dataclass(frozen=True, slots=True)
class SimulationCase:
    """A cluster to simulate, with its config and its cycles.

    Attributes
    ----------
    path
        The file as it was named; the first one, if several form the cluster.
    now_ns
        The time of the first cycle, in nanoseconds since the epoch; None if the files do not say.
    now_source
        Where that time is from; CLOCK where the caller has to give one.
    keeps_terminating
        Names of pod groups whose evicted pods stay Releasing.
    pasts
        What queues used before: what was kept for each shard that is decided.
    sources
        The position of each object in the files, by subject ("Pod ml/train-0").
    dump
        What the dump or the snapshot archive says that the objects are from; None for plain objects.
    suspended
        Workloads without pods, as they are suspended; by kind, namespace and name.
    deadlines
        How long workloads run at most.
    shards
        The settings of each SchedulingShard, in the order of their names. All are decided where ``config`` is that of
        all of them (``Config.node_pools``).
    """

    path: str
    name: str
    is_scenario: bool
    store: Store
    config: Config
    cycles: int = 1
    now_ns: int | None = None
    seconds_between_cycles: float = 1.0
    keeps_terminating: frozenset[str] = frozenset()
    pasts: tuple[PoolPast, ...] = ()
    sources: Mapping[str, FilePosition] = field(default_factory=dict)
    now_source: TimeSource = TimeSource.CLOCK
    dump: DumpInfo | None = None
    suspended: tuple[SuspendedWorkload, ...] = ()
    deadlines: Mapping[WorkloadName, Deadline] = field(default_factory=dict)
    shards: tuple[Config, ...] = ()

    @property
    def decided(self) -> tuple[Config, ...]:
        """The settings of each shard that is decided."""
        return self.shards if self.config.node_pools else (self.config,)

    @property
    def actions(self) -> tuple[str, ...]:
        """The actions to run, in their order."""
        return self.config.actions


@dataclass(frozen=True, slots=True)
class Loaded:
    """``cases`` in the order of the files. With a fatal problem they are incomplete and must not be used."""

    cases: tuple[SimulationCase, ...]
    problems: tuple[Problem, ...]

    @property
    def fatal(self) -> bool:
        """Whether some problem stops the command."""
        return any(problem.fatal for problem in self.problems)


def load(
    paths: Sequence[str],
    *,
    stdin: BinaryIO | None = None,
    config: str | None = None,
    settings: Mapping[str, Any] = {},
    contents: Mapping[str, bytes] = {},
    newer: Collection[str] = (),
    all_shards: bool = False,
    on_progress: Callable[[str], None] | None = None,
) -> Loaded:
    """Read all clusters and check them (``model.checks``).

    Bad input raises nothing: it is reported in ``problems``. Raises TypeError for ``paths`` that are no list of texts.

    Parameters
    ----------
    paths
        Files, folders, and "-" for ``stdin``.
    stdin
        The standard input; that of the process by default.
    config
        Path of a scheduler config file or of a SchedulingShard. It overrides the configs in the files.
    settings
        Fields of Config that override all others.
    contents
        What is read in place of the files of these names: a cluster that was read from its API server.
    newer
        Files and folders whose objects take the place of those of the same kind and name in others. Else an object
        that is there twice is an error.
    all_shards
        Decide for all SchedulingShards in the files, each by itself.
    on_progress
        Called with a text once the work takes seconds.
    """
    if isinstance(paths, str | bytes | os.PathLike):
        raise TypeError(f"load takes a list of paths: write load([{str(paths)!r}])")
    if wrong := [path for path in paths if not isinstance(path, str)]:
        raise TypeError(f"load takes paths as texts, not {shown(wrong[0])}: write str(...)")
    with collector_paused():
        problems: list[Problem] = []
        of_file = _overlay(config, stdin or sys.stdin.buffer, problems)
        overlay: Overlay = lambda base: replace(of_file(base), **settings)  # noqa: E731
        given = _Settings(overlay, all_shards)
        return _load(paths, stdin or sys.stdin.buffer, given, problems, contents, newer, Pace(on_progress))


@dataclass(frozen=True, slots=True)
class _Settings:
    """What the caller says of settings: a function that changes those of the files, and whether all shards count."""

    overlay: Overlay
    all_shards: bool


def _load(
    paths: Sequence[str],
    stdin: BinaryIO,
    settings: _Settings,
    problems: list[Problem],
    contents: Mapping[str, bytes],
    newer: Collection[str],
    pace: Pace,
) -> Loaded:
    unread: Counter[Kind] = Counter()
    plain: list[Item] = []
    places: list[Item | None] = []  # scenarios, and None where the cluster of plain objects stands
    dumps: list[DumpInfo] = []
    answers: dict[str, str] = {}  # kinds by path
    for item in read_items(paths, stdin, pace, problems, dumps, contents):
        if item.kind in ANSWERS and item.source.path in paths:
            answers.setdefault(item.source.path, item.kind[1])
            continue
        if item.kind == SCENARIO:
            places.append(item)
            continue
        if not plain:
            places.append(None)
        plain.append(item)
    if newer:
        plain = without_older(plain, newer)
    problems.extend(answer_problem(path, kind) for path, kind in answers.items())
    is_incomplete = any(problem.fatal for problem in problems)
    if not places and not is_incomplete:
        source = str(FilePosition(paths[0])) if len(paths) == 1 else ""
        message = "no objects in the input: name files that hold Kubernetes objects"
        problems.append(Problem(source, "", "", message, fatal=True))
    if len(dumps) > 1:  # most objects are in both: to tell each of them would hide what is wrong
        return Loaded((), (*(problem for problem in problems if problem.fatal), second_dump(dumps)))
    cases = []
    for place in places:
        if place:
            case, items = _scenario(place, settings, problems)
        else:
            case, items = _cluster(plain, dumps, settings, problems), plain
        expanded = _expand(items, case.config, problems)
        expanded = replace(expanded, items=with_ephemeral_claims(with_claims(expanded.items, items, problems)))
        if not place:
            problems.extend(name_problems(plain, case.config.queue_label))
            case = replace(case, pasts=pasts_of_shards(plain, case.config, case.decided, problems))
        sources = _read(expanded, case, pace, problems, unread)
        if not place:
            problems += pool_problems(case.store.cluster(), case.config)
            pods = [item for item in expanded.items if item.kind == POD]
            _admit([*(item for item in plain if item.kind != POD), *pods], case.config, problems)
        if not place and not any(problem.fatal for problem in problems):
            problems.extend(idle_files(paths, plain, expanded.items))
        cases.append(replace(case, sources=sources, suspended=expanded.suspended, deadlines=deadlines(items)))
    problems.extend(unread_kinds(unread))
    if is_incomplete:  # what a warning misses may be in what could not be read
        problems = [problem for problem in problems if problem.fatal]
    return Loaded(tuple(cases), tuple(limited(problems)))


def _overlay(config: str | None, stdin: BinaryIO, problems: list[Problem]) -> Overlay:
    """The config file as a function that changes a config; errors become problems."""
    if config is None:
        return lambda base: base
    source = str(FilePosition(config))
    try:
        change = read_overlay(config, read_bytes(config, stdin), problems)
    except BrokenInput as error:
        problems.append(Problem(source, "", "", str(error), fatal=True))
        return lambda base: base

    def apply(base: Config) -> Config:
        try:
            return change(base)
        except FieldError as error:
            problems.append(Problem(source, "", error.field, error.message, fatal=True))
            return base

    apply(Config())
    return apply


def _cluster(
    items: Sequence[Item], dumps: Sequence[DumpInfo], settings: _Settings, problems: list[Problem]
) -> SimulationCase:
    """The case of the plain objects, at the time of their dump, or else at the newest time in them."""
    dump = dumps[0] if dumps else None
    found = cluster_config(items, dump, problems, settings.all_shards)
    config, shards = settings.overlay(found.config), found.shards
    if settings.all_shards:
        shards = tuple(settings.overlay(each) for each in shards)
    now_ns, source = (dump.time_ns, TimeSource.DUMP) if dump else (None, TimeSource.CLOCK)
    if now_ns is None:
        now_ns = newest_time_ns(items)
        source = TimeSource.CLOCK if now_ns is None else TimeSource.NEWEST
    path = items[0].source.path
    case = SimulationCase(path, CLUSTER_NAME, False, Store(), config, now_ns=now_ns, now_source=source)
    return replace(case, dump=dump, shards=shards)


def _scenario(item: Item, settings: _Settings, problems: list[Problem]) -> tuple[SimulationCase, list[Item]]:
    place = item.source
    if settings.all_shards:
        problems.append(problem_in(item, "", "--all-shards is not for a scenario, which is one shard", fatal=True))
    case = SimulationCase(place.path, "", True, Store(), Config())
    try:
        scenario = read_scenario(item.raw, warner(item, problems))
    except FieldError as error:
        problems.append(problem_in(item, error.field, error.message, fatal=True))
        return case, []
    items = [
        inner
        for number, raw in enumerate(scenario.objects, 1)
        for inner in unfold(FilePosition(place.path, place.document, number), raw, problems)
    ]
    case = replace(
        case,
        name=scenario.name,
        config=settings.overlay(scenario.config),
        cycles=scenario.cycles,
        now_ns=scenario.now_ns,
        now_source=TimeSource.CLOCK if scenario.now_ns is None else TimeSource.SCENARIO,
        seconds_between_cycles=scenario.seconds_between_cycles,
        keeps_terminating=scenario.keeps_terminating,
    )
    # It names the queues itself, so their node pools do not matter.
    past = PoolPast(replace(case.config, fair_share=CLUSTER), scenario.usage)
    return replace(case, pasts=(past,)), items


def _expand(items: Sequence[Item], config: Config, problems: list[Problem]) -> Expanded:
    """What controllers and groupers would make of the items; they are imported only if there is work for them."""
    if not has_work(items, config):
        return Expanded(list(items))
    from kai_sched.files.workloads import expand_workloads

    return expand_workloads(items, config, problems)


def _read(
    expanded: Expanded, case: SimulationCase, pace: Pace, problems: list[Problem], unread: Counter[Kind]
) -> dict[str, FilePosition]:
    """Fill the store of the case; returns where each object came from. What is wrong, singly and together, is noted."""
    items = expanded.items
    reader = Reader(case.config)
    sources: dict[str, FilePosition] = {}
    faulty: set[str] = set()  # subjects; what they are without their wrong fields is not judged
    for number, item in enumerate(items):
        if number % ITEMS_BETWEEN_REPORTS == 0:
            pace.tick(f"reading {item.source.path}: {number:,} of {len(items):,} objects")
        if item.kind not in KINDS:
            if item.kind not in (SHARD, OPERATOR_CONFIG, *GROUPING):
                unread[item.kind] += 1
            continue
        found, faults = read_with_faults(partial(reader.read, item.kind), item.raw, warner(item, problems))
        problems.extend(problem_in(item, error.field, error.message, fatal=True) for error in faults)
        if found is None:
            continue
        subject = f"{item.kind[1]} {found.key}"
        first = sources.setdefault(subject, item.source)
        if first is not item.source:
            message = f"already defined in {first}: remove one of them"
            problems.append(Problem(str(item.source), subject, "", message, fatal=True))
            continue
        if faults:
            faulty.add(subject)
        if isinstance(found, Queue):
            found = replace(found, usage=past_of(found, case.pasts))
        case.store.put(unplaced(found) if case.is_scenario else found)
    if items and not sources and not any(problem.fatal for problem in problems):
        message = "it has no object that the scheduler uses: name files with nodes, queues, pod groups and pods"
        problems.append(Problem(case.path, "", "", message, fatal=True))
    for problem in problems_of(case.store.cluster(), case.config):
        if problem.subject in faulty:
            continue
        source = sources.get(problem.subject)
        queue = expanded.queues.get(problem.subject)
        if queue is not None and problem.field == QUEUE_FIELD:
            problem = _as_written(problem, queue, case.config.queue_label)
        problems.append(replace(problem, source=str(source)) if source else problem)
    return sources


def _admit(items: Sequence[Item], config: Config, problems: list[Problem]) -> None:
    """Add what admission says, in place of warnings about the objects that it refuses.

    What it says of objects that could not be read is left out: that is told already.
    """
    settings = AdmissionSettings(gpu_sharing=config.gpu_sharing).with_names(config)
    failed = {problem.subject for problem in problems if problem.fatal}
    found = [each for each in admission_problems(items, settings) if each.subject not in failed]
    refused = {problem.subject for problem in found if problem.fatal}
    problems[:] = [problem for problem in problems if problem.subject not in refused] + found


def _as_written(problem: Problem, queue: QueueChoice, label: str) -> Problem:
    """The problem of a group's queue, reported for the object that names the queue, or that should."""
    if queue.field:
        return replace(problem, subject=queue.subject, field=queue.field)
    message = f"the label is missing, and {problem.message}"
    return replace(problem, subject=queue.subject, field=f"metadata.labels[{label}]", message=message)
