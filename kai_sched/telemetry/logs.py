"""Logs of a process that runs for months: structlog, one line an event, and what the libraries say among it.

An event is a stable dotted name, as "cycle.done"; facts are keys. Libraries log by logging, where only warnings and
worse pass: their event is the name of the logger, and their text the key "message".
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

WARNINGS_A_MINUTE = 100
MINUTE_S = 60.0


def set_up(stream: TextIO, as_json: bool | None = None) -> None:
    """Write all logs of the process to ``stream``: JSON lines, or for people; None: for people on a terminal."""
    if as_json is None:
        as_json = not stream.isatty()
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[Bound(), *shared, *_rendering(stream, as_json)],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, _name_as_event],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(stream, as_json)],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)


class Bound:
    """Lets so many warnings of the same event through in a minute; the first one of the next says how many came more.

    What tenants write brings about most of them. Facts of the same kind are in the events of the objects, too.
    """

    def __init__(self, most: int = WARNINGS_A_MINUTE, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._seen: dict[str, tuple[float, int]] = {}  # by event: when its minute began, and how many came since

    def __call__(self, _logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        if method in ("debug", "info"):
            return event
        name, now = str(event["event"]), self._clock()
        since, count = self._seen.get(name, (now, 0))
        if now - since >= MINUTE_S:
            if count > self._most:
                event["and_more"] = count - self._most
            since, count = now, 0
        self._seen[name] = (since, count + 1)
        if count >= self._most:
            raise structlog.DropEvent
        return event


def _rendering(stream: TextIO, as_json: bool) -> list[Processor]:
    if as_json:
        json_lines = structlog.processors.JSONRenderer(ensure_ascii=False)
        return [structlog.processors.format_exc_info, _head_first, json_lines]
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)]


def _name_as_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {**event, "event": event["_record"].name, "message": event["event"]}


def _head_first(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    head = ("timestamp", "level", "event")
    return dict([*((name, event[name]) for name in head), *event.items()])
