"""Cycles that go on where an object makes them raise: it is found, left out, and tried again later.

What lowering raises over single objects names them. For all else cycles are run without half of those that may be at
fault, then without half of that half: first of what is tried again, then of what changed since the last cycle that went
well, then of all. That takes some twenty cycles for an object, each on a new cache. What does not come again, what no
object can be blamed for, and want of memory are raised as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from kai_sched.cycle.left_out import Without, explained, leave_out, view_without
from kai_sched.cycle.lift import Lifted
from kai_sched.cycle.run import run_cycle
from kai_sched.lowering.cache import Cache
from kai_sched.lowering.faults import LoweringFault
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

RETRY_S = 300.0  # an object that did not change is tried again so often
FIRST_PAUSE_S = 2.0  # and one that changes and fails again and again; doubles up to RETRY_S
ROUNDS_MAX = 20  # in which lowering may name further objects
TRIALS_MAX = 200
SEARCH_MAX_S = 60.0  # no trial begins later
SEARCH_PAUSE_S = 60.0  # after a search that found nobody
# Who may be at fault, in the order of looking. Without another kind of object pods could be placed wrongly.
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
class Culprit:
    """An object that is left out, as it was then, and what the cycle raises with it; times of the timer, in seconds."""

    name: Change
    item: Object
    error: Exception
    retry_at: float
    ready_at: float  # not before, even if it changes
    pod: Pod | None = None  # that goes with it, as it was then

    @property
    def problem(self) -> str:
        """What was raised, in a line."""
        return f"{type(self.error).__name__}: {self.error}"


@dataclass(frozen=True, slots=True)
class Decision:
    """A cycle, the objects that had to be left out for it to go well and were not before, and those that are back.

    ``flaw`` was raised by the cycle at first and not again. ``back_at`` is when something that is left out is to be
    tried again (seconds of the timer); None: nothing is.
    """

    result: CycleResult
    caught: tuple[Culprit, ...] = ()
    freed: tuple[Change, ...] = ()
    flaw: Exception | None = None
    back_at: float | None = None


class _NotFoundError(Exception):
    """The search has to end."""


class Quarantine:
    """Runs the cycles of one store. Not to be shared by threads. ``run`` is called as ``run_cycle`` is."""

    def __init__(self, run: Run = run_cycle) -> None:
        self._run = run
        self._cache = Cache()
        self._culprits: dict[Change, Culprit] = {}
        self._failed: dict[Change, tuple[int, float]] = {}  # how often each was caught, and when last
        self._good: tuple[object, int] = (None, -1)  # store and serial of the last cycle that went well
        self._names: frozenset[Change] = frozenset()
        self._keep = True  # whether these go on to hold what they hold, as no fault is known of that
        self._without = Without(frozenset())
        self._identity: object = None  # of the store of views without them
        self._search_at = 0.0
        self._stopped = False

    def stop(self) -> None:
        """End a search that is under way; safe to call from another thread."""
        self._stopped = True

    def decide(
        self,
        cluster: Cluster,
        config: Config,
        now_ns: int,
        timer: Callable[[], float],
        hints: SchedulingHints = NO_HINTS,
        whole: bool = False,
    ) -> Decision:
        """As ``run_cycle``, but for objects that make it raise; their names and faults are in ``result.left_out``.

        ``whole``: what is made when it is read is read, so that what raises there is found, too.
        """
        attempt = _Attempt(self._run, cluster, config, now_ns, timer, hints, whole)
        before = dict(self._culprits)
        tried = self._release(cluster, timer())
        flaw: Exception | None = None
        try:
            result = self._cycle(attempt)
        except MemoryError:
            raise
        except Exception as error:
            flaw = error
            result = self._recover(attempt, error, tried)
        self._good = cluster.store_id, cluster.serial
        caught = tuple(each for name, each in self._culprits.items() if before.get(name) is not each)
        freed = tuple(name for name in before if name not in self._culprits)
        back_at = min((self._due(each, cluster) for each in self._culprits.values()), default=None)
        result = self._told(result, cluster)
        if whole:
            len(result.groups)
        return Decision(result, caught, freed, None if caught else flaw, back_at)

    def _due(self, culprit: Culprit, cluster: Cluster) -> float:
        """When it is tried again, as it is now."""
        kind, key = culprit.name
        is_same = cluster.table(kind).get(key) is culprit.item
        # A bind request is suspected together with its pod, and the pod may be what was wrong.
        is_same = is_same and (culprit.pod is None or cluster.pods.get(culprit.pod.key) is culprit.pod)
        return culprit.retry_at if is_same else culprit.ready_at

    def _release(self, cluster: Cluster, now: float) -> list[Change]:
        """Who is tried again now."""
        tried = []
        for name, culprit in list(self._culprits.items()):
            item = cluster.table(name[0]).get(name[1])
            if item is None:
                self._failed.pop(name, None)
            elif now < self._due(culprit, cluster):
                continue
            else:
                tried.append(name)
            del self._culprits[name]
        return tried

    def _cycle(self, attempt: _Attempt) -> CycleResult:
        """A cycle without the culprits, on the cache; where they can, their pods go on to hold what they hold."""
        if not self._culprits:
            return attempt.run(attempt.cluster, self._cache)
        names = frozenset(self._culprits)
        if names != self._names:
            self._names, self._keep = names, True
        if self._keep:
            try:
                return self._cycle_without(leave_out(attempt.cluster, names, keep=True), attempt)
            except MemoryError:
                raise
            except Exception:
                if not self._without.held:
                    raise
        result = self._cycle_without(leave_out(attempt.cluster, names, keep=False), attempt)
        self._keep = False
        return result

    def _cycle_without(self, without: Without, attempt: _Attempt) -> CycleResult:
        if without != self._without or self._identity is None:
            self._without, self._identity = without, object()
        return attempt.run(view_without(attempt.cluster, without, attempt.config, self._identity), self._cache)

    def _recover(self, attempt: _Attempt, error: Exception, tried: list[Change]) -> CycleResult:
        """The cycle without those who make it raise; raises what it raises where nobody is found."""
        began = attempt.timer()
        for _ in range(ROUNDS_MAX):
            try:
                return self._cycle(attempt)
            except MemoryError:
                raise
            except Exception as again:
                error = again
                named = again.faults if isinstance(again, LoweringFault) else []
                known = len(self._culprits)
                for fault in named:
                    self._catch(attempt.cluster, (fault.kind, fault.key), fault.error, began)
                if len(self._culprits) == known:
                    break
        if began >= self._search_at:
            search = _Search(attempt, self._culprits, error, began, lambda: self._stopped)
            try:
                found = search.run(tried, self._suspects(attempt.cluster))
            except _NotFoundError:
                found = search.found
            for name, raised in found.items():
                self._catch(attempt.cluster, name, raised, began)
            if found:
                return self._cycle(attempt)
            self._search_at = attempt.timer() + SEARCH_PAUSE_S
        raise error

    def _catch(self, cluster: Cluster, name: Change, error: Exception, now: float) -> None:
        item = cluster.table(name[0]).get(name[1])
        if item is None or name in self._culprits:
            return
        times, last = self._failed.get(name, (0, now))
        times = times + 1 if now - last < 2 * RETRY_S else 1
        self._failed = {each: at for each, at in self._failed.items() if now - at[1] < 2 * RETRY_S}
        self._failed[name] = times, now
        pause_s = 0.0 if times == 1 else min(RETRY_S, FIRST_PAUSE_S * 2.0 ** min(times, 30))
        pod = cluster.pods.get(item.pod_key) if isinstance(item, BindRequest) else None
        self._culprits[name] = Culprit(name, item, error, now + RETRY_S, now + pause_s, pod)

    def _suspects(self, cluster: Cluster) -> Iterator[list[Change]]:
        """What changed since the last cycle that went well; then all."""
        changes = cluster.changes_since(*self._good)
        if changes is not None:
            yield _ordered(changes)
        yield _ordered((kind, key) for kind in SUSPECTS for key in cluster.table(kind))

    def _told(self, result: CycleResult, cluster: Cluster) -> CycleResult:
        if not self._culprits:
            return result
        left_out = {name: culprit.problem for name, culprit in self._culprits.items()}
        groups = Lifted(partial(explained, result.groups, cluster, left_out))
        return replace(result, groups=groups, left_out=left_out)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One cycle's arguments."""

    run_cycle: Run
    cluster: Cluster
    config: Config
    now_ns: int
    timer: Callable[[], float]
    hints: SchedulingHints
    whole: bool

    def run(self, view: Cluster, cache: Cache, whole: bool = False) -> CycleResult:
        result = self.run_cycle(view, self.config, self.now_ns, cache, self.timer, self.hints)
        if whole or self.whole:
            for made_when_read in (result.pods, result.groups, result.nodes):
                len(made_when_read)
        return result


