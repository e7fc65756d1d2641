"""When the pods of an owner are grouped (again), how many owners at a time, and for how long cycles wait for this at
the start.

The WorkloadGrouper reads the owners and decides the PodGroups by the rules in ``reconcile.grouping``. ``Groups`` says
which sources to reconcile. A source that fails is reconciled again after 1 s, doubling to 60 s. Only the leader
reconciles. Cycles use a decision at once; the group writer writes it after the binds. Cycles begin to act once the
workloads that exist when the replica becomes the leader have been reconciled, or after CATCH_UP_S. Otherwise the first
workloads would get all the room.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace

import structlog

from kai_sched.api import core, names
from kai_sched.cluster.client import ApiFailure
from kai_sched.cluster.delivery import BUSY_PAUSE_S, Workers
from kai_sched.cluster.time_slice import TimeSlice
from kai_sched.model.store import Store
from kai_sched.operator.clock import Clock
from kai_sched.operator.grouping import owner_cache
from kai_sched.operator.grouping.groups import Groups
from kai_sched.operator.grouping.members import is_kubernetes_group
from kai_sched.operator.grouping.owner_cache import MissingOwner, OwnerCache, OwnerView
from kai_sched.operator.grouping.prefetch import prefetch
from kai_sched.operator.grouping.problem_reporter import GroupingReporter
from kai_sched.operator.grouping.requests import GroupingRequests
from kai_sched.operator.grouping.rule_settings import RuleSettings
from kai_sched.reconcile.grouping.manifest import Grouping
from kai_sched.reconcile.grouping.owners import Chain, resolve
from kai_sched.reconcile.grouping.registry import gets_group, group_of
from kai_sched.reconcile.grouping.settings import GroupingSettings
from kai_sched.reconcile.grouping.workload_errors import GroupingError
from kai_sched.telemetry.unexpected import FAULTS

PREFETCH_S = 2.5  # the time for listing many owners at once, before each is read alone
CATCH_UP_S = 5.0  # then cycles begin to act, whatever is left to reconcile
WORKERS = 8
# Sizes and labels may change without an event about a pod: owners of waiting pods are read again, spread over a period.
# So two periods are the most that passes until a change is seen, unless there are more than fit in one.
RESYNC_S = 15.0
RESYNCED_PER_SECOND = 20
TURN_S = 0.002  # then others get the event loop; a pod may take longer than that, and each worker has a turn

log = structlog.get_logger("grouping")


class WorkloadGrouper:
    """For one event loop.

    Parameters
    ----------
    store
        The cluster as the informers show it.
    groups
        The pods of workloads and their groups.
    requests
        The sources to reconcile.
    cache
        Owners of pods.
    rules
        What the rules go by.
    reporter
        Hears of what is found out.
    clock
        The time.
    rng
        Spreads the resync.
    """

    def __init__(
        self,
        store: Store,
        groups: Groups,
        requests: GroupingRequests,
        cache: OwnerCache,
        rules: RuleSettings,
        reporter: GroupingReporter,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._store = store
        self._groups = groups
        self._requests = requests
        self._cache = cache
        self._rules = rules
        self._reporter = reporter
        self._clock = clock
        self._rng = rng
        self._workers = Workers("grouper", requests.reconciles, self._work, WORKERS, describe=str)
        self.is_caught_up = False  # the first workloads have been reconciled, or CATCH_UP_S has passed

    async def run(self, caught_up: Callable[[], None]) -> None:
        """Run until cancelled, once this replica leads. ``caught_up`` is called once, when cycles may act."""
        await self._reconcile_all()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._catch_up(caught_up))
            await self._prefetch()
            tasks.create_task(self._workers.run())
            tasks.create_task(self._resync())

    async def _reconcile_all(self) -> None:
        """Nobody may have led for a while: reconcile everything once."""
        self._requests.open()
        time_slice = TimeSlice()
        for source in list(self._groups.sources()):
            self._requests.reconcile(source)
            await time_slice.pause()

    async def _prefetch(self) -> None:
        try:
            async with asyncio.timeout(PREFETCH_S):
                await prefetch(self._cache, self._groups.owners())
        except TimeoutError:
            pass
        except Exception as error:
            FAULTS.note("grouper", "owners", error)  # they are read one by one then

    async def _catch_up(self, caught_up: Callable[[], None]) -> None:
        end_s = self._clock.monotonic() + CATCH_UP_S
        queue = self._requests.reconciles
        while (late := queue.pending) and self._clock.monotonic() < end_s:  # noqa: ASYNC110 - a queue tells nobody
            await asyncio.sleep(BUSY_PAUSE_S)
        if late:
            log.warning("grouping.late", sources=late, seconds=CATCH_UP_S)
        self.is_caught_up = True
        caught_up()

    async def _resync(self) -> None:
        period_s = RESYNC_S
        while True:
            await asyncio.sleep(period_s)
            self._expire_cache()
            sources = self._groups.waiting()
            period_s = max(RESYNC_S, len(sources) / RESYNCED_PER_SECOND)
            time_slice = TimeSlice()
            for source in sources:
                self._requests.reconcile(source, self._rng.uniform(0.001, period_s))
                await time_slice.pause()

    def _expire_cache(self) -> None:
        """Keep everything until the first reconciliations are over: they may take longer than an answer counts."""
        if self.is_caught_up:
            self._cache.expire()

    async def _work(self, source: str) -> None:
        try:
            is_done = await self._reconcile(source)
        except ApiFailure as failure:
            log.warning("owner.unknown", problem=str(failure))
            is_done = False
        if is_done:
            self._requests.reconciles.done(source)
        else:
            self._requests.reconciles.failed(source)

    async def _reconcile(self, source: str) -> bool:
        """Decide the places of the pods of the source; return whether all could be decided. Raises ApiFailure."""
        settings = await self._settings_for(source)
        self._expire_cache()
        requested_s, is_cached = self._requests.begin(source)
        pods = self._groups.pods_of(source)
        view = OwnerView(self._store, self._groups, self._cache.entries if is_cached else {}, requested_s)
        failed: dict[str, GroupingError] = {}
        unknown: ApiFailure | None = None
        turn = TimeSlice(TURN_S)
        for key, pod in pods.items():
            await turn.pause()
            try:
                found = await self._place(pod, view, settings)
                self._groups.decided(source, pod, None if found is None else found[1])
                self._reporter.grouped(pod, found)
            except GroupingError as error:
                failed[key] = error.with_traceback(None)  # which has this frame
            except ApiFailure as failure:
                unknown = failure  # pods that name another owner with the same uid need not wait for this one
            except Exception as error:
                failed[key] = GroupingError(f"Pod {key}", "", FAULTS.note("grouper", f"Pod {key}", error))
        if unknown is not None:
            try:
                raise unknown
            finally:
                del unknown  # a frame that names what it raises would stay until a full garbage collection
        if view.is_outdated:
            # What has changed since the answer was cached does not count yet.
            if failed:
                self._requests.reconcile(source, uncached=True)
            else:
                self._requests.reconcile(source, owner_cache.FRESH_S)
            return True
        stuck = {key for key in failed if self._groups.staying(source, pods[key]) is not None}
        self._reporter.failed(source, {key: (pods[key], failed[key]) for key in failed if key in stuck})
        self._groups.settled(source, {key: pod for key, pod in pods.items() if key not in stuck})
        return not stuck

    async def _settings_for(self, source: str) -> GroupingSettings:
        """What the rules go by. Raises ApiFailure."""
        settings = await self._rules.current()
        if not is_kubernetes_group(source):
            return settings
        return replace(settings, kubernetes_groups=await self._cache.reader.serves(*names.KUBERNETES_GROUP))

    async def _place(
        self, pod: core.WirePod, view: OwnerView, settings: GroupingSettings
    ) -> tuple[Chain, Grouping] | None:
        """Return the owners and the group of the pod, None if it has none. Raises GroupingError, ApiFailure."""
        while True:
            try:
                chain = resolve(pod, view.fetch)
                if not gets_group(pod, chain, settings):
                    return None
                return chain, group_of(pod, chain, view, settings)
            except MissingOwner as missing:
                await self._cache.read_into(view, missing.reference)
