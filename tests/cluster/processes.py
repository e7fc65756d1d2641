"""Processes of the cluster tests: start, show what they said, end those and no others; and waiting for conditions."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.05
TAIL_LINES = 30
# Below what the kernel gives to outgoing connections: one of these, trying to reach a server that is being restarted,
# could be given the very port, and take it or be connected to itself.
PORTS = range(10_000, 30_000)
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def wait_until(condition: Callable[[], T | None], what: str, timeout_s: float = 30.0, poll_s: float = POLL_S) -> T:
    """The first true value of the condition. An AssertionError of the condition counts as not yet.

    Raises AssertionError with what was waited for, and the last value or failure, at the deadline.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        last: object
        try:
            value = condition()
            if value:
                return value
            last = value
        except AssertionError as failure:
            last = failure
        if time.monotonic() > deadline:
            raise AssertionError(f"after {timeout_s:g} s still waiting for {what}; last seen: {last}")
        time.sleep(poll_s)


def _end_with_parent() -> None:
    """In the child: a test run that is killed leaves no process behind."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Process:
    """One program that runs in the background, its output in a file."""

    def __init__(
        self, name: str, command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                preexec_fn=_end_with_parent,
            )
        self.pid = self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def tail(self, lines: int = TAIL_LINES) -> str:
        """The end of what it said."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def wait_until(self, condition: Callable[[], T | None], what: str, timeout_s: float = 60.0) -> T:
        """Wait for a condition that this process brings about.

        Raises AssertionError at the deadline, ChildProcessError where it ends before, with its tail.
        """

        def alive() -> T | None:
            if self.exit_code is not None:
                raise ChildProcessError(f"{self.name} ended with {self.exit_code} before {what}:\n{self.tail()}")
            return condition()

        try:
            return wait_until(alive, what, timeout_s)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.name} said:\n{self.tail()}") from None

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; nothing where it has ended."""
        self._process.send_signal(number)

    def wait(self, timeout_s: float = 30.0) -> int:
        """Its exit code, when it ends by itself. Raises AssertionError with its tail at the deadline."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} has not ended after {timeout_s:g} s:\n{self.tail()}") from None

    def kill(self) -> int:
        """SIGKILL, and its exit code."""
        self.signal(signal.SIGKILL)
        return self._process.wait()

    def end(self, timeout_s: float = 15.0) -> None:
        """SIGTERM, and SIGKILL where that does not end it in time. A stopped process is continued first."""
        if self.exit_code is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
