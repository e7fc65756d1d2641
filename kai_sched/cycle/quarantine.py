"""Which objects are left out of cycles because they make them fail: how they are found, for how long they stay out, and
what such a search may cost.

Errors that lowering reports name their objects (``lowering.errors``). For all other errors, cycles run without half of
the suspects, then without half of that half, and so on: first the objects that are tried again, then those that changed
since the last cycle that succeeded, then all. That takes about twenty cycles for one object, each on a new cache.

An error is raised as it is if it does not occur again, if no object causes it, or if it is a MemoryError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from kai_sched.cycle.left_out import Exclusions, explained, leave_out, view_without
from kai_sched.cycle.lift import Lifted
from kai_sched.cycle.run import run_cycle
from kai_sched.lowering.cache import Cache
from kai_sched.lowering.errors import LoweringError
from kai_sched.model.config import Config
from kai_sched.model.hints import NO_HINTS, SchedulingHints
from kai_sched.model.objects import (
    BindRequest,
    Node,
    Object,
    Pod,
    PodGroup,
    Queue,
    StorageClass,
    Volume,
    VolumeClaim,
)
from kai_sched.model.store import Change, Cluster
from kai_sched.plan.result import CycleResult

RETRY_S = 300.0  # how often an object that did not change is tried again
FIRST_PAUSE_S = 2.0  # for an object that changes and fails repeatedly; doubles up to RETRY_S
ROUNDS_MAX = 20  # cycles in a row in which lowering may name further objects
TRIALS_MAX = 200  # cycles of one search
SEARCH_MAX_S = 60.0  # no trial of a search begins later
SEARCH_PAUSE_S = 60.0  # after a search without a finding
# Kinds that may be left out, in the order in which they are suspected. Without an object of any other kind, pods could
# be placed where they must not run.
SUSPECTS: tuple[type[Object], ...] = (
    Pod,
    PodGroup,
    VolumeClaim,
    Volume,
    StorageClass,
    BindRequest,
    Queue,
    Node,
)

Run = Callable[..., CycleResult]


@dataclass(frozen=True, slots=True)
class Quarantined:
    """An object that is left out, as it was when it failed, and its error. Times are seconds of the timer."""

    name: Change
    item: Object
    error: Exception
    retry_at: float
    earliest_retry_at: float  # even if it changes before
    pod: Pod | None = None  # of a bind request: its pod, as it was then

    @property
    def problem(self) -> str:
        """The error in one line."""
        return f"{type(self.error).__name__}: {self.error}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a cycle, and what became of the objects in quarantine.

    Attributes
    ----------
    result
        The result; objects that it was computed without are in its ``left_out``.
    quarantined
        Objects that were left out for the first time.
    released
        Objects that are no longer left out.
    transient
        An error of the first attempt that did not occur again.
    retry_at
        When a quarantined object is to be tried again (seconds of the timer); None if there is none.
    """

    result: CycleResult
    quarantined: tuple[Quarantined, ...] = ()
    released: tuple[Change, ...] = ()
    transient: Exception | None = None
    retry_at: float | None = None


class _NoSuspectError(Exception):
    """The search ended without a further finding."""


