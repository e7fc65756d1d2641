"""Which objects are left out of cycles because they make them fail: for how long they stay out, when they are tried
again, and what the search for them may cost.

Errors that lowering reports name their objects (``lowering.errors``). For all others there is a search
(``fault_search``): among the objects that changed since the last cycle that succeeded, else among all. It goes on over
the following cycles, which run without what is still suspected. An object that is tried again is tried apart from the
cycle that decides, in a bounded number of cycles.

An error is raised as it is if it does not occur again, or if no object causes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from kai_sched.cycle.explain.left_out import explained
from kai_sched.cycle.fault_search import EndError, FaultSearch, ordered
from kai_sched.cycle.left_out import Exclusions, leave_out, missing_from, view_without
from kai_sched.cycle.lift import Lifted
from kai_sched.cycle.pool_amounts import count_pool
from kai_sched.cycle.run import run_cycle
from kai_sched.lowering.cache import Cache
from kai_sched.lowering.errors import LoweringError
from kai_sched.model.config import Config
from kai_sched.model.hints import NO_HINTS, PoolAmounts, SchedulingHints
from kai_sched.model.objects import BindRequest, Object, Pod
from kai_sched.model.queue_tree import rooted_queues
from kai_sched.model.store import TABLES, Change, Cluster
from kai_sched.plan.result import CycleResult

RETRY_S = 300.0  # how often an object that did not change is tried again
FIRST_PAUSE_S = 2.0  # for an object that changes and fails repeatedly; doubles up to RETRY_S
ROUNDS_MAX = 20  # cycles in a row in which lowering may name further objects
FIRST_S = 1.0  # a search begins with trials for so long, but with this many if they take no longer than a few seconds
FIRST_TRIALS = 30
FIRST_MAX_S = 2.5
LATER_S = 0.25  # in each later cycle it goes on for so long
REST = 4.0  # and rests for this many times the time that the trials took
TRIALS_MAX = 400  # in one cycle
RETRY_HALVINGS = 4  # how often objects that are tried again without a change are halved: 31 trials at most
SEARCH_PAUSE_S = 60.0  # after a search without a finding

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
        return _text(self.error)


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
    failed
        The view of the first attempt and its error, if that failed.
    """

    result: CycleResult
    quarantined: tuple[Quarantined, ...] = ()
    released: tuple[Change, ...] = ()
    transient: Exception | None = None
    retry_at: float | None = None
    failed: tuple[Cluster, Exception] | None = None


