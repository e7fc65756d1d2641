"""Two versions of kai_sched beside each other: `make bench ARGS='--against COMMIT'`.

A machine that others use, too, is half as fast in one hour as in the next, so that figures of two runs say little about
two versions. Here each shape runs in both versions in turn, several times, and what counts is the median of the ratios
of these pairs. Every version runs its own benchmark, from its own files, with the packages of this environment.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.tree import ROOT

SLOWER_MAX = 1.1
SLOWER_MAX_OF = {"big-5000n": 1.03, "big-5000n-steady": 1.03}
COLUMNS = {"shape": 28, "base ms": 10, "ms": 10, "cycle": 7, "base ms ": 11, "ms ": 10, "solver": 8, "plans": 8}


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """The files of the commit, in a folder that is removed afterwards; SystemExit where there is no such commit."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "base"
        made = subprocess.run(["git", "worktree", "add", "--detach", tree, commit], cwd=ROOT, capture_output=True)
        if made.returncode:
            raise SystemExit(f"--against {commit}: {made.stderr.decode().strip()}: name a commit of this repository")
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True, capture_output=True)


def run_module(tree: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a module of the version in that folder."""
    environment = dict(os.environ, PYTHONPATH=str(tree))
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=tree, env=environment, capture_output=True, text=True, check=False
    )


def row_of(tree: Path, shape: str) -> dict[str, Any] | None:
    """The row of a shape as that version measures it; None where it cannot."""
    run = run_module(tree, "tests.perf.bench", "--worker", shape)
    found: dict[str, Any] | None = json.loads(run.stdout) if run.returncode == 0 else None
    return found


def compare(shape: str, base: Path, pairs: int) -> dict[str, Any] | None:
    """Medians of both versions and of the ratios of the pairs; None where the base cannot run the shape."""
    rows: dict[Path, list[dict[str, Any]]] = {base: [], ROOT: []}
    for number in range(pairs):
        for tree in (base, ROOT) if number % 2 == 0 else (ROOT, base):
            row = row_of(tree, shape)
            if row is None:
                if tree == ROOT:
                    raise SystemExit(f"{shape}: this version fails; run it with --only {shape}")
                return None
            rows[tree].append(row)
    result: dict[str, Any] = {"shape": shape, "pairs": pairs}
    for key in ("cycle_s", "solver_s"):
        before, now = ([row[key] for row in rows[tree]] for tree in (base, ROOT))
        result["base_" + key], result[key] = statistics.median(before), statistics.median(now)
        result[key.replace("_s", "_ratio")] = statistics.median(b / a for a, b in zip(before, now, strict=True))
    result["same_plans"] = len({row["plan_sha256"] for each in rows.values() for row in each}) == 1
    return result


def shown(row: dict[str, Any]) -> str:
    """One line of the table."""
    cells = [row["shape"]]
    for key in ("cycle", "solver"):
        cells += [f"{1e3 * row[f'base_{key}_s']:.2f}", f"{1e3 * row[f'{key}_s']:.2f}", f"{row[f'{key}_ratio']:.2f}"]
    cells.append("same" if row["same_plans"] else "differ")
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, COLUMNS.values(), strict=True))


def run_against(commit: str, shapes: Sequence[str], pairs: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Print a table of all shapes; returns its rows, and the shapes whose cycles are too slow."""
    rows, slow = [], []
    with checked_out(commit) as base:
        for tree in (base, ROOT):
            run_module(tree, "kai_sched.solver.warmup")
        print(f"cycle and solver, {commit} and this version, medians of {pairs} pairs")
        print("".join(f"{title:>{width}}" for title, width in COLUMNS.items()))
        for shape in shapes:
            row = compare(shape, base, pairs)
            if row is None:
                print(f"{shape:>{COLUMNS['shape']}}  not in {commit}", flush=True)
                continue
            print(shown(row), flush=True)
            rows.append(row)
            if row["cycle_ratio"] > SLOWER_MAX_OF.get(shape, SLOWER_MAX):
                slow.append(f"{shape}: {row['cycle_ratio']:.2f} times")
    return rows, slow
