"""Which parts the process has, in the order in which they start, how they are connected, what scheduling waits for (the
checks). ``process.run`` builds the parts in ``Base``.

A part is built after the parts that it needs. If two parts need each other, the queue, event or trigger that connects
them is built before both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kai_sched.api import names
from kai_sched.cluster.claim_requests import ClaimWriter
from kai_sched.cluster.owner_reader import OwnerReader
from kai_sched.cluster.pod_binder import PodBinder
from kai_sched.cluster.pod_deleter import PodDeleter
from kai_sched.cluster.reflector import Reflector
from kai_sched.cluster.sharing_requests import SharingRequests
from kai_sched.cluster.status_writer import StatusWriter
from kai_sched.cluster.volume_binder import VolumeBinder
from kai_sched.cluster.work_queue import FifoQueue
from kai_sched.cluster.write_queue import WriteQueue
from kai_sched.model.claims.objects import DeviceClass
from kai_sched.model.config import Config, scheduler_and_pool
from kai_sched.model.inflight import Overlay
from kai_sched.model.read.kinds import VOLUME, Reader
from kai_sched.model.store import Store
from kai_sched.operator import free_memory
from kai_sched.operator.base import Base, Intake
from kai_sched.operator.cycle.health import CycleHealth
from kai_sched.operator.cycle.loop import CycleLoop
from kai_sched.operator.cycle.watch import CycleWatch
from kai_sched.operator.cycle_trigger import CycleTrigger
from kai_sched.operator.delivery.bind_tracker import BindTracker
from kai_sched.operator.delivery.claims.binder import ClaimBinder
from kai_sched.operator.delivery.claims.leftovers import ClaimLeftovers
from kai_sched.operator.delivery.claims.reservations import ClaimReservations
from kai_sched.operator.delivery.cycle_executor import CycleExecutor
from kai_sched.operator.delivery.eviction_tracker import EvictionTracker
from kai_sched.operator.delivery.gpu_reservations import GpuReservations
from kai_sched.operator.delivery.share_binder import ShareBinder
from kai_sched.operator.grouping.group_writer import GroupWriter
from kai_sched.operator.grouping.groups import Groups
from kai_sched.operator.grouping.kubernetes_groups import KubernetesGroups
from kai_sched.operator.grouping.owner_cache import OwnerCache
from kai_sched.operator.grouping.problem_reporter import GroupingReporter
from kai_sched.operator.grouping.requests import GroupingRequests
from kai_sched.operator.grouping.rule_settings import RuleSettings
from kai_sched.operator.grouping.workload_grouper import WorkloadGrouper
from kai_sched.operator.http.certificate import remedied
from kai_sched.operator.intake.event_sink import EventSink
from kai_sched.operator.intake.paced_sink import PacedSink
from kai_sched.operator.intake.sources import SOURCES
from kai_sched.operator.intake.status_observer import StatusObserver
from kai_sched.operator.kopf_frame import KopfFrame
from kai_sched.operator.lifecycle import Operator, ProcessIdentity
from kai_sched.operator.process_part import Part
from kai_sched.operator.reporting.observations import Observations
from kai_sched.operator.reporting.status_reporter import StatusReporter, report_lost_write
from kai_sched.operator.scaling import ScalingPods
from kai_sched.operator.selector_service import SelectorService
from kai_sched.operator.shard_accounts import ShardAccounts
from kai_sched.operator.startup import Startup
from kai_sched.operator.usage_accounts import Accounts, PastViews, UsageAccounts
from kai_sched.plan.receipts import notice
from kai_sched.telemetry.loop_time import LoopTimes, MeasuredLoop
from kai_sched.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class GroupingParts:
    """Who groups pods."""

    grouper: WorkloadGrouper
    writer: GroupWriter


@dataclass(frozen=True, slots=True)
class DeliveryParts:
    """Who sends what cycles decide."""

    executor: CycleExecutor
    binder: PodBinder
    deleter: PodDeleter
    volumes: VolumeBinder
    claims: ClaimBinder
    leftovers: ClaimLeftovers
    shares: ShareBinder
    reservations: GpuReservations


@dataclass(frozen=True, slots=True)
class ReportingParts:
    """Who reports what happened."""

    reporter: StatusReporter
    writer: StatusWriter
    health: CycleHealth


def connect(base: Base, intake: Intake) -> Operator:
    """Build the parts of the process around the intake; nothing runs yet."""
    grouping = _build_grouping(base, intake)
    reporting = _build_reporting(base, intake)
    accounts = _build_accounts(base, intake)
    delivery = _build_delivery(base, intake, reporting.reporter, accounts)
    startup = Startup(intake.reflectors, intake.sink, base.lease, intake.trigger)

    def may_act() -> bool:
        return base.lease.held() and grouping.grouper.is_caught_up

    selectors = SelectorService(intake.store, intake.trigger.request, base.clock.monotonic)
    views, health = PastViews(selectors, accounts), reporting.health
    loop = CycleLoop(views, base.settings, intake.trigger, may_act, delivery.executor, health, base.clock)
    loop.is_ready = accounts.is_ready
    options, metrics = base.options, base.pages.metrics
    watch = CycleWatch(lambda: loop.busy_since, base.clock.monotonic, health, metrics, options.cycle_timeout_s)
    reporter = reporting.reporter
    parts = [
        *(Part(source.path, each.run) for each, source in zip(intake.reflectors, SOURCES, strict=True)),
        Part("connections", partial(startup.open_connections, base.api), may_end=True),
        Part("schedule", partial(startup.run_cycles, loop), ends_on_drain=True),
        Part("cycle watch", watch.run),
        Part("free memory", free_memory.run, may_end=True),
        Part("selectors", selectors.run, stop=selectors.stop),
        Part("binder", delivery.binder.run, drain=delivery.binder.drained),
        Part("evicter", delivery.deleter.run, drain=delivery.deleter.drained),
        Part("reporter", reporter.run, drain=reporter.finish, stop=reporter.finish),
        Part("writer", reporting.writer.run, drain=reporting.writer.drained),
        Part("volumes", stop=delivery.volumes.stop),
        Part("claims", stop=delivery.claims.stop),
        Part("claim releases", partial(startup.run_leading, delivery.leftovers.run), stop=delivery.leftovers.stop),
        Part("shares", stop=delivery.shares.stop),
        Part("reservations", partial(startup.run_leading, delivery.reservations.run)),
        Part("usage", partial(startup.run_leading, accounts.run), drain=accounts.save),
        Part("grouper", partial(startup.run_grouping, grouping.grouper, grouping.writer)),
    ]
    scaling = _build_scaling(base, intake)
    parts.append(Part("scaling pods", partial(startup.run_leading, scaling.run), ends_on_drain=True))
    if base.options.default_queues and not base.settings.config.node_pool:
        parts.append(Part("default queues", partial(startup.make_default_queues, base.api, base.options), may_end=True))
    identity = ProcessIdentity(
        base.settings.config.scheduler_name,
        base.options.lease_name(base.settings.config),
        base.api.credentials().server,
    )
    frame = KopfFrame(intake.paced, base.api, base.ending)
    operator = Operator(base.options, identity, base.lease, base.pages, base.webhooks, parts, frame)
    _show_numbers(metrics, intake)
    base.pages.alive["cycle"] = watch.lasting_problem
    base.pages.alive["cycles"] = reporting.health.problem
    base.pages.alive["lease"] = operator.lease_problem
    checks = _checks(base, intake, startup)
    checks |= {"cycle": watch.late_problem, "cycles": reporting.health.failure}
    base.pages.readiness.expect(checks)
    return operator


def build_intake(base: Base) -> Intake:
    """Build what every other part needs."""
    config, clock = base.settings.config, base.clock
    store = Store()
    overlay = Overlay(store)
    trigger = CycleTrigger(overlay)
    store_changed = asyncio.Event()
    observations = Observations()
    requests = GroupingRequests(clock.monotonic, base.rng)

    def changed(matters: bool) -> None:
        trigger.request(matters)
        store_changed.set()

    reader = Reader(config)
    groups = Groups(store, overlay, reader, config, changed, requests, observations.owners.forget)
    observer = StatusObserver(config, base.settings, KubernetesGroups(requests).show, observations)
    sink = EventSink(store, overlay, reader, groups, config, changed, observer)
    for kind, name in base.settings.known():  # they were read before anything was watched
        sink.expect(kind, name)
    paced, metrics = PacedSink(sink), base.pages.metrics
    reflectors = [Reflector(base.api, source, paced, base.rng, on_restart=metrics.count_restart) for source in SOURCES]
    return Intake(
        store=store,
        overlay=overlay,
        trigger=trigger,
        store_changed=store_changed,
        observations=observations,
        requests=requests,
        groups=groups,
        sink=sink,
        paced=paced,
        reflectors=reflectors,
        binds=FifoQueue(),
        evictions=FifoQueue(),
        writes=WriteQueue(partial(report_lost_write, metrics)),
    )


def _build_grouping(base: Base, intake: Intake) -> GroupingParts:
    monotonic, groups, requests = base.clock.monotonic, intake.groups, intake.requests
    owners, emit = intake.observations.owners, intake.writes.submit
    reporter = GroupingReporter(groups, requests, owners, emit, monotonic)
    cache = OwnerCache(OwnerReader(base.api, monotonic), monotonic)
    rules = RuleSettings(base.api, intake.store, intake.sink, base.settings.current)
    grouper = WorkloadGrouper(intake.store, groups, requests, cache, rules, reporter, base.clock, base.rng)
    writer = GroupWriter(base.api, groups, intake.sink, requests, reporter, intake.binds_wait)
    return GroupingParts(grouper, writer)


def _build_reporting(base: Base, intake: Intake) -> ReportingParts:
    config, metrics, held = base.settings.config, base.pages.metrics, base.lease.held
    writer = StatusWriter(
        base.api,
        intake.writes,
        config.scheduler_name,
        intake.is_busy,
        base.clock.wall_ns,
        intake.sink.pending_version,
        base.rng,
    )
    reporter = StatusReporter(
        intake.store,
        intake.observations,
        metrics,
        config,
        intake.is_busy,
        held,
        intake.writes,
        base.clock,
    )
    lease = (base.options.namespace, base.options.lease_name(config))
    health = CycleHealth(metrics, intake.writes.submit, held, lease, base.clock.monotonic, base.recorder)
    return ReportingParts(reporter, writer, health)


def _build_accounts(base: Base, intake: Intake) -> Accounts:
    options, trigger, queried = base.options, intake.trigger, base.pages.metrics.observe_usage_query

    def make(config: Callable[[], Config]) -> UsageAccounts:
        owner = options.lease_name(config()) if options.shard else scheduler_and_pool(config())
        place = options.namespace, owner + names.PAST_USAGE_SUFFIX
        return UsageAccounts(base.api, place, config, trigger.lead, trigger.request, base.clock, queried)

    return make(base.settings.current) if options.shard else ShardAccounts(base.settings, make)


def _build_delivery(base: Base, intake: Intake, reporter: StatusReporter, accounts: Accounts) -> DeliveryParts:
    store, overlay, trigger, clock = intake.store, intake.overlay, intake.trigger, base.clock

    def class_config(name: str) -> Sequence[Mapping[str, Any]]:
        found = store.get(DeviceClass, name)
        return found.config if found is not None else ()

    claim_requests = ClaimWriter(base.api, class_config, base.rng)
    claim_reservations = ClaimReservations(claim_requests, overlay.claims, trigger.request)
    binds = BindTracker(store, overlay, trigger, reporter, clock, claim_reservations)
    evictions = EvictionTracker(store, overlay, intake.evictions, reporter, trigger, clock)
    binder = PodBinder(base.api, intake.binds, binds, base.rng, base.api.binds_at_once)
    mark = base.options.mark_evicted
    deleter = PodDeleter(base.api, intake.evictions, evictions, notice, clock.wall_ns, base.rng, mark)

    def volume_version(name: str) -> str:
        return str(intake.sink.known(VOLUME).get(name, ""))

    sharing = SharingRequests(base.api, base.rng)
    reservations = GpuReservations(
        sharing,
        (store, overlay),
        intake.store_changed,
        base.settings.current,
        intake.writes.submit,
        base.own_pod,
        clock,
        base.rng,
    )
    binds.retries.awaited_devices = reservations.awaited
    shares = ShareBinder(sharing, reservations, store, base.settings.current, binder.submit, binds)
    claims = ClaimBinder(claim_reservations, shares.submit, binds)
    leftovers = ClaimLeftovers(store, base.settings.current, claim_reservations)
    volumes = VolumeBinder(base.api, store, intake.store_changed, base.rng, claims.submit, binds.failed, volume_version)
    executor = CycleExecutor(evictions, binds, volumes.submit, accounts.after(base.live_page.after(reporter.acted)))
    return DeliveryParts(executor, binder, deleter, volumes, claims, leftovers, shares, reservations)


def _build_scaling(base: Base, intake: Intake) -> ScalingPods:
    return ScalingPods(
        base.api,
        intake.store.cluster,
        intake.observations.unschedulable,
        base.settings.current,
        partial(SharingRequests(base.api, base.rng).image_of, base.own_pod),
        base.clock,
    )


def _show_numbers(metrics: Metrics, intake: Intake) -> None:
    """Register the lengths of all queues, and the times of the event loop, as metrics."""
    metrics.watch("binds", lambda: intake.binds.pending)
    metrics.watch("evictions", lambda: intake.evictions.pending)
    metrics.watch("writes", lambda: intake.writes.pending)
    metrics.watch("events", lambda: intake.writes.events)
    metrics.watch("reconcile requests and writes of pod groups", lambda: intake.requests.pending)
    loop = asyncio.get_running_loop()
    if isinstance(loop, MeasuredLoop):
        metrics.add(LoopTimes(loop, metrics.prefix))


def _checks(base: Base, intake: Intake, startup: Startup) -> dict[str, Callable[[], str]]:
    """What scheduling waits for, by the name of the check."""
    checks: dict[str, Callable[[], str]] = {
        "kernels": startup.kernels_problem,
        "lease": lambda: remedied(base.lease.failure or "", base.options.namespace),
        "requests": base.api.refusals,
    }
    for reflector, source in zip(intake.reflectors, SOURCES, strict=True):
        name = source.resource
        checks[f"{name}.{source.group}" if name in checks else name] = partial(_unsynced, reflector)
    if base.options.webhook_address:
        checks["certificate"] = base.webhooks.certificate_problem
    return checks


def _unsynced(reflector: Reflector) -> str:
    return "" if reflector.synced else reflector.state