class Quarantine:
    """Runs the cycles of one store, without the objects that make them fail. For one thread, but for ``stop``.

    ``run`` is called like ``cycle.run.run_cycle``.
    """

    def __init__(self, run: Run = run_cycle) -> None:
        self._run = run
        self._cache = Cache()
        self._quarantined: dict[Change, Quarantined] = {}
        self._failed: dict[Change, tuple[int, float]] = {}  # how often each failed, and when last
        self._last_success: tuple[object, int] = (None, -1)  # store and serial of the last cycle that succeeded
        self._names: frozenset[Change] = frozenset()
        self._keep = True  # whether quarantined pods may keep their room in the view
        self._exclusions = Exclusions(frozenset())
        self._identity: object = None  # stands for the store of all views with these exclusions
        self._search_at = 0.0
        self._stopped = False

    def stop(self) -> None:
        """End a search that is under way. May be called from another thread."""
        self._stopped = True

    def run_cycle(
        self,
        cluster: Cluster,
        config: Config,
        now_ns: int,
        timer: Callable[[], float],
        hints: SchedulingHints = NO_HINTS,
        read_all: bool = False,
    ) -> Outcome:
        """As ``run_cycle``, without the objects that make it fail.

        Parameters
        ----------
        read_all
            Read the parts of the result that are computed when they are first read, so that their errors are found too.

        Raises
        ------
        Exception
            The error of the cycle, if no object causes it.
        """
        arguments = _Arguments(self._run, cluster, config, now_ns, timer, hints, read_all)
        before = dict(self._quarantined)
        tried = self._release_due(cluster, timer())
        transient: Exception | None = None
        try:
            result = self._cycle(arguments)
        except MemoryError:
            raise
        except Exception as error:
            transient = error
            result = self._recover(arguments, error, tried)
        self._last_success = cluster.store_id, cluster.serial
        quarantined = tuple(each for name, each in self._quarantined.items() if before.get(name) is not each)
        released = tuple(name for name in before if name not in self._quarantined)
        retry_at = min((self._due(each, cluster) for each in self._quarantined.values()), default=None)
        result = self._with_left_out(result, cluster)
        if read_all:
            len(result.groups)
        return Outcome(result, quarantined, released, None if quarantined else transient, retry_at)

    def _due(self, entry: Quarantined, cluster: Cluster) -> float:
        """When the object is tried again: earlier if it has changed."""
        kind, key = entry.name
        is_same = cluster.table(kind).get(key) is entry.item
        # A bind request is left out together with its pod, and the pod may be the faulty one.
        is_same = is_same and (entry.pod is None or cluster.pods.get(entry.pod.key) is entry.pod)
        return entry.retry_at if is_same else entry.earliest_retry_at

    def _release_due(self, cluster: Cluster, now: float) -> list[Change]:
        """Take the objects out of quarantine that are to be tried again now, and those that are gone."""
        tried = []
        for name, entry in list(self._quarantined.items()):
            item = cluster.table(name[0]).get(name[1])
            if item is None:
                self._failed.pop(name, None)
            elif now < self._due(entry, cluster):
                continue
            else:
                tried.append(name)
            del self._quarantined[name]
        return tried

    def _cycle(self, arguments: _Arguments) -> CycleResult:
        """A cycle without the quarantined objects. Pods among them keep their room, unless that fails too."""
        if not self._quarantined:
            return arguments.run(arguments.cluster, self._cache)
        names = frozenset(self._quarantined)
        if names != self._names:
            self._names, self._keep = names, True
        if self._keep:
            try:
                return self._cycle_without(leave_out(arguments.cluster, names, keep=True), arguments)
            except MemoryError:
                raise
            except Exception:
                if not self._exclusions.held:
                    raise
        result = self._cycle_without(leave_out(arguments.cluster, names, keep=False), arguments)
        self._keep = False
        return result

    def _cycle_without(self, exclusions: Exclusions, arguments: _Arguments) -> CycleResult:
        if exclusions != self._exclusions or self._identity is None:
            self._exclusions, self._identity = exclusions, object()
        return arguments.run(view_without(arguments.cluster, exclusions, arguments.config, self._identity), self._cache)

    def _recover(self, arguments: _Arguments, error: Exception, tried: list[Change]) -> CycleResult:
        """A cycle without the objects that make it fail. Raises its error if there is none."""
        began = arguments.timer()
        for _ in range(ROUNDS_MAX):
            try:
                return self._cycle(arguments)
            except MemoryError:
                raise
            except Exception as again:
                error = again
                named = again.errors if isinstance(again, LoweringError) else []
                known = len(self._quarantined)
                for fault in named:
                    self._quarantine(arguments.cluster, (fault.kind, fault.key), fault.error, began)
                if len(self._quarantined) == known:
                    break
        if began >= self._search_at:
            search = _Search(arguments, self._quarantined, error, began, lambda: self._stopped)
            try:
                found = search.run(tried, self._suspects(arguments.cluster))
            except _NoSuspectError:
                found = search.found
            for name, raised in found.items():
                self._quarantine(arguments.cluster, name, raised, began)
            if found:
                return self._cycle(arguments)
            self._search_at = arguments.timer() + SEARCH_PAUSE_S
        raise error

    def _quarantine(self, cluster: Cluster, name: Change, error: Exception, now: float) -> None:
        item = cluster.table(name[0]).get(name[1])
        if item is None or name in self._quarantined:
            return
        times, last = self._failed.get(name, (0, now))
        times = times + 1 if now - last < 2 * RETRY_S else 1
        self._failed = {each: at for each, at in self._failed.items() if now - at[1] < 2 * RETRY_S}
        self._failed[name] = times, now
        pause_s = 0.0 if times == 1 else min(RETRY_S, FIRST_PAUSE_S * 2.0 ** min(times, 30))
        pod = cluster.pods.get(item.pod_key) if isinstance(item, BindRequest) else None
        self._quarantined[name] = Quarantined(name, item, error, now + RETRY_S, now + pause_s, pod)

    def _suspects(self, cluster: Cluster) -> Iterator[list[Change]]:
        """The objects that changed since the last cycle that succeeded, then all objects."""
        changes = cluster.changes_since(*self._last_success)
        if changes is not None:
            yield _ordered(changes)
        yield _ordered((kind, key) for kind in SUSPECTS for key in cluster.table(kind))

    def _with_left_out(self, result: CycleResult, cluster: Cluster) -> CycleResult:
        if not self._quarantined:
            return result
        left_out = {name: entry.problem for name, entry in self._quarantined.items()}
        groups = Lifted(partial(explained, result.groups, cluster, left_out))
        return replace(result, groups=groups, left_out=left_out)


