"""``kai-sched top``: the table of ``simulate`` on a terminal, read and decided again every few seconds until a key ends
it. A pipe gets it once, as ``simulate`` prints it.
"""

from __future__ import annotations

import io
import os
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr

from kai_sched.answers.words import count
from kai_sched.cli.inputs import BAD_INPUT, print_error, read_input
from kai_sched.cli.simulate import SimulateOptions, simulate, tables
from kai_sched.model.field_errors import FieldError
from kai_sched.report.columns import Line
from kai_sched.report.console import colours
from kai_sched.report.text import plain
from kai_sched.telemetry.progress import Progress

# So many cycles are worth compiled kernels where a single one is not.
CYCLES_EXPECTED = 100
END_KEYS = ("q", "Q", "\x03", "\x04", "\x1b")


def top(options: SimulateOptions, every_s: float) -> int:
    """Show the table until a key ends it; returns the exit status: 2 if the input cannot be used at the start."""
    if not sys.stdout.isatty():
        return simulate(options)
    lines, said = _read(options)
    if not lines:
        sys.stderr.write(said)
        return BAD_INPUT
    try:
        with _screen() as show, _keys() as is_ended:
            show(_fitted(lines, said, every_s))
            while not is_ended(every_s):
                fresh, said = _read(options)
                lines = fresh or lines  # what cannot be read now may be readable later
                show(_fitted(lines, said, every_s))
    except KeyboardInterrupt:
        pass
    return 0


def _read(options: SimulateOptions) -> tuple[list[Line], str]:
    """The lines of a cluster, none where it cannot be used, and what there is to say of the input."""
    found: list[Line] = []
    with redirect_stderr(io.StringIO()) as said:
        progress = Progress(sys.stderr)
        try:
            if (read := read_input(options.input, CYCLES_EXPECTED, progress)) is not None:
                for case in read.cases:
                    found += tables(case, options.shown, read.as_of, len(read.cases) > 1, progress)
        except FieldError as error:
            print_error(error)
            found = []
    return found, said.getvalue()


def _fitted(lines: Sequence[Line], said: str, every_s: float) -> list[Line]:
    """As many lines as the terminal has, the last one or two of them about the display itself."""
    said_lines = said.splitlines()
    errors: list[Line] = [[(plain(text), "red")] for text in said_lines if text.startswith("error:")][:1]
    rows = max(2, shutil.get_terminal_size((80, 24)).lines) - 1 - len(errors)
    texts = [f"every {every_s:g} s, at {time.strftime('%H:%M:%S')}; q ends"]
    if len(lines) > rows:
        texts.append(f"{count(len(lines) - rows, 'more line')}: kai-sched simulate has all")
    if warnings := sum(text.startswith("warning:") for text in said_lines):
        texts.append(f"{count(warnings, 'warning')}: kai-sched simulate has them")
    return [*lines[:rows], [("; ".join(texts), "dim")], *errors]


@contextmanager
def _screen() -> Iterator[Callable[[Sequence[Line]], None]]:
    """A function that shows lines, on a screen of their own that goes away at the end."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    no_colour = not colours(sys.stdout)
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False, no_color=no_colour)
    with Live(console=console, screen=True, auto_refresh=False, redirect_stderr=False) as live:

        def show(lines: Sequence[Line]) -> None:
            text = Text("\n", no_wrap=True, overflow="crop").join(Text.assemble(*line) for line in lines)
            live.update(text, refresh=True)

        yield show


@contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """A function that waits so many seconds, and says whether a key came that ends the display."""
    if not sys.stdin.isatty():

        def wait(seconds: float) -> bool:
            time.sleep(seconds)
            return False

        yield wait
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield lambda seconds: _is_ended(terminal, seconds)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _is_ended(terminal: int, seconds: float) -> bool:
    """Another key refreshes at once."""
    ready, _, _ = select.select([terminal], [], [], seconds)
    if not ready:
        return False
    text = os.read(terminal, 64).decode("utf-8", "replace")
    return not text or text in END_KEYS
