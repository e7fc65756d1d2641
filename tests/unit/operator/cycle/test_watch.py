"""A cycle that takes too long is told, and ends the process when it lasts."""

from __future__ import annotations

import asyncio
import faulthandler
from typing import Any

import pytest
import structlog

from kai_sched.operator.cycle import watch as cycle_watch
from kai_sched.operator.cycle.watch import CycleWatch
from tests.unit.operator.cycle.test_health import Ear, failing
from tests.unit.telemetry.test_metrics import values


class Late:
    """A watch, with the time, and the start of a cycle."""

    def __init__(self, limit_s: float = 120.0) -> None:
        self.time = 1000.0
        self.since: float | None = None
        self.ear = Ear(lambda: self.time)
        self.watch = CycleWatch(lambda: self.since, lambda: self.time, self.ear.troubles, self.ear.metrics, limit_s)


def test_a_cycle_is_late_after_ten_seconds_and_lasts_from_the_limit_on() -> None:
    late = Late()
    assert (late.watch.running_s(), late.watch.late_problem(), late.watch.lasting_problem()) == (0.0, "", "")
    late.since = late.time
    late.time += 9.0
    assert late.watch.late_problem() == ""
    late.time += 3.0
    assert late.watch.late_problem() == "a cycle has been running for 12 s"
    assert late.watch.lasting_problem() == ""
    assert values(late.ear.metrics, "kai_cycle_running_seconds") == {(): 12.0}
    late.time += 110.0
    assert late.watch.lasting_problem() == "a cycle has been running for 122 s"
    late.since = None
    assert (late.watch.late_problem(), late.watch.lasting_problem()) == ("", "")


def test_cycles_that_fail_are_told_from_the_second_on_and_end_the_process_in_the_end() -> None:
    late = Late()
    late.ear.troubles.failed(failing("x"))
    assert late.ear.troubles.failure() == ""
    late.ear.troubles.failed(failing("x"))
    assert late.ear.troubles.failure() == "2 cycles in a row have failed: ValueError: x"
    for _ in range(8):
        late.ear.troubles.failed(failing("x"))
    late.time += 61.0
    assert "10 cycles in a row have failed" in late.watch.lasting_problem()
    late.ear.troubles.succeeded(0.0)
    assert (late.ear.troubles.failure(), late.watch.lasting_problem()) == ("", "")


def test_without_a_limit_the_process_goes_on() -> None:
    late = Late(limit_s=0.0)
    late.since, late.time = 0.0, 1e6
    assert late.watch.late_problem() != ""
    assert late.watch.lasting_problem() == ""


async def test_the_watch_logs_each_late_cycle_once_and_ends_with_one_that_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kills: list[Any] = []
    monkeypatch.setattr(cycle_watch, "PERIOD_S", 0.001)
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda *given, **named: kills.append((given, named)))
    late = Late()
    late.since = late.time
    with structlog.testing.capture_logs() as logs:
        task = asyncio.create_task(late.watch.run())
        late.time += 11.0
        await asyncio.sleep(0.05)
        assert [entry["event"] for entry in logs] == ["cycle.late"]
        late.since = None
        await asyncio.sleep(0.01)
        late.since = late.time
        late.time += 125.0
        await asyncio.wait_for(task, 5.0)
    assert [entry["event"] for entry in logs] == ["cycle.late", "cycle.lasts"]
    assert kills == [((cycle_watch.END_S,), {"exit": True})]
