"""The cycle: takes a view of the store when something has changed, has it decided, and hands the decisions on.

It reacts and does not poll: a cycle runs when there is news or when a time that matters has come. The solver runs in a
thread of its own; all else here belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import structlog

from kai_sched.cluster.backoff import Backoff as Doubling
from kai_sched.cluster.binding import OBSOLETE, BindFailure
from kai_sched.cluster.client import NOT_LEADER
from kai_sched.cluster.turns import Turn
from kai_sched.cycle.hints import HintTracker
from kai_sched.cycle.quarantine import Outcome, Quarantine
from kai_sched.cycle.run import run_cycle
from kai_sched.model.config import Config
from kai_sched.model.hints import ALL_PODS, SchedulingHints
from kai_sched.model.inflight import Overlay
from kai_sched.model.objects import Node, Pod
from kai_sched.model.store import Cluster, Store
from kai_sched.operator.clock import SteadyWall
from kai_sched.operator.troubles import Troubles
from kai_sched.plan.effects import Bind
from kai_sched.plan.result import CycleResult, GroupState
from kai_sched.telemetry.metrics import Metrics

log = structlog.get_logger("cycle")

SETTLE_S = 0.003  # news seldom come alone
PAUSE_MIN_S = 0.005
LAZY_S = 1.0
LAZY_BUSY_S = 3.0
PAUSE_MAX_S = 1.0
LOOK_AGAIN_S = 60.0  # so late at the most a time that matters is noticed, whatever clocks do
LATE_S = 0.05  # after a time that matters: others may come right behind it
BACKOFF_MAX_S = 60.0
PAUSES = Doubling(1.0, BACKOFF_MAX_S)
Done = TypeVar("Done")
ACTIVE = ("Binding", "Bound", "Running")


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds that never go back, and nanoseconds since the epoch."""

    monotonic: Callable[[], float] = time.monotonic
    wall_ns: Callable[[], int] = field(default_factory=SteadyWall)


@dataclass(frozen=True, slots=True)
class Decided:
    """A cycle that was run: what was seen, what was decided, and how long it took."""

    cluster: Cluster
    result: CycleResult
    seconds: float


@dataclass(slots=True)
class Backoff:
    """When what failed is tried again (monotonic seconds)."""

    failures: int = 0
    until: float = 0.0

    def add(self, now: float) -> float:
        """One more failure, unless it is still the last one; returns how many seconds to wait."""
        if now >= self.until:
            self.failures += 1
            self.until = now + PAUSES.wait_s(self.failures)
        return self.until - now


@dataclass(slots=True)
class Setbacks:
    """Groups that did not get what they should.

    ``backoff``, by group: their binds failed. ``torn``: some of their pods are bound and some not. ``promises``: they
    were promised room that was free already.
    """

    backoff: dict[str, Backoff] = field(default_factory=dict)
    torn: set[str] = field(default_factory=set)
    tracker: HintTracker = field(default_factory=HintTracker)

    def add(self, group: str, now: float) -> float:
        """One more failure; returns when the group is tried again."""
        self.torn.add(group)
        backoff = self.backoff.setdefault(group, Backoff())
        backoff.add(now)
        return backoff.until

    def hints(self, now: float) -> SchedulingHints:
        """Who waits, who goes first, and who is to get what it was promised."""
        waiting = frozenset(group for group, backoff in self.backoff.items() if now < backoff.until)
        return self.tracker.next_hints(dict.fromkeys(self.torn, ALL_PODS), waiting)

    def next_end(self, now: float) -> float | None:
        """When the next group has waited long enough."""
        return min((backoff.until for backoff in self.backoff.values() if backoff.until > now), default=None)