class Quarantine:
    """Runs the cycles of one store, without the objects that make them fail. For one thread, but for ``stop``.

    ``run`` is called like ``cycle.run.run_cycle``.

    Attributes
    ----------
    view
        What the last attempt at a cycle ran on, whether or not it succeeded; None before the first.
    """

    def __init__(self, run: Run = run_cycle) -> None:
        self._run = run
        self.view: Cluster | None = None
        self._cache = Cache()
        self._quarantined: dict[Change, Quarantined] = {}
        self._reported: set[Change] = set()  # what was reported as quarantined, and not as released since
        self._failed: dict[Change, tuple[int, float]] = {}  # how often each failed, and when last
        self._last_success: tuple[object, int] = (None, -1)  # store and serial of the last cycle that succeeded
        self._names: frozenset[Change] = frozenset()
        self._keep = True  # whether excluded objects may keep what they hold in the view
        self._exclusions = Exclusions(frozenset())
        self._identity: object = None  # stands for the store of all views with these exclusions
        self._search = FaultSearch()
        self._search_at = 0.0  # a search may begin
        self._goes_on_at = 0.0  # the search may go on
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
        self._failed = {name: at for name, at in self._failed.items() if timer() - at[1] < 2 * RETRY_S}
        self._try_again(cluster, timer())
        self._search_on(arguments, LATER_S, 1)
        failed: tuple[Cluster, Exception] | None = None
        try:
            result = self._cycle(arguments)
        except Exception as error:
            failed = self.view or cluster, error
            result = self._recover(arguments, error)
        self._last_success = cluster.store_id, cluster.serial
        quarantined = tuple(each for name, each in self._quarantined.items() if before.get(name) is not each)
        suspected = self._search.out
        released = tuple(sorted(self._reported - self._quarantined.keys() - suspected.keys(), key=_sorting))
        self._reported = (self._reported | self._quarantined.keys()) - set(released)
        times = [self._due(each, cluster) for each in self._quarantined.values()]
        retry_at = min([*times, *([self._goes_on_at] if suspected else [])], default=None)
        result = self._with_left_out(result, cluster)
        if read_all:
            len(result.groups)
        transient = failed[1] if failed and not quarantined and not suspected else None
        return Outcome(result, quarantined, released, transient, retry_at, failed)

    def count(self, cluster: Cluster, config: Config, now_ns: int, pipelined: Mapping[str, str]) -> PoolAmounts:
        """As ``pool_amounts.count_pool``, without the objects that make cycles fail. Raises what that raises."""
        names = frozenset(self._quarantined) | self._search.out.keys()
        if names:
            cluster = self._without(leave_out(cluster, names, keep=self._keep), cluster, config)
        return count_pool(cluster, config, now_ns, self._cache, pipelined)

    def _due(self, entry: Quarantined, cluster: Cluster) -> float:
        """When the object is tried again: earlier if it has changed."""
        return entry.earliest_retry_at if self._has_changed(entry, cluster) else entry.retry_at

    def _has_changed(self, entry: Quarantined, cluster: Cluster) -> bool:
        kind, key = entry.name
        if cluster.table(kind).get(key) is not entry.item:
            return True
        # A bind request is left out together with its pod, and the pod may be the faulty one.
        return entry.pod is not None and cluster.pods.get(entry.pod.key) is not entry.pod

    def _try_again(self, cluster: Cluster, now: float) -> None:
        """Let the search try the quarantined objects that are due, and forget those that are gone."""
        changed, unchanged = list[Change](), list[Change]()
        for name, entry in list(self._quarantined.items()):
            if name[1] not in cluster.table(name[0]):
                self._failed.pop(name, None)
                if entry.pod is not None and cluster.pods.get(entry.pod.key) is entry.pod:
                    changed.append((Pod, entry.pod.key))  # it may have been the faulty one, and was left out as well
            elif now < self._due(entry, cluster):
                continue
            else:
                (changed if self._has_changed(entry, cluster) else unchanged).append(name)
            del self._quarantined[name]
        if changed or unchanged:
            self._goes_on_at = min(self._goes_on_at, now)
        self._search.add(changed, None)
        self._search.add(unchanged, None, RETRY_HALVINGS)
        self._search.keep(lambda name: name[1] in cluster.table(name[0]))

    def _left_out(self) -> dict[Change, str]:
        """The problem of each object that cycles run without."""
        found = {name: _text(entry.error) for name, entry in self._quarantined.items()}
        suspected = self._search.out
        for name, error in suspected.items():
            found[name] = f"{_text(error)}; it is one of {len(suspected)} objects of which each is being tried"
        return found

    def _cycle(self, arguments: _Arguments) -> CycleResult:
        """A cycle without the quarantined objects and the suspects. What they hold is kept, unless that fails too."""
        names = frozenset(self._quarantined) | self._search.out.keys()
        if not names:
            self.view = arguments.cluster
            return arguments.run(arguments.cluster, self._cache)
        if names != self._names:
            self._names, self._keep = names, True
        if self._keep:
            try:
                return self._cycle_without(leave_out(arguments.cluster, names, keep=True), arguments)
            except Exception:
                if not self._exclusions.held:
                    raise
        result = self._cycle_without(leave_out(arguments.cluster, names, keep=False), arguments)
        self._keep = False
        return result

    def _cycle_without(self, exclusions: Exclusions, arguments: _Arguments) -> CycleResult:
        self.view = self._without(exclusions, arguments.cluster, arguments.config)
        return arguments.run(self.view, self._cache)

    def _without(self, exclusions: Exclusions, cluster: Cluster, config: Config) -> Cluster:
        if exclusions != self._exclusions or self._identity is None:
            self._exclusions, self._identity = exclusions, object()
        return view_without(cluster, exclusions, config, self._identity)

    def _recover(self, arguments: _Arguments, error: Exception) -> CycleResult:
        """A cycle without the objects that make it fail. Raises its error if there is none."""
        began = arguments.timer()
        for _ in range(ROUNDS_MAX):
            try:
                return self._cycle(arguments)
            except Exception as again:
                error = again
                named = again.errors if isinstance(again, LoweringError) else []
                known = len(self._quarantined)
                for fault in named:
                    self._quarantine(arguments.cluster, (fault.kind, fault.key), fault.error, began)
                if len(self._quarantined) == known:
                    break
        if began >= self._search_at:
            if self._begin_search(arguments):
                self._goes_on_at = began
                self._search_on(arguments, FIRST_S, FIRST_TRIALS)
                return self._cycle(arguments)
            self._search_at = arguments.timer() + SEARCH_PAUSE_S
        raise error

    def _begin_search(self, arguments: _Arguments) -> bool:
        """Suspect the objects without which the cycle succeeds; False if there are none."""
        left_out = self._quarantined.keys() | self._search.out.keys()
        trial = self._trial(arguments, arguments.timer() + FIRST_MAX_S, TRIALS_MAX, TRIALS_MAX)
        for suspects in self._suspects(arguments.cluster):
            names = [name for name in suspects if name not in left_out]
            try:
                if names and trial({*left_out, *names}) is None:
                    self._search.add(names, None)
                    return True
            except EndError:
                return False
        return False

    def _search_on(self, arguments: _Arguments, seconds: float, least: int) -> None:
        """Go on with the search for so long, but for so many trials at least."""
        began = arguments.timer()
        if not self._search.out or began < self._goes_on_at:
            return

        def note(name: Change, error: Exception) -> None:
            self._quarantine(arguments.cluster, name, error, began)

        trial = self._trial(arguments, began + seconds, least, TRIALS_MAX)
        self._search.run(trial, self._quarantined.keys, note, _queue_sizes(arguments.cluster))
        now = arguments.timer()
        self._goes_on_at = now + REST * (now - began)

    def _trial(
        self, arguments: _Arguments, ends_at: float, least: int, most: int
    ) -> Callable[[set[Change]], Exception | None]:
        """Runs a cycle without some objects, on a new cache, and returns its error."""
        count, latest = 0, arguments.timer() + FIRST_MAX_S

        def error_without(out: set[Change]) -> Exception | None:
            nonlocal count
            now = arguments.timer()
            is_over = count > 0 and ((now > ends_at and count >= least) or now > latest)
            if self._stopped or count >= most or is_over:
                raise EndError
            count += 1
            exclusions = missing_from(arguments.cluster, out)
            view = view_without(arguments.cluster, exclusions, arguments.config, object())
            try:
                arguments.run(view, Cache(), read_all=True)
            except Exception as error:
                return error
            return None

        return error_without

    def _quarantine(self, cluster: Cluster, name: Change, error: Exception, now: float) -> None:
        item = cluster.table(name[0]).get(name[1])
        if item is None or name in self._quarantined:
            return
        times, last = self._failed.get(name, (0, now))
        times = times + 1 if now - last < 2 * RETRY_S else 1
        self._failed[name] = times, now
        pause_s = 0.0 if times == 1 else min(RETRY_S, FIRST_PAUSE_S * 2.0 ** min(times, 30))
        pod = cluster.pods.get(item.pod_key) if isinstance(item, BindRequest) else None
        self._quarantined[name] = Quarantined(name, item, error, now + RETRY_S, now + pause_s, pod)

    def _suspects(self, cluster: Cluster) -> Iterator[list[Change]]:
        """The objects that changed since the last cycle that succeeded, then all objects."""
        changes = cluster.changes_since(*self._last_success)
        if changes is not None:
            yield ordered(name for name in changes if name[1] in cluster.table(name[0]))
        yield ordered((kind, key) for kind in TABLES for key in cluster.table(kind))

    def _with_left_out(self, result: CycleResult, cluster: Cluster) -> CycleResult:
        left_out = self._left_out()
        if not left_out:
            return result
        groups = Lifted(partial(explained, result.groups, cluster, left_out))
        return replace(result, groups=groups, left_out=left_out)


def _queue_sizes(cluster: Cluster) -> Counter[str]:
    """How many pods, or groups, name each queue or one below it."""
    found = Counter(each.queue for table in (cluster.pods, cluster.pod_groups) for each in table.values() if each.queue)
    for name, queue in reversed(rooted_queues(cluster.queues).items()):
        if queue.parent:
            found[queue.parent] += found[name]
    return found


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


def _text(error: Exception | None) -> str:
    return f"{type(error).__name__}: {error}" if error is not None else "it failed before"


def _sorting(name: Change) -> tuple[str, str]:
    return name[0].__name__, name[1]
