"""The order in which the process starts, drains and stops, its exit status, and what follows the loss of the lease."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from kai_sched import __version__
from kai_sched.cluster.lease import LeaderLease
from kai_sched.operator.http.certificate import remedied
from kai_sched.operator.http.pages import Pages
from kai_sched.operator.http.webhook_service import WebhookService
from kai_sched.operator.kopf_frame import KopfFrame
from kai_sched.operator.options import RunOptions
from kai_sched.operator.process_part import Part

log = structlog.get_logger("operator")

DRAIN_S = 5.0
RELEASE_S = 5.0
STANDBY_S = 3.0  # a replica that has not got the lease by then logs who has it


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """What the log says about the process when it starts: the scheduler, the lease and the API server by name."""

    scheduler: str
    lease: str
    server: str


class Operator:
    """One process. ``run`` returns the exit status; ``start`` and ``stop`` are called by kopf.

    Parameters
    ----------
    options
        How it was started.
    identity
        What the log says about it.
    lease
        Who leads.
    pages
        The pages for the kubelet and for Prometheus.
    webhooks
        The webhooks, which are served before the start and for a while after the end.
    parts
        Everything else that runs, in the order of the data.
    frame
        Calls ``start`` and ``stop``.
    """

    def __init__(
        self,
        options: RunOptions,
        identity: ProcessIdentity,
        lease: LeaderLease,
        pages: Pages,
        webhooks: WebhookService,
        parts: Sequence[Part],
        frame: KopfFrame,
    ) -> None:
        self._options = options
        self._identity = identity
        self._lease = lease
        self._pages = pages
        self._webhooks = webhooks
        self._parts = [
            *parts,
            Part("lease", self._watch_lease, stop=lambda: lease.release(RELEASE_S)),
        ]
        self._frame = frame
        self._is_stopping = False
        self.failure = ""

    def lease_problem(self) -> str:
        """The check "lease" of /healthz."""
        has_ended = self._lease.ended and not self._is_stopping
        return "the thread that renews the lease has ended" if has_ended else ""

    async def run(self) -> int:
        """Run until a signal (returns 0) or a failure that cannot be recovered from (returns 1)."""
        try:
            await self._frame.run(self.start, self.stop)
        except Exception as error:
            # Kopf ends on answers that it does not expect. The next process does its work again.
            log.error("operator.kopf_ended", problem=f"{type(error).__name__}: {error}")
            self.failure = self.failure or str(error)
        return 1 if self.failure else 0

    async def start(self) -> None:
        """Start all parts."""
        log.info(
            "operator.started",
            version=__version__,
            scheduler=self._identity.scheduler,
            lease=self._identity.lease,
            identity=self._lease.identity,
            server=self._identity.server,
            port=self._pages.port,
        )
        self._lease.start(self._identity.lease)
        for part in self._parts:
            part.start(self._part_ended)

    async def stop(self) -> None:
        """Finish what is under way, let another replica lead, and end. A second signal ends the wait for webhooks."""
        self._is_stopping = self._pages.readiness.stopping = True
        began, hurry = time.monotonic(), asyncio.Event()
        on_signals(hurry)
        if self._lease.held():
            await self._drain()
        for part in self._parts:
            await part.stop()
        await self._webhooks.stop(began, hurry)
        await self._pages.stop()  # kopf would wait for open connections
        self._frame.end()
        log.info("operator.stopped", failure=self.failure)

    async def _drain(self) -> None:
        part = self._parts[0]
        try:
            async with asyncio.timeout(DRAIN_S):
                for part in self._parts:
                    await part.drain()
        except TimeoutError:
            log.warning("operator.unfinished", part=part.name)

    def _part_ended(self, name: str, error: BaseException | None) -> None:
        if not self._is_stopping and not self.failure:
            log.error("operator.part_ended", part=name, exc_info=error)
            self._give_up(f"{name} ended: {error}")

    def _give_up(self, why: str) -> None:
        self.failure = self.failure or why
        self._frame.end()

    async def _watch_lease(self) -> None:
        """Log when this replica leads. End the process when it loses the lease, so that it sends no old decisions."""
        lease = self._lease
        try:
            async with asyncio.timeout(STANDBY_S):
                await lease.wait_held()
        except TimeoutError:
            if lease.failure:
                log.warning("lease.failed", problem=remedied(lease.failure, self._options.namespace))
            else:
                log.info("lease.waits", state=lease.state, holder=lease.holder)
            await lease.wait_held()
        log.info("lease.held", identity=lease.identity)
        await lease.wait_lost()
        if not self._is_stopping:
            log.error("lease.lost", holder=lease.holder)
            self._give_up("the lease was lost")


def on_signals(event: asyncio.Event) -> None:
    """From now on the signals that end a process set the event, and do nothing else."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, event.set)