class _Search:
    """For those without whom the cycle goes well; ``found`` are those that are known to be among them, with what they
    make it raise.
    """

    def __init__(
        self, attempt: _Attempt, out: Iterable[Change], error: Exception, began: float, stopped: Callable[[], bool]
    ) -> None:
        self._stopped = stopped
        self._attempt = attempt
        self._out = frozenset(out)
        self._error = error
        self._ends_at = began + SEARCH_MAX_S
        self._trials_left = TRIALS_MAX
        self.found: dict[Change, Exception] = {}

    def run(self, tried: list[Change], others: Iterable[list[Change]]) -> Mapping[Change, Exception]:
        """Who is to be left out. Raises _NotFoundError where that takes too long, or nobody is to blame."""
        for suspects in (_ordered(tried), *others):
            if suspects and self._goes_well(suspects):
                self._narrow(suspects)
                return self.found
        raise _NotFoundError

    def _narrow(self, suspects: list[Change]) -> None:
        """Without all of the suspects it goes well. One at a time: the last of the shortest beginning of the list that
        is enough is needed.
        """
        while True:
            fails, well = 0, len(suspects)
            while well - fails > 1:
                middle = (fails + well) // 2
                if self._goes_well(suspects[:middle]):
                    well = middle
                else:
                    fails = middle
            self.found[suspects[well - 1]] = self._error
            suspects = suspects[: well - 1]
            if not suspects or self._goes_well([]):
                return

    def _goes_well(self, suspects: list[Change]) -> bool:
        """Whether the cycle goes well without these, those found and those that are left out already."""
        attempt = self._attempt
        if self._trials_left == 0 or attempt.timer() > self._ends_at or self._stopped():
            raise _NotFoundError
        self._trials_left -= 1
        without = leave_out(attempt.cluster, {*self._out, *self.found, *suspects}, keep=False)
        try:
            attempt.run(view_without(attempt.cluster, without, attempt.config, object()), Cache(), whole=True)
        except MemoryError:
            raise
        except Exception as error:
            self._error = error
            return False
        return True


def _ordered(names: Iterable[Change]) -> list[Change]:
    ranks = {kind: rank for rank, kind in enumerate(SUSPECTS)}
    return sorted((name for name in names if name[0] in ranks), key=lambda name: (ranks[name[0]], name[1]))
