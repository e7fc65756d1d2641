"""Progress: silence as long as it is quick, a line when it is not."""

from __future__ import annotations

import io
import threading

from kai_sched.telemetry.progress import Progress


class Heard(io.StringIO):
    """A stream that tells when enough lines have come."""

    def __init__(self, lines: int) -> None:
        super().__init__()
        self._missing = lines
        self.enough = threading.Event()

    def flush(self) -> None:
        self._missing -= 1
        if self._missing <= 0:
            self.enough.set()


def test_quick_work_is_silent() -> None:
    stream = io.StringIO()
    with Progress(stream, patience_s=60.0).step("deciding"):
        pass
    assert stream.getvalue() == ""


def test_long_work_is_told_and_told_again() -> None:
    stream = Heard(2)
    with Progress(stream, patience_s=0.0, repeat_s=0.001).step("deciding"):
        assert stream.enough.wait(10)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "kai-sched: deciding ..."
    assert lines[1].startswith("kai-sched: deciding ... (")


def test_the_work_may_say_how_far_it_is() -> None:
    stream, parts = Heard(2), iter(range(1, 1000))
    with Progress(stream, patience_s=0.0, repeat_s=0.001).step(lambda: f"{next(parts)} of 1,000"):
        assert stream.enough.wait(10)
    assert [line.split(" of")[0] for line in stream.getvalue().splitlines()[:2]] == ["kai-sched: 1", "kai-sched: 2"]


def test_the_watcher_ends_when_the_work_fails() -> None:
    before = threading.active_count()
    try:
        with Progress(io.StringIO(), patience_s=60.0).step("deciding"):
            raise ValueError
    except ValueError:
        pass
    assert threading.active_count() == before
