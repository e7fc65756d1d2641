"""The command as people run it: a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
COMMAND = (sys.executable, "-m", "kai_sched.cli.main")


def environment(**changes: str) -> dict[str, str]:
    """This process's environment without what would change the output, and with the changes."""
    clean = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS"}}
    return {**clean, "PYTHONPATH": str(ROOT), **changes}


def run(*arguments: str, stdin: str = "", **changes: str) -> subprocess.CompletedProcess[str]:
    """Run ``kai-sched`` in the project's folder; keyword arguments are environment variables."""
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(**changes),
        timeout=120,
        check=False,
    )
