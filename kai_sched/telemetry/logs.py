"""The format and the levels of log lines, and how many warnings and errors of one name pass in a minute.

An event is a stable dotted name, such as "cycle.done"; facts are keys. Libraries log by logging, where only warnings
and errors pass: their event is the name of the logger, their text is the key "message".
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
MOST_A_MINUTE = 60
NAMES_MAX = 1_000


class RateLimit:
    """A processor that passes MOST_A_MINUTE warnings and errors of a name in a minute, and all other lines.

    The first line of a name after some were dropped says how many in ``suppressed``. For all threads.
    """

    def __init__(self, most: int = MOST_A_MINUTE, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._minutes: dict[str, tuple[float, int]] = {}  # when the minute of the name began, and its lines since

    def __call__(self, _logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        """Raises DropEvent."""
        if LEVELS.get(event.get("level", method), logging.ERROR) < logging.WARNING:
            return event
        suppressed = self.take(str(event.get("event")))
        if suppressed is None:
            raise structlog.DropEvent
        return {**event, "suppressed": suppressed} if suppressed else event

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line of a library passes; its name is that of the logger."""
        suppressed = self.take(record.name)
        if suppressed:
            record.msg, record.args = f"{record.getMessage()} (suppressed={suppressed})", ()
        return suppressed is not None

    def take(self, name: str) -> int | None:
        """Return how many lines of the name were dropped before this one; None if this one is dropped, too."""
        with self._lock:
            now = self._clock()
            began, lines = self._minutes.get(name, (now, 0))
            suppressed = 0
            if now - began >= 60.0:
                suppressed = max(0, lines - self._most)
                began, lines = now, 0
            if len(self._minutes) >= NAMES_MAX:
                self._minutes.clear()
            self._minutes[name] = (began, lines + 1)
            return suppressed if lines < self._most else None


def set_up(stream: TextIO, as_json: bool | None = None, level: str = "info") -> None:
    """Write all logs of the process to ``stream``.

    Parameters
    ----------
    stream
        Where lines are written.
    as_json
        Whether lines are JSON; None: unless the stream is a terminal.
    level
        One of LEVELS. Of libraries only warnings and errors are written in any case.
    """
    limit = RateLimit()
    if as_json is None:
        as_json = not stream.isatty()
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, limit, *_rendering(stream, as_json)],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
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
    handler.addFilter(limit.filter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(logging.WARNING, LEVELS[level]))
    logging.captureWarnings(True)


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
