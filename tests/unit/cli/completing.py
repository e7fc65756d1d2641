"""Shells that complete a command line: kai-sched as a program on the PATH, and what a line has become after Tab."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.unit.cli.command import ROOT, environment

# With a command as those that take names of workloads, queues and nodes.
PROGRAM = """#!{python}
import sys
sys.path.insert(0, {root!r})
from typing import Annotated, Optional
import typer
from kai_sched.cli import completion, main as program

@program.app.command()
def ask(
    name: Annotated[str, typer.Argument(autocompletion=completion.complete_workloads)],
    paths: Annotated[list[str], typer.Argument(metavar="FILE|FOLDER|-...")],
    queue: Annotated[Optional[str], typer.Option("--queue", "-q", autocompletion=completion.complete_queues)] = None,
    drain: Annotated[Optional[list[str]], typer.Option(autocompletion=completion.complete_nodes)] = None,
    set: Annotated[Optional[list[str]], typer.Option(autocompletion=completion.complete_changes)] = None,
    add_nodes: Annotated[Optional[list[str]], typer.Option(autocompletion=completion.complete_added_nodes)] = None,
) -> None:
    "Ask."

program.main()
"""
DONE = "LINE IS: "
TIMEOUT_S = 60.0
SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config"],
}


def installed(shell: str) -> bool:
    """Whether the shell is on this machine."""
    return shutil.which(shell) is not None


def program_folder(folder: Path, *names: str) -> Path:
    """A folder for the PATH, with the program under these names."""
    folder.mkdir(exist_ok=True)
    for name in names:
        path = folder / name
        path.write_text(PROGRAM.format(python=sys.executable, root=str(ROOT)))
        path.chmod(0o755)
    return folder


def on_path(folder: Path) -> dict[str, str]:
    """The environment with the folder first on the PATH."""
    return environment(PATH=f"{folder}{os.pathsep}{os.environ['PATH']}")


def script(shell: str, folder: Path) -> Path:
    """The script for the shell as a file in the folder."""
    path = folder / f"completion.{shell}"
    done = subprocess.run(
        [str(folder / "kai-sched"), "completion", shell], capture_output=True, env=on_path(folder), check=True
    )
    path.write_bytes(done.stdout)
    return path


def completed(shell: str, line: str, folder: Path, behind: str = "") -> str:
    """The line after Tab behind ``line``, where ``behind`` stands behind the cursor. Of fish: the choices."""
    source = script(shell, folder)
    if shell == "fish":
        command = f"source {source}; complete -C {line!r}"
        words, variables = [*SHELLS[shell], "-c", command], on_path(folder)
        return subprocess.run(words, capture_output=True, text=True, env=variables, cwd=folder, check=True).stdout
    setup = f"source {source}\n" if shell == "bash" else f"autoload -U compinit; compinit -u -D; source {source}\n"
    # Back to the place of the cursor, Tab, then the whole line as the argument of echo.
    keys = f"{line}{behind}" + "\x02" * len(behind) + "\t" + f"\x01echo '{DONE}' \n"
    return _typed(shell, setup + keys, on_path(folder) | {"TERM": "dumb", "PS1": "$ "}, folder)


def _typed(shell: str, text: str, variables: Mapping[str, str], folder: Path) -> str:
    """What an interactive shell prints behind DONE when somebody types the text."""
    main, other = pty.openpty()
    with subprocess.Popen(SHELLS[shell], stdin=other, stdout=other, stderr=other, env=variables, cwd=folder) as process:
        os.close(other)
        os.write(main, text.encode())
        said, until = "", time.monotonic() + TIMEOUT_S
        while (found := _behind_done(said)) is None:
            assert time.monotonic() < until, said
            if select.select([main], [], [], 1.0)[0]:
                said += os.read(main, 65536).decode(errors="replace")
        process.kill()
    os.close(main)
    return found


def _behind_done(said: str) -> str | None:
    """The rest of the line that begins with DONE: what was printed, not what was typed."""
    for line in said.replace("\r", "\n").split("\n")[:-1]:
        if line.startswith(DONE):
            return line.removeprefix(DONE).strip()
    return None
