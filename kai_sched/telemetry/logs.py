"""Logs of a process that runs for months: structlog, one line an event, and what the libraries say among it.

An event is a stable dotted name, as "cycle.done"; facts are keys. Libraries log by logging, where only warnings and
worse pass: their event is the name of the logger, and their text the key "message".
"""

from __future__ import annotations

import logging
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger


def set_up(stream: TextIO, as_json: bool | None = None) -> None:
    """Write all logs of the process to ``stream``: JSON lines, or for people; None: for people on a terminal."""
    if as_json is None:
        as_json = not stream.isatty()
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, *_rendering(stream, as_json)],
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