class Loop:
    """Runs cycles while ``may_act`` holds; before, it only keeps its caches warm, every ``standby_s`` at most.

    ``acted`` is called after each cycle that was acted upon, ``failed`` for each bind that failed, with when its group
    is tried again (monotonic seconds; None: as soon as there is news). ``troubles`` hears of cycles that fail and of
    objects that are left out.
    """

    def __init__(
        self,
        store: Store,
        overlay: Overlay,
        config: Callable[[], Config],
        may_act: Callable[[], bool],
        acted: Callable[[Decided], None],
        failed: Callable[[Bind, BindFailure, float | None], None],
        clock: Clock,
        standby_s: float = 10.0,
        troubles: Troubles | None = None,
    ) -> None:
        self._troubles = troubles or Troubles(Metrics(), lambda _: None, lambda: False, ("", ""), clock.monotonic)
        self._store = store
        self._overlay = overlay
        self._config = config
        self._may_act = may_act
        self._acted = acted
        self._told_failed = failed
        self._clock = clock
        self._standby_s = standby_s
        # by the name, which tests replace
        self._quarantine = Quarantine(lambda *arguments: run_cycle(*arguments))
        self._thread = ThreadPoolExecutor(1, "solver")
        self._news = asyncio.Event()
        self._lazy: asyncio.TimerHandle | None = None
        self._led = asyncio.Event()
        self._setbacks = Setbacks()
        self._turned_at = clock.monotonic()  # when the last cycle chose who waits
        self._due: float | None = None  # when time alone may change what it decided (monotonic)
        self._back_at: float | None = None  # when something that is left out is tried again (monotonic)
        self._leads = False
        self._group_of: dict[str, str] = {}  # pods whose binds are under way
        # Takes the binds of a group, and the view that they were decided on.
        self.send: Callable[[Sequence[Bind], Cluster], None] | None = None
        self.evict: Callable[[Decided], Awaitable[None]] | None = None  # takes a cycle's evictions
        self.busy_since: float | None = None  # monotonic, while a cycle is being decided

    def wake(self, matters: bool = True) -> None:
        """Something has changed. What matters to nobody who waits is looked at within LAZY_S."""
        if matters:
            self._news.set()
        elif self._lazy is None:
            # while binds wait, what a cycle costs them is more than it is worth
            seconds = LAZY_S if self._overlay.assumed == {} else LAZY_BUSY_S
            self._lazy = asyncio.get_running_loop().call_later(seconds, self._news.set)

    def lead(self) -> None:
        """The lease is ours: what was only watched so far is acted upon."""
        self._led.set()
        self.wake()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                await self._wait()
                self._news.clear()
                if self._lazy is not None:
                    self._lazy.cancel()
                    self._lazy = None
                try:
                    rest_s = await self._turn()
                except Exception as error:
                    await asyncio.sleep(self._troubles.failed(error))
                    self.wake()
                else:
                    self._troubles.well(self._clock.wall_ns() / 1e9)
                    await self._rest(rest_s)
        finally:
            self._quarantine.stop()
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _rest(self, seconds: float) -> None:
        if self._leads:
            await asyncio.sleep(min(PAUSE_MAX_S, max(PAUSE_MIN_S, seconds)))
            return
        try:
            async with asyncio.timeout(seconds):
                await self._led.wait()
        except TimeoutError:
            pass

    async def _wait(self) -> None:
        """Until there is news, or a time has come that matters to somebody."""
        ends = [end for end in (self._setbacks.next_end(self._turned_at), self._due, self._back_at) if end is not None]
        end = min(ends, default=None)
        try:
            async with asyncio.timeout(None if end is None else max(0.0, end - self._clock.monotonic())):
                await self._news.wait()
        except TimeoutError:
            return
        await asyncio.sleep(SETTLE_S)

    async def _turn(self) -> float:
        """One cycle; returns how long to rest after it."""
        if not self._may_act():
            self._leads = False
            self._led.clear()
            await self._decide(SchedulingHints())
            return self._standby_s
        if not self._leads:
            # A predecessor may have died in the middle of binding a gang: what it left goes first.
            first = await self._decide(SchedulingHints(), whole=True)
            self._setbacks.torn = await self._in_thread(lambda: _torn(first.result))
            self._leads = True
        self._turned_at = self._clock.monotonic()
        hints = self._setbacks.hints(self._turned_at)
        decided = await self._decide(hints, whole=bool(hints.first or self._setbacks.backoff))
        if self._may_act():
            self._settle_setbacks(decided.result, hints)
            if self._setbacks.tracker.record(decided.cluster, decided.result, self._config()):
                self.wake(matters=False)
            if self._setbacks.tracker.due:
                self.wake()
            await self._act(decided)
            self._acted(decided)
        next_deadline_ns, now_ns = decided.result.next_deadline_ns, self._clock.wall_ns()
        wait_s = min(LOOK_AGAIN_S, max(0.0, (next_deadline_ns - now_ns) / 1e9))
        self._due = self._clock.monotonic() + wait_s + LATE_S if next_deadline_ns else None
        return decided.seconds

    async def _decide(self, hints: SchedulingHints, whole: bool = False) -> Decided:
        """A cycle; with ``whole`` all of its result may be read here without anything being raised."""
        cluster, config = self._store.cluster(), self._config()
        started = self.busy_since = self._clock.monotonic()
        try:
            outcome: Outcome = await self._in_thread(
                lambda: self._quarantine.run_cycle(
                    cluster, config, self._clock.wall_ns(), self._clock.monotonic, hints, whole
                )
            )
        finally:
            self.busy_since = None
        self._troubles.decided(outcome)
        self._back_at = outcome.retry_at
        return Decided(cluster, outcome.result, self._clock.monotonic() - started)

    async def _in_thread(self, work: Callable[[], Done]) -> Done:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _settle_setbacks(self, result: CycleResult, hints: SchedulingHints) -> None:
        """Forget setbacks of groups that have recovered or are gone."""
        for key in hints.first:
            group = result.groups.get(key)
            if group is None or not _is_torn(group):
                self._setbacks.torn.discard(key)
        for key in list(self._setbacks.backoff):
            group = result.groups.get(key)
            if group is None or not group.counts.keys() & {"Pending", "Binding", "Pipelined"}:
                del self._setbacks.backoff[key]

    async def _act(self, decided: Decided) -> None:
        assert self.send is not None, "set before the loop runs"
        assert self.evict is not None, "set before the loop runs"
        await self.evict(decided)
        turn = Turn()
        groups: dict[str, list[Bind]] = {}
        for effect in decided.result.effects:
            if isinstance(effect, Bind):
                groups.setdefault(decided.cluster.pods[effect.pod].group_key, []).append(effect)
        for key, binds in groups.items():
            self._group_of.update((bind.uid, key) for bind in binds)
            assumed = []
            for bind in binds:
                if self._overlay.assume(bind.pod, bind.uid, bind.node):
                    assumed.append(bind)
                await turn.pause()
            if len(assumed) == len(binds):
                self.send(binds, decided.cluster)
                continue
            # A pod of the group is gone or taken meanwhile: the next cycle decides on what there is now.
            for bind in assumed:
                self._overlay.forget(bind.pod, bind.uid)
            self._drop(binds)

    def _drop(self, binds: Iterable[Bind]) -> None:
        for bind in binds:
            self._group_of.pop(bind.uid, None)
        self.wake()

    def check(self, bind: Bind) -> str:
        """Why the bind makes no sense any more; empty where it does."""
        pod = self._store.get(Pod, bind.pod)
        if pod is None:
            return f"pod {bind.pod} is gone"
        if pod.uid != bind.uid:
            return f"pod {bind.pod} was deleted and created anew"
        if pod.deleted_ns:
            return f"pod {bind.pod} is being deleted"
        if pod.node != bind.node:
            return f"pod {bind.pod} is on node {pod.node} already" if pod.node else f"pod {bind.pod} is decided anew"
        return node_problem(self._store, bind.node)

    def bound(self, bind: Bind) -> None:
        """The API server has taken the bind."""
        self._group_of.pop(bind.uid, None)

    def failed(self, bind: Bind, failure: BindFailure) -> None:
        """The bind was given up: the pod counts as pending again, and its group is tried again in its time."""
        self._overlay.forget(bind.pod, bind.uid)
        group = self._group_of.pop(bind.uid, bind.pod)
        stale = failure.reason in (OBSOLETE, NOT_LEADER) and not failure.status
        again = None if stale else self._setbacks.add(group, self._clock.monotonic())
        if stale:
            self._setbacks.torn.add(group)
        self._told_failed(bind, failure, again)
        self.wake()


def node_problem(store: Store, name: str) -> str:
    """Why no pod can be put onto the node; empty where one can."""
    node = store.get(Node, name)
    if node is None:
        return f"node {name} is gone"
    if node.unschedulable:
        return f"node {name} was cordoned"
    return f"node {name} is {', '.join(node.bad_conditions)}" if node.bad_conditions else ""


def _torn(result: CycleResult) -> set[str]:
    return {key for key, group in result.groups.items() if _is_torn(group)}


def _is_torn(group: GroupState) -> bool:
    active = sum(group.counts.get(status, 0) for status in ACTIVE)
    return 0 < active < group.min_member and group.counts.keys().isdisjoint({"Gated"}) and "Pending" in group.counts
