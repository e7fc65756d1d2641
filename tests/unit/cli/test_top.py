"""``kai-sched top``: once on a pipe, and on a terminal until a key ends it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.unit.cli.command import COMMAND, ROOT, environment, run

TEAMS = ROOT / "examples" / "teams"
WAIT_S = 60.0


@dataclass
class Terminal:
    """A terminal that runs the command."""

    controller: int
    process: subprocess.Popen[bytes]
    seen: bytes = b""

    def read_until(self, text: str) -> None:
        """Read until the text was shown since the last call."""
        while text.encode() not in self.seen:
            ready, _, _ = select.select([self.controller], [], [], WAIT_S)
            assert ready, f"no {text!r} in {self.seen!r}"
            self.seen += os.read(self.controller, 65536)
        self.seen = self.seen.partition(text.encode())[2]

    def write(self, keys: bytes) -> None:
        os.write(self.controller, keys)


@contextmanager
def terminal(*arguments: str, lines: int = 50) -> Iterator[Terminal]:
    controller, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, 100, 0, 0))
    command = [*COMMAND, "top", *arguments, "--every", "3600"]
    clean = {name: value for name, value in environment(TERM="xterm-256color").items() if name != "LINES"}
    # Tests that a shell runs in the background ignore SIGINT, which a process inherits.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stdin=end, stdout=end, stderr=end, cwd=ROOT, env=clean, preexec_fn=heed) as process:
        os.close(end)
        try:
            yield Terminal(controller, process)
        finally:
            process.kill()
            os.close(controller)


def test_a_pipe_gets_the_table_once() -> None:
    assert run("top", "examples/teams").stdout == run("simulate", "examples/teams").stdout


def test_input_that_cannot_be_used_is_told_as_by_simulate(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.yaml")
    assert run("top", missing).stderr == run("simulate", missing).stderr
    with terminal(missing) as shown:
        shown.read_until("error: ")
        assert shown.process.wait(WAIT_S) == 2


@pytest.mark.slow
@pytest.mark.parametrize("key", [b"q", b"\x1b"], ids=["q", "escape"])
def test_keys_end_it(key: bytes) -> None:
    with terminal("examples/teams") as shown:
        shown.read_until("every 3600 s")
        shown.write(key)
        shown.read_until("\x1b[?1049l")  # the screen from before is back
        assert shown.process.wait(WAIT_S) == 0


@pytest.mark.slow
def test_a_signal_ends_it_as_control_c_does() -> None:
    with terminal("examples/teams") as shown:
        shown.read_until("every 3600 s")
        shown.process.send_signal(signal.SIGINT)
        assert shown.process.wait(WAIT_S) == 0


@pytest.mark.slow
def test_another_key_reads_the_cluster_again_and_a_failure_leaves_the_table(tmp_path: Path) -> None:
    folder = tmp_path / "teams"
    shutil.copytree(TEAMS, folder)
    with terminal(str(folder)) as shown:
        shown.read_until("4 nodes, 24 GPUs")
        shown.read_until("every 3600 s")
        extra = folder / "extra.yaml"
        extra.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: more}\nstatus: {allocatable: {cpu: 1}}\n")
        shown.write(b" ")
        shown.read_until("5 nodes, 24 GPUs")
        shown.read_until("every 3600 s")
        extra.write_text("{")
        shown.write(b" ")
        shown.read_until("5 nodes, 24 GPUs")
        shown.read_until("every 3600 s")
        shown.read_until("error: ")


@pytest.mark.slow
def test_a_small_terminal_says_what_it_leaves_out() -> None:
    with terminal("examples/teams", lines=6) as shown:
        shown.read_until("more lines: kai-sched simulate has all")
