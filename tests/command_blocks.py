"""Which blocks of commands in the documents are run by the tests: every one that is not marked.

The first line of a block says what it is: ``console`` shows commands of kai-sched with their outputs
(``shown_outputs``), and ``sh`` has commands that have to succeed. A second word, ``not-run``, marks those that need a
cluster, the net or minutes. Other blocks hold no commands.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

from tests.tree import ROOT, project_files

NOT_RUN = "not-run"
COMMANDS = {"console", "sh"}
ALSO_SHELLS = {"bash", "shell", "zsh"}
# What begins a line of the shell, in a block that does not say what it holds.
COMMAND = re.compile(r"^(\$ |\.venv/bin/|kai-sched |kubectl |helm |make |pip |docker |git |curl )", re.MULTILINE)


class Block(NamedTuple):
    """A block of code, with the number of its first line; ``info`` is None where it is indented."""

    line: int
    info: str | None
    text: str


def blocks(text: str) -> list[Block]:
    """The blocks of code of a document."""
    found = []
    for token in MarkdownIt("commonmark").parse(text):
        if token.type in ("fence", "code_block") and token.map:
            info = token.info.strip() if token.type == "fence" else None
            found.append(Block(token.map[0] + 1, info, token.content))
    return found


def unmarked(text: str) -> list[str]:
    """The blocks that are neither run nor marked, or of which nobody can say it."""
    return [f"line {block.line}: {wrong}" for block in blocks(text) if (wrong := _wrong(block))]


def _wrong(block: Block) -> str:
    if block.info is None:
        return f"fence it, as `sh` (it is run), as `sh {NOT_RUN}`, or as text"
    language, _, mark = block.info.partition(" ")
    if language in ALSO_SHELLS:
        return f"call it `sh` (it is run) or `sh {NOT_RUN}`"
    if language in COMMANDS:
        return "" if mark in ("", NOT_RUN) else f"{mark!r} is no mark: `{language}`, or `{language} {NOT_RUN}`"
    if language in ("", "text") and COMMAND.search(block.text):
        return f"it has a command: fence it as `sh` (it is run), `sh {NOT_RUN}` or `console {NOT_RUN}`"
    return ""


def scripts() -> dict[str, str]:
    """The commands of each document that have to succeed, one block after the other."""
    found = {}
    for path in project_files():
        if path.suffix == ".md":
            parts = [block.text for block in blocks((ROOT / path).read_text()) if block.info == "sh"]
            if parts:
                found[str(path)] = "".join(parts)
    return found


def run_script(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the commands in a folder, with this Python's programs as those of the virtual environment."""
    programs = Path(sys.executable).parent
    environment = folder / ".venv"
    environment.mkdir(exist_ok=True)
    if not (environment / "bin").exists():
        (environment / "bin").symlink_to(programs)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
