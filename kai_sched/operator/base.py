"""What exists before the parts of the process are built: ``Base`` before the settings are read, ``Intake`` before the
parts that do the work.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

from kai_sched.cluster.client import Api
from kai_sched.cluster.lease import LeaderLease
from kai_sched.cluster.reflector import Reflector
from kai_sched.cluster.work_queue import FifoQueue
from kai_sched.cluster.write_queue import WriteQueue
from kai_sched.model.inflight import Overlay
from kai_sched.model.store import Store
from kai_sched.operator.clock import Clock
from kai_sched.operator.cycle.recorder import CycleRecorder
from kai_sched.operator.cycle_trigger import CycleTrigger
from kai_sched.operator.grouping.groups import Groups
from kai_sched.operator.grouping.requests import GroupingRequests
from kai_sched.operator.http.live_page import LivePage
from kai_sched.operator.http.pages import Pages
from kai_sched.operator.http.webhook_service import WebhookService
from kai_sched.operator.intake.event_sink import EventSink
from kai_sched.operator.intake.live_settings import LiveSettings
from kai_sched.operator.intake.paced_sink import PacedSink
from kai_sched.operator.options import RunOptions
from kai_sched.operator.reporting.observations import Observations
from kai_sched.plan.effects import Bind, Evict


@dataclass(frozen=True, slots=True)
class Base:
    """What exists before the settings have been read.

    Attributes
    ----------
    options
        How the process was started.
    settings
        The settings in force.
    api
        The client of the API server, whose writes the lease guards.
    lease
        Who leads; not started yet.
    pages, webhooks
        What is served already.
    live_page
        Shows the last cycle.
    own_pod
        The key of the pod that the process runs in, as far as it is one.
    recorder
        Keeps the inputs of the last cycles.
    clock, rng
        The time, and the source of jitter.
    ending
        Set when the process has to end.
    """

    options: RunOptions
    settings: LiveSettings
    api: Api
    lease: LeaderLease
    pages: Pages
    webhooks: WebhookService
    live_page: LivePage
    own_pod: str
    recorder: CycleRecorder
    clock: Clock
    rng: random.Random
    ending: asyncio.Event


@dataclass(frozen=True, slots=True)
class Intake:
    """What comes in, and the queues in which work waits. Both exist before the parts that do the work.

    Attributes
    ----------
    store, overlay
        The cluster as the informers show it, with what is under way.
    trigger
        Requests for a cycle.
    store_changed
        Set after each change of the store.
    observations
        What the informers saw of statuses.
    requests, groups
        What the grouper has to do, and the groups of pods.
    sink, paced, reflectors
        The informers.
    binds, evictions, writes
        What waits to be sent.
    """

    store: Store
    overlay: Overlay
    trigger: CycleTrigger
    store_changed: asyncio.Event
    observations: Observations
    requests: GroupingRequests
    groups: Groups
    sink: EventSink
    paced: PacedSink
    reflectors: Sequence[Reflector]
    binds: FifoQueue[Bind]
    evictions: FifoQueue[Evict]
    writes: WriteQueue

    def binds_wait(self) -> bool:
        """Whether binds are under way: PodGroups are written behind them."""
        return self.binds.pending > 0

    def is_busy(self) -> bool:
        """Whether binds or PodGroups are under way: statuses are written behind them."""
        return self.binds.pending > 0 or self.requests.pending > 0
