"""Parts of the operator, connected as the operator connects them, for tests that need some of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any

from kai_sched.cluster.owner_reader import OwnerReader
from kai_sched.model.config import Config
from kai_sched.model.inflight import Overlay
from kai_sched.model.read.kinds import Reader
from kai_sched.model.store import Store
from kai_sched.operator.clock import Clock
from kai_sched.operator.grouping.group_writer import GroupWriter
from kai_sched.operator.grouping.groups import Groups
from kai_sched.operator.grouping.kubernetes_groups import KubernetesGroups
from kai_sched.operator.grouping.owner_cache import OwnerCache
from kai_sched.operator.grouping.problem_reporter import GroupingReporter
from kai_sched.operator.grouping.requests import GroupingRequests
from kai_sched.operator.grouping.rule_settings import RuleSettings
from kai_sched.operator.grouping.workload_grouper import WorkloadGrouper
from kai_sched.operator.intake.event_sink import EventSink, Observer
from kai_sched.operator.intake.live_settings import LiveSettings
from kai_sched.operator.intake.status_observer import StatusObserver, StatusSink
from kai_sched.plan.effects import Emit
from kai_sched.reconcile.status.owner_reconciler import OwnerIndex


def observer_of(config: Config, settings: LiveSettings, news: StatusSink) -> StatusObserver:
    """An observer without a grouper."""
    requests = GroupingRequests(Clock().monotonic, random.Random(1))
    return StatusObserver(config, settings, KubernetesGroups(requests).show, news)


class Intake:
    """An event sink and what it feeds."""

    def __init__(
        self,
        store: Store | None = None,
        config: Config | None = None,
        changed: Callable[[bool], None] = lambda _: None,
        observer: Observer = lambda *_: None,
        owners: OwnerIndex | None = None,
    ) -> None:
        config = config or Config()
        self.store = Store() if store is None else store
        self.overlay = Overlay(self.store)
        self.owners = owners or OwnerIndex(lambda *_: None)
        self.requests = GroupingRequests(Clock().monotonic, random.Random(1))
        reader = Reader(config)
        self.groups = Groups(self.store, self.overlay, reader, config, changed, self.requests, self.owners.forget)
        self.sink = EventSink(self.store, self.overlay, reader, self.groups, config, changed, observer)


class Grouping:
    """A WorkloadGrouper and its writer over an intake."""

    def __init__(
        self,
        api: Any,
        intake: Intake,
        config: Callable[[], Config],
        emit: Callable[[Iterable[Emit]], None] = lambda _: None,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        clock, groups, requests = Clock(), intake.groups, intake.requests
        self.requests = requests
        reporter = GroupingReporter(groups, requests, intake.owners, emit, clock.monotonic)
        self.cache = OwnerCache(OwnerReader(api, clock.monotonic), clock.monotonic)
        rules = RuleSettings(api, intake.store, intake.sink, config)
        rng = random.Random(1)
        self.grouper = WorkloadGrouper(intake.store, groups, requests, self.cache, rules, reporter, clock, rng)
        self.writer = GroupWriter(api, groups, intake.sink, requests, reporter, is_busy)

    @property
    def pending(self) -> int:
        """What is to be reconciled or written now."""
        return self.requests.pending

    async def run(self, caught_up: Callable[[], None] = lambda: None) -> None:
        """This replica leads, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.grouper.run(caught_up))
            tasks.create_task(self.writer.run())
