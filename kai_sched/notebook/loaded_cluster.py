"""``load`` and ``LoadedCluster``: a cluster that answers questions, and changed copies of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from os import PathLike, fspath
from typing import TYPE_CHECKING

from kai_sched import library
from kai_sched.answers.changes import AddNodes, Change, Drain, Remove, SetQueue, Uncordon, changed
from kai_sched.answers.words import count, minute
from kai_sched.answers.workloads import Workload, Workloads, workloads_of
from kai_sched.cycle.world.pods import SECOND_NS, World, advance, settled_states
from kai_sched.files.load import SimulationCase
from kai_sched.files.run_times import Deadline, WorkloadName
from kai_sched.model.config import Config
from kai_sched.model.objects import Object
from kai_sched.model.problems import Problem
from kai_sched.model.store import TABLES, Cluster, Store
from kai_sched.notebook import arguments
from kai_sched.notebook.inputs import Inputs, Source, read_source, warn
from kai_sched.notebook.results import SimulationResult
from kai_sched.report.json import Cycle
from kai_sched.solver import jit
from kai_sched.telemetry.progress import Progress

# These import the solver, which must not happen before it is chosen how it runs.
if TYPE_CHECKING:
    from kai_sched.answers.trial import Trials
    from kai_sched.answers.when import RunTime
    from kai_sched.notebook.question_results import DifferenceResult, ExplanationResult, FitResult

# Cycles that an answer takes, about: whether compiled kernels are worth loading depends on it.
CYCLES_OF_AN_EXPLANATION = 300
CYCLES_OF_A_FIT = 8
_WORLD = World(SECOND_NS, revives=False, restarts_clocks=False, keeps_devices=False)
Now = datetime | str | None
RunTimeLike = timedelta | float


def load(source: Source, *, config: str | PathLike[str] | None = None, all_shards: bool = False) -> LoadedCluster:
    """Read a cluster from files or objects, to simulate, explain and change it.

    Parameters
    ----------
    source
        The path of a file or a folder (YAML, JSON, a dump, a snapshot archive; also with .gz), the content of a file
        as bytes, a Kubernetes object as a dictionary, or a list of these: together they are one cluster.
    config
        The path of a scheduler config file or of a SchedulingShard, which overrides the configs in the files.
    all_shards
        Whether all SchedulingShards of the cluster are decided, each by itself.

    Raises
    ------
    TypeError, ValueError
        For what is none of these forms.
    InputError
        A ValueError, for files and objects that cannot be used; its ``problems`` are all findings.

    Warns
    -----
    InputWarning
        Once, where something about the input is doubtful; ``LoadedCluster.problems`` has all of it.
    """
    inputs = replace(read_source(source), config=None if config is None else fspath(config), all_shards=all_shards)
    case, problems = inputs.read()
    cluster = case.store.cluster()
    now_ns = time.time_ns() if case.now_ns is None else case.now_ns
    warn(problems)
    of_case = (case.deadlines, _kueue(case), case.shards)
    return LoadedCluster(inputs, case.path, cluster, cluster, case.config, now_ns, problems, *of_case)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LoadedCluster:
    """A cluster that answers questions. It never changes: ``with_queue`` and the like return a changed copy.

    Attributes
    ----------
    cluster, config
        What ``run_cycle`` takes, in scheduler units.
    problems
        Warnings about the input.
    """

    _inputs: Inputs
    _path: str
    _read: Cluster  # without the changes
    cluster: Cluster
    config: Config
    _now_ns: int
    problems: tuple[Problem, ...]
    _deadlines: Mapping[WorkloadName, Deadline]
    _suspended: tuple[bool, ...]  # workloads without pods: whether Kueue suspended each
    _shards: tuple[Config, ...]  # of the files

    @property
    def now(self) -> datetime:
        """The time at which it is looked at by default, in UTC: that of the dump, or the newest in the objects."""
        return arguments.moment(self._now_ns)

    def simulate(self, now: Now = None, cycles: int = 1) -> SimulationResult:
        """What the scheduler decides.

        Parameters
        ----------
        now
            The time of the first cycle: a datetime with a time zone, or a text such as "2026-01-31T12:00:00Z".
        cycles
            How many follow each other, each a second after the one before and on what that one made of the cluster.
        """
        cycles = arguments.whole("cycles", cycles)
        now_ns = self._time(now)
        self._choose_solver(cycles)
        from kai_sched.cycle.shards import AllShards

        store = Store.of(self.cluster)
        shards = AllShards(self._shards if self.config.node_pools else (self.config,), library.decide, library.count)
        following = shards.begin()
        found = []
        for _ in range(cycles):
            view = store.cluster()
            result = following.decide(view, now_ns)
            advance(store, view, result, now_ns, _WORLD)
            found.append(Cycle(view, result, settled_states(result, store.cluster()), now_ns, self._suspended))
            now_ns += SECOND_NS
        return SimulationResult(found, self.config, self._path, self.problems)

    def explain(self, name: str, now: Now = None, run_times: Mapping[str, RunTimeLike] = {}) -> ExplanationResult:
        """Why a workload waits, and what would start it.

        Parameters
        ----------
        name
            "name", "namespace/name", "kind/name", the name of its PodGroup or of one of its pods, or a part of the name
            that no other has.
        now
            The time of the question.
        run_times
            How long workloads run from their start, by name: a timedelta, or seconds.
        """
        trials = self._trials(now, CYCLES_OF_AN_EXPLANATION)
        from kai_sched.answers.explain.explanation import explain
        from kai_sched.notebook.question_results import explanation_result

        workloads = workloads_of(self.cluster)
        with arguments.plain_errors():
            asked = workloads.find(arguments.text("name", name))
            known = self._run_times(workloads, run_times)
        return explanation_result(explain(trials, asked, workloads, known))

    def fit(self, source: Source, now: Now = None) -> FitResult:
        """Whether the workloads of these files or objects, which the cluster does not have yet, would run in it."""
        more = read_source(source, self._inputs.paths)
        added = self._with(more, replaces=False)
        workloads = workloads_of(added.cluster)
        asked = added._new_workloads(self.cluster, workloads)
        if not asked:
            names = ", ".join(more.paths)
            raise ValueError(
                f"no pod for {self.config.scheduler_name} in {names}: give files or objects with workloads"
            )
        trials = added._trials(now, CYCLES_OF_A_FIT)
        from kai_sched.answers.fit import fit
        from kai_sched.notebook.question_results import FitResult

        return FitResult(fit(trials, asked, workloads))

    def diff(self, other: LoadedCluster, now: Now = None) -> DifferenceResult:
        """What differs between the plans of this cluster and of another one, once both have settled."""
        if not isinstance(other, LoadedCluster):
            raise TypeError(f"diff takes a loaded cluster, not {type(other).__name__}: write diff(load(...))")
        before, after = (each._trials(now, CYCLES_OF_A_FIT) for each in (self, other))
        from kai_sched.answers.difference import difference
        from kai_sched.notebook.question_results import difference_result

        old, new = workloads_of(self.cluster), workloads_of(other.cluster)
        return difference_result(difference(before.base, after.base, old, new, after.now_ns))

    def with_queue(
        self,
        name: str,
        *,
        gpu_quota: float | None = None,
        gpu_limit: float | None = None,
        gpu_weight: float | None = None,
        cpu_quota: float | str | None = None,
        cpu_limit: float | str | None = None,
        cpu_weight: float | None = None,
        memory_quota: float | str | None = None,
        memory_limit: float | str | None = None,
        memory_weight: float | None = None,
    ) -> LoadedCluster:
        """A copy in which the queue has these amounts; what is not given stays.

        GPUs are in devices, CPU in cores or as a quantity ("500m"), memory in bytes or as a quantity ("512Gi").
        ``math.inf`` is unlimited.
        """
        amounts = {
            "gpu_quota": gpu_quota,
            "gpu_limit": gpu_limit,
            "gpu_weight": gpu_weight,
            "cpu_quota": cpu_quota,
            "cpu_limit": cpu_limit,
            "cpu_weight": cpu_weight,
            "memory_quota": memory_quota,
            "memory_limit": memory_limit,
            "memory_weight": memory_weight,
        }
        queue = arguments.text("name", name)
        given = [
            SetQueue(queue, *_share_and_field(key), arguments.amount(key, value))
            for key, value in amounts.items()
            if value is not None
        ]
        if not given:
            raise ValueError(f"nothing to change about queue {name!r}: give at least one of {', '.join(amounts)}")
        return self._changed(given)

    def with_nodes(self, count: int, *, like: str) -> LoadedCluster:
        """A copy with so many more nodes that have what the node ``like`` has, and are ready and empty."""
        return self._changed([AddNodes(arguments.whole("count", count), arguments.text("like", like))])

    def drain(self, node: str) -> LoadedCluster:
        """A copy in which the node is cordoned, and the pods of this scheduler on it are created again and wait."""
        return self._changed([Drain(arguments.text("node", node), self.config.scheduler_name)])

    def uncordon(self, node: str) -> LoadedCluster:
        """A copy in which the node accepts pods: it is schedulable and ready."""
        return self._changed([Uncordon(arguments.text("node", node))])

    def without(self, workload: str) -> LoadedCluster:
        """A copy without the workload, as if it had ended; named as for ``explain``."""
        with arguments.plain_errors():
            found = workloads_of(self.cluster).find(arguments.text("workload", workload))
        return self._changed([Remove(found.group)])

    def with_objects(self, source: Source) -> LoadedCluster:
        """A copy with these objects; they take the place of those of the same kind and name, or are new."""
        found = self._with(read_source(source, self._inputs.paths), replaces=True)
        warn(found.problems[len(self.problems) :])
        return found

    def _with(self, more: Inputs, replaces: bool) -> LoadedCluster:
        """A copy with more inputs: what they change about the cluster as it was read is changed about this one."""
        inputs = self._inputs.add(more, replaces)
        case, problems = inputs.read()
        whole, store = case.store.cluster(), Store.of(self.cluster)
        for kind in TABLES:
            old: Mapping[str, Object] = self._read.table(kind)
            new: Mapping[str, Object] = whole.table(kind)
            for key in old.keys() - new.keys():
                store.remove(kind, key)
            for key, item in new.items():
                if old.get(key) != item:
                    store.put(item)
        fresh = tuple(each for each in problems if each not in self.problems)
        return replace(
            self,
            _deadlines=case.deadlines,
            _suspended=_kueue(case),
            _inputs=inputs,
            _read=whole,
            cluster=store.cluster(),
            problems=(*self.problems, *fresh),
        )

    def _new_workloads(self, before: Cluster, workloads: Workloads) -> Sequence[Workload]:
        """The workloads with pods for this scheduler that ``before`` did not have."""
        groups = {
            workloads.pods[key]
            for key, pod in self.cluster.pods.items()
            if key not in before.pods and pod.scheduler == self.config.scheduler_name
        }
        return sorted((workloads.of(group) for group in groups), key=lambda each: (each.namespace, each.name))

    def _changed(self, changes: Iterable[Change]) -> LoadedCluster:
        with arguments.plain_errors():
            return replace(self, cluster=changed(self.cluster, changes).cluster())

    def _trials(self, now: Now, cycles: int) -> Trials:
        now_ns = self._time(now)
        self._choose_solver(cycles)
        from kai_sched.answers.trial import Trials

        return Trials(self.cluster, self.config, now_ns, library.decide, self._shards, library.count)

    def _run_times(self, workloads: Workloads, given: Mapping[str, RunTimeLike]) -> dict[str, RunTime]:
        """By key of a group: the deadlines of the input, and what the caller says."""
        from kai_sched.answers.when import RunTime, deadline_run_times

        found = deadline_run_times(self._deadlines.items(), workloads)
        for name, run_time in given.items():
            group = workloads.find(arguments.text("run_times", name)).group
            found[group] = RunTime(arguments.seconds(f"the run time of {name}", run_time), True)
        return found

    def _time(self, now: Now) -> int:
        return self._now_ns if now is None else arguments.time_ns(now)

    def _choose_solver(self, cycles: int) -> None:
        if not jit.decided() and not jit.warm():
            effort_s = library.effort_s(self.cluster, self.config.actions) * cycles
            library.choose(effort_s, len(self.cluster.nodes), library.AUTO, Progress(sys.stderr))

    def __repr__(self) -> str:
        whole = self.cluster
        parts = (count(len(whole.nodes), "node"), count(len(whole.queues), "queue"), count(len(whole.pods), "pod"))
        return f"<LoadedCluster {self._path}: {', '.join(parts)}, as of {minute(self._now_ns)}>"


def _share_and_field(name: str) -> tuple[str, str]:
    """ "gpu_quota" is the field "quota" of the share "gpu"."""
    share, _, field = name.partition("_")
    return share, field


def _kueue(case: SimulationCase) -> tuple[bool, ...]:
    return tuple(each.by_kueue for each in case.suspended)
