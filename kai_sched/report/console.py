"""Writes lines to the terminal: when in colour, and how wide."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from typing import TextIO

from kai_sched.report.columns import Line

NARROWEST = 40


def width_of_terminal() -> int | None:
    """The width of the terminal, or of the variable COLUMNS for one; None for a pipe: its lines are never cut."""
    if not sys.stdout.isatty():
        return None
    return max(NARROWEST, shutil.get_terminal_size((80, 24)).columns)


def colours(stream: TextIO) -> bool:
    """Whether to write in colour: to a terminal, unless the variable NO_COLOR is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def write_lines(stream: TextIO, lines: Iterable[Line]) -> None:
    """Write the lines. Their texts are not interpreted as markup."""
    if not colours(stream):
        for line in lines:
            stream.write("".join(text for text, _ in line) + "\n")
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)
    for line in lines:
        console.print(Text.assemble(*line))
