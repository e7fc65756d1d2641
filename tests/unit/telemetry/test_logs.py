"""Logs: one JSON line an event, libraries among it from warnings on, and lines for people on a terminal."""

from __future__ import annotations

import io
import json
import logging
import warnings
from datetime import UTC, datetime, timedelta

import pytest
import structlog

from kai_sched.telemetry import logs


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        return True


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_json_line() -> None:
    stream = io.StringIO()
    logs.set_up(stream)
    structlog.get_logger().info("cycle.done", pods=3, node="nœud\n2", odd=object)
    (line,) = lines(stream)
    assert list(line)[:3] == ["timestamp", "level", "event"]
    assert datetime.now(UTC) - datetime.fromisoformat(str(line.pop("timestamp"))) < timedelta(minutes=1)
    assert line == {"event": "cycle.done", "level": "info", "pods": 3, "node": "nœud\n2", "odd": repr(object)}


def test_loggers_made_before_the_set_up_take_part() -> None:
    log = structlog.get_logger()
    stream = io.StringIO()
    logs.set_up(stream)
    log.warning("lease.lost")
    assert [line["event"] for line in lines(stream)] == ["lease.lost"]


def test_debug_is_kept_out() -> None:
    stream = io.StringIO()
    logs.set_up(stream)
    structlog.get_logger().debug("queue.seen")
    assert stream.getvalue() == ""


def test_debug_can_be_had_and_libraries_stay_as_they_are() -> None:
    stream = io.StringIO()
    logs.set_up(stream, level="debug")
    structlog.get_logger().debug("queue.seen")
    logging.getLogger("kopf").info("Handler 'queue' succeeded.")
    assert [line["event"] for line in lines(stream)] == ["queue.seen"]


def test_a_level_keeps_out_what_is_below_it() -> None:
    stream = io.StringIO()
    logs.set_up(stream, level="error")
    structlog.get_logger().warning("object.doubtful")
    logging.getLogger("kopf").warning("late")
    structlog.get_logger().error("lease.lost")
    assert [line["event"] for line in lines(stream)] == ["lease.lost"]


def test_a_flood_of_warnings_is_held_back_and_counted() -> None:
    now = 0.0
    limit = logs.RateLimit(3, lambda: now)

    def said(event: str, level: str = "warning") -> dict[str, object] | None:
        try:
            return dict(limit(None, level, {"event": event, "level": level}))
        except structlog.DropEvent:
            return None

    told = [said("object.doubtful") for _ in range(10)]
    assert [line is not None for line in told] == [True] * 3 + [False] * 7
    assert said("lease.lost") == {"event": "lease.lost", "level": "warning"}  # others are not held back by it
    assert all(said("group.bound", "info") for _ in range(10))  # nor is what is no warning
    now = 60.0
    assert said("object.doubtful") == {"event": "object.doubtful", "level": "warning", "suppressed": 7}
    assert said("object.doubtful") == {"event": "object.doubtful", "level": "warning"}


def test_floods_are_held_back_in_the_log() -> None:
    stream = io.StringIO()
    logs.set_up(stream)
    for _ in range(2 * logs.MOST_A_MINUTE):
        structlog.get_logger().warning("object.doubtful")
        logging.getLogger("kopf").warning("again")
    assert len(lines(stream)) == 2 * logs.MOST_A_MINUTE


def test_a_failure_has_its_traceback_in_the_same_line() -> None:
    stream = io.StringIO()
    logs.set_up(stream)
    try:
        raise ValueError("no such row")
    except ValueError:
        structlog.get_logger().exception("cycle.failed")
    (line,) = lines(stream)
    assert (line["event"], line["level"]) == ("cycle.failed", "error")
    assert str(line["exception"]).endswith("ValueError: no such row")


def test_libraries_are_heard_from_warnings_on() -> None:
    stream = io.StringIO()
    logs.set_up(stream)
    logging.getLogger("kopf.objects").info("Handler 'queue' succeeded.")
    logging.getLogger("aiohttp.server").error("Error handling request from %s", "10.0.0.1")
    (line,) = lines(stream)
    del line["timestamp"]
    assert line == {"event": "aiohttp.server", "level": "error", "message": "Error handling request from 10.0.0.1"}


def test_a_library_s_traceback_is_in_its_line() -> None:
    stream = io.StringIO()
    logs.set_up(stream)
    try:
        raise OSError("cut")
    except OSError:
        logging.getLogger("asyncio").exception("Task failed")
    (line,) = lines(stream)
    assert line["message"] == "Task failed"
    assert str(line["exception"]).endswith("OSError: cut")


def test_python_s_warnings_are_lines_too() -> None:
    stream = io.StringIO()
    logs.set_up(stream)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(False)
        logging.captureWarnings(True)
        warnings.warn("the cache cannot be written", stacklevel=1)
    (line,) = lines(stream)
    assert line["event"] == "py.warnings"
    assert "the cache cannot be written" in str(line["message"])


@pytest.mark.parametrize(("stream", "as_json"), [(Terminal(), None), (io.StringIO(), False)])
def test_people_get_lines_for_people(stream: io.StringIO, as_json: bool | None) -> None:
    logs.set_up(stream, as_json)
    structlog.get_logger().info("cycle.done", pods=3)
    logging.getLogger("aiohttp.server").warning("slow")
    first, second = stream.getvalue().splitlines()
    assert "cycle.done" in first
    assert "aiohttp.server" in second
    assert "slow" in second
    assert not first.startswith("{")


def test_json_can_be_had_on_a_terminal() -> None:
    stream = Terminal()
    logs.set_up(stream, as_json=True)
    structlog.get_logger().info("cycle.done")
    assert lines(stream)[0]["event"] == "cycle.done"


def test_setting_up_again_replaces_what_was() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.set_up(first)
    logs.set_up(second)
    logging.getLogger("kopf").warning("late")
    structlog.get_logger().info("cycle.done")
    assert first.getvalue() == ""
    assert [line["event"] for line in lines(second)] == ["kopf", "cycle.done"]
