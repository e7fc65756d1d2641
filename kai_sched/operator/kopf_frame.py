"""What kopf does: it starts and stops the process, renews the login, and hands events of queues and pod groups on a
second time.

Its handlers only hand events on to the event sink; nothing is decided here. See docs/adr/0004.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import Any

import kopf
import msgspec

from kai_sched.cluster.backoff import Backoff
from kai_sched.cluster.client import Api
from kai_sched.cluster.login import LoginFailure
from kai_sched.model.read.kinds import POD_GROUP, QUEUE, Kind
from kai_sched.operator.intake.paced_sink import PacedSink

IDENTITY: Any = "kai-sched"
LOGIN_PAUSE_S = 1.0
BACKOFF = Backoff(0.5, 10.0)

# What kopf watches. The reflectors watch these kinds too (intake/sources.py): kopf does not report what was deleted
# during a gap in its watch. Kopf lists a kind only when a watch begins, not periodically.
KINDS: tuple[tuple[Kind, str], ...] = ((QUEUE, "queues"), (POD_GROUP, "podgroups"))


Run = Callable[[], Awaitable[None]]


class KopfFrame:
    """Runs the process in the frame of kopf.

    Parameters
    ----------
    sink
        Hears of queues and pod groups.
    api
        Gives the login.
    ending
        Ends the frame when it is set.
    """

    def __init__(self, sink: PacedSink, api: Api, ending: asyncio.Event) -> None:
        self._sink = sink
        self._api = api
        self._ending = ending

    def end(self) -> None:
        """Have the process end."""
        self._ending.set()

    async def run(self, start: Run, stop: Run) -> None:
        """Run until the end of the process; kopf calls ``start`` and ``stop``. Raises what kopf raises."""
        await kopf.operator(
            registry=make_registry(self._sink, self._api, start, stop),
            settings=kopf_settings(),
            standalone=True,
            clusterwide=True,
            stop_flag=self._ending,
            # Unused without peering; else kopf asks for the user's name, and the user of a container may have none.
            identity=IDENTITY,
        )


def make_registry(sink: PacedSink, api: Api, start: Run, stop: Run) -> kopf.OperatorRegistry:
    """Return handlers that start and stop the rest, log in as ``api`` does, and hand events of our kinds on."""
    registry = kopf.OperatorRegistry()

    async def on_startup(**_: Any) -> None:
        await start()

    async def on_cleanup(**_: Any) -> None:
        await stop()

    logins = count()

    async def on_login(**_: Any) -> kopf.ConnectionInfo:
        number = next(logins)
        if number:  # the last login was refused, and there may be no other yet
            await asyncio.sleep(LOGIN_PAUSE_S)
        try:
            await api.renew()
        except LoginFailure as failure:
            raise kopf.TemporaryError(str(failure), delay=5.0) from failure
        found = api.credentials()
        return kopf.ConnectionInfo(
            server=found.server,
            ca_path=found.ca_path,
            insecure=found.insecure,
            certificate_path=found.certificate_path,
            private_key_path=found.private_key_path,
            scheme=found.scheme,
            token=found.token,
            proxy_url=found.proxy_url,
            priority=number,  # kopf ends if it gets a login that was refused before, so no two are equal
        )

    kopf.on.startup(registry=registry)(on_startup)
    kopf.on.cleanup(registry=registry)(on_cleanup)
    kopf.on.login(registry=registry)(on_login)
    for kind, plural in KINDS:
        group, version = kind[0].split("/")
        kopf.on.event(group, version, plural, registry=registry, id=plural)(_handler(sink, kind))
    return registry


def _handler(sink: PacedSink, kind: Kind) -> Callable[..., Awaitable[None]]:
    async def on_event(event: kopf.RawEvent, **_: Any) -> None:
        raw = msgspec.json.encode(event["object"])
        if event["type"] == "DELETED":
            sink.deleted(kind, raw)
        else:
            sink.changed_late(kind, raw)

    return on_event


def kopf_settings() -> kopf.OperatorSettings:
    """Return settings with which kopf only watches: no events, no finalizers, no annotations, and it never gives up."""
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("kopf")]:
        logging.getLogger(name).addFilter(_RETRIES)
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.networking.error_backoffs = _Forever()
    settings.networking.request_timeout = 30.0
    settings.watching.server_timeout = 300
    settings.process.ultimate_exiting_timeout = 30.0
    return settings


class _Retries(logging.Filter):
    """Makes warnings of the errors that kopf logs about requests that it will retry."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno == logging.ERROR and "will retry" in record.getMessage():
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


_RETRIES = _Retries()


class _Forever:
    """Delays between attempts in seconds, without an end: an API server that is away comes back."""

    def __iter__(self) -> Iterator[float]:
        return map(BACKOFF.wait_s, count(1))
