"""What waits for what at the start of a replica and of its leadership: compiled kernels, first lists, grouping, default
queues.

Cycles run once the kernels are compiled and everything has been listed. Pods are grouped once everything has been
listed and the lease is held.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from kai_sched.api import names
from kai_sched.cluster.client import Api
from kai_sched.cluster.lease import LeaderLease
from kai_sched.cluster.reflector import Reflector
from kai_sched.model.read.kinds import POD, QUEUE
from kai_sched.operator.cycle.loop import CycleLoop
from kai_sched.operator.cycle_trigger import CycleTrigger
from kai_sched.operator.default_queues import create_default_queues
from kai_sched.operator.garbage_collection import GarbagePolicy
from kai_sched.operator.grouping.group_writer import GroupWriter
from kai_sched.operator.grouping.workload_grouper import WorkloadGrouper
from kai_sched.operator.intake.event_sink import EventSink
from kai_sched.operator.options import RunOptions
from kai_sched.solver.warmup import compile_all

log = structlog.get_logger("operator")


class Startup:
    """For one event loop.

    Parameters
    ----------
    reflectors, sink
        What is listed, and where it goes.
    lease
        Who leads.
    trigger
        Starts the first cycle.
    """

    def __init__(
        self, reflectors: Sequence[Reflector], sink: EventSink, lease: LeaderLease, trigger: CycleTrigger
    ) -> None:
        self._reflectors = reflectors
        self._sink = sink
        self._lease = lease
        self._trigger = trigger
        self._is_compiled = False

    def kernels_problem(self) -> str:
        """The check "kernels" of readiness."""
        return "" if self._is_compiled else "the solver is being compiled"

    async def wait_synced(self) -> None:
        """Return once every kind has been listed."""
        for reflector in self._reflectors:
            await reflector.wait_listed()

    async def run_cycles(self, loop: CycleLoop) -> None:
        """Run cycles once the kernels are compiled and everything is known."""
        garbage = GarbagePolicy()
        garbage.start()
        await asyncio.to_thread(compile_all)
        self._is_compiled = True
        await self.wait_synced()
        log.info("operator.synced", pods=len(self._sink.known(POD)), queues=len(self._sink.known(QUEUE)))
        garbage.settle()
        self._trigger.request()
        await loop.run()

    async def run_grouping(self, grouper: WorkloadGrouper, writer: GroupWriter) -> None:
        """Group pods once everything is known and the lease is held; afterwards cycles act."""
        await self.wait_synced()
        await self._lease.wait_held()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(grouper.run(self._trigger.lead))
            tasks.create_task(writer.run())

    async def run_leading(self, run: Callable[[], Awaitable[None]]) -> None:
        """Run a part that acts once everything is known and the lease is held."""
        await self.wait_synced()
        await self._lease.wait_held()
        await run()

    async def open_connections(self, api: Api) -> None:
        """Open connections for binds once this replica leads."""
        await self._lease.wait_held()
        await api.warm()

    async def make_default_queues(self, api: Api, options: RunOptions) -> None:
        """Create the default queues if this process created the Lease, or if no queue but the default parent exists."""
        await self._lease.wait_held()
        await self.wait_synced()
        if self._lease.created or not set(self._sink.known(QUEUE)) - {names.DEFAULT_PARENT_QUEUE}:
            await create_default_queues(api, options.installed.queues)