@dataclass(frozen=True, slots=True)
class _Arguments:
    """The arguments of one cycle."""

    run_cycle: Run
    cluster: Cluster
    config: Config
    now_ns: int
    timer: Callable[[], float]
    hints: SchedulingHints
    read_all: bool

    def run(self, view: Cluster, cache: Cache, read_all: bool = False) -> CycleResult:
        result = self.run_cycle(view, self.config, self.now_ns, cache, self.timer, self.hints)
        if read_all or self.read_all:
            for made_when_read in (result.pods, result.groups, result.nodes):
                len(made_when_read)
        return result


class _Search:
    """A search for the objects that make the cycle fail, by running it without some of them.

    ``found`` are the objects found so far, each with its error. ``out`` are left out of every trial.
    """

    def __init__(
        self, arguments: _Arguments, out: Iterable[Change], error: Exception, began: float, stopped: Callable[[], bool]
    ) -> None:
        self._stopped = stopped
        self._arguments = arguments
        self._out = frozenset(out)
        self._error = error
        self._ends_at = began + SEARCH_MAX_S
        self._trials_left = TRIALS_MAX
        self.found: dict[Change, Exception] = {}

    def run(self, tried: list[Change], others: Iterable[list[Change]]) -> Mapping[Change, Exception]:
        """The objects to leave out. Raises _NoSuspectError if there are none, or if the search takes too long."""
        for suspects in (_ordered(tried), *others):
            if suspects and self._succeeds_without(suspects):
                self._narrow(suspects)
                return self.found
        raise _NoSuspectError

    def _narrow(self, suspects: list[Change]) -> None:
        """Find the objects that must be left out, given that the cycle succeeds without all of the suspects.

        Bisection finds the shortest prefix of the list without which the cycle succeeds. The last object of that
        prefix must be left out. The search goes on among the objects before it until the cycle succeeds without the
        objects found.
        """
        while True:
            fails, succeeds = 0, len(suspects)
            while succeeds - fails > 1:
                middle = (fails + succeeds) // 2
                if self._succeeds_without(suspects[:middle]):
                    succeeds = middle
                else:
                    fails = middle
            self.found[suspects[succeeds - 1]] = self._error
            suspects = suspects[: succeeds - 1]
            if not suspects or self._succeeds_without([]):
                return

    def _succeeds_without(self, suspects: list[Change]) -> bool:
        """Whether the cycle succeeds without these objects and those found or left out already."""
        arguments = self._arguments
        if self._trials_left == 0 or arguments.timer() > self._ends_at or self._stopped():
            raise _NoSuspectError
        self._trials_left -= 1
        exclusions = leave_out(arguments.cluster, {*self._out, *self.found, *suspects}, keep=False)
        try:
            arguments.run(
                view_without(arguments.cluster, exclusions, arguments.config, object()), Cache(), read_all=True
            )
        except MemoryError:
            raise
        except Exception as error:
            self._error = error
            return False
        return True


def _ordered(names: Iterable[Change]) -> list[Change]:
    ranks = {kind: rank for rank, kind in enumerate(SUSPECTS)}
    return sorted((name for name in names if name[0] in ranks), key=lambda name: (ranks[name[0]], name[1]))
