"""Outputs of commands in the documents, made by `make docs`.

In a block of Markdown that is fenced as ``console``, what stands below a line ``$ kai-sched ...`` is what the command
prints, at 100 columns, and below ``$ echo $?`` its exit status. Of standard error it is what is neither a warning, the
time of the input, nor progress. A command that reads a running cluster reads examples/company.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

from kai_sched.cli import dump, inputs, live_cluster
from kai_sched.cli.main import app
from kai_sched.operator.intake.sources import SOURCES
from tests.example_company import CONTEXT, NOW_NS, objects
from tests.example_server import served
from tests.tree import ROOT, project_files

COLUMNS = "100"
BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
PROMPT, STATUS = "$ ", "echo $?"
PROGRAM = "kai-sched"
LEFT_OUT = ("warning: ", "as of ", f"{PROGRAM}: ")

# What a command prints, and its exit status.
Answer = tuple[str, int]


class _Terminal(io.TextIOWrapper):
    """What a command prints as to a terminal."""

    def isatty(self) -> bool:
        return True


def answer(command: str) -> Answer:
    """What the command prints, run in this process, and its exit status."""
    program, *arguments = shlex.split(command)
    if program != PROGRAM:
        raise ValueError(f"{command!r} is shown as a command of {PROGRAM}, which it is not: write it in a block of sh")
    out, err = _Terminal(io.BytesIO(), encoding="utf-8", write_through=True), io.StringIO()
    status = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            app(arguments, prog_name=PROGRAM)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0
    out.seek(0)
    said = [line for line in err.getvalue().splitlines(keepends=True) if not line.startswith(LEFT_OUT)]
    return "".join(said) + out.read(), status


def filled(text: str, ask: Callable[[str], Answer]) -> str:
    """The document with the outputs that its commands have now."""
    return BLOCK.sub(lambda block: "".join(_lines(block[0], ask)), text)


def _lines(block: str, ask: Callable[[str], Answer]) -> Iterator[str]:
    """The block: each command and its output. A command goes on where its line ends with a backslash."""
    status = 0
    for command in re.findall(r"^\$ ((?:.*\\\n)*.*\n)", block, re.MULTILINE):
        yield PROMPT + command
        if command.strip() == STATUS:
            yield f"{status}\n"
            continue
        text, status = ask(command.replace("\\\n", " "))
        yield text if not text or text.endswith("\n") else text + "\n"


def documents() -> list[Path]:
    """The documents that show commands."""
    return [path for path in project_files() if path.suffix == ".md" and BLOCK.search((ROOT / path).read_text())]


@contextmanager
def example_folder() -> Iterator[None]:
    """Commands run in a folder that has the examples, with the company as the running cluster and its time as now."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "examples").symlink_to(ROOT / "examples")
        paths = [source.path for source in (*SOURCES, *live_cluster.BOUNDED)]
        kubeconfig = stack.enter_context(served(objects(), paths, CONTEXT, folder))
        read = partial(live_cluster.read_cluster, now_ns=lambda: NOW_NS)
        for module in (live_cluster, dump):
            stack.enter_context(patch.object(module, "read_cluster", read))
        stack.enter_context(patch.object(inputs, "time", SimpleNamespace(time_ns=lambda: NOW_NS)))
        plain = {"COLUMNS": COLUMNS, "NO_COLOR": "1", "KUBECONFIG": str(kubeconfig)}
        stack.enter_context(patch.dict(os.environ, plain))
        stack.enter_context(chdir(folder))
        yield


def main() -> None:
    """Write all outputs anew."""
    for path in documents():
        text = (ROOT / path).read_text()
        with example_folder():
            new = filled(text, answer)
        (ROOT / path).write_text(new)


if __name__ == "__main__":
    main()
