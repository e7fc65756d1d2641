"""The inputs of the last cycles: how many are kept, within how many bytes, and when and where they are written.

Views of the cluster share their objects, so a cycle that is kept costs its tables and the objects that have changed
since. ``kai-sched replay`` decides them again.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import structlog

from kai_sched import __version__
from kai_sched.files.private_file import write_private
from kai_sched.files.recording import CycleInputs, CycleRecording, encode_recording
from kai_sched.model.store import TABLES, Cluster
from kai_sched.plan.plan_text import plan_lines
from kai_sched.plan.result import CycleResult

CYCLES_MAX = 4
KEPT_BYTES = 64 * 2**20  # of all but the last cycle, whose view the process has anyway
OBJECT_BYTES = 2048  # of one object, with its texts
FILES_MAX = 8
SAME_FAILURE_S = 600.0  # cycles that fail in the same way are written this often
PREFIX, SUFFIX = "cycles-", ".json.gz"

log = structlog.get_logger("recordings")


@dataclass(frozen=True, slots=True)
class RecordedCycle:
    """A cycle that is kept; ``result`` without what is computed when it is read, None for one that failed."""

    inputs: CycleInputs
    result: CycleResult | None
    error: str
    size_bytes: int


class CycleRecorder:
    """For one event loop; files are written in a thread.

    Parameters
    ----------
    folder
        Where files are written; it is made when it is needed.
    monotonic
        Seconds that never go back.
    wall_s
        Seconds since the epoch, for the names of files.
    on_failure
        Called for each file that could not be written.
    """

    def __init__(
        self,
        folder: Path,
        monotonic: Callable[[], float],
        wall_s: Callable[[], float],
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder = folder
        self._on_failure = on_failure
        self._monotonic = monotonic
        self._wall_s = wall_s
        self._kept: deque[RecordedCycle] = deque()
        self._failures: dict[str, float] = {}  # when cycles that failed in this way were written last
        self._writing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._written = 0

    @property
    def kept(self) -> Sequence[RecordedCycle]:
        """The cycles that are kept, the oldest first."""
        return tuple(self._kept)

    def decided(self, inputs: CycleInputs, result: CycleResult) -> None:
        """Keep a cycle that was decided."""
        self._keep(inputs, replace(result, pods={}, groups={}, nodes={}), "")

    def failed(self, inputs: CycleInputs, error: Exception) -> None:
        """Keep a cycle that failed, and write what is kept, unless one that failed in this way was written lately."""
        text = f"{type(error).__name__}: {error}"
        self._keep(inputs, None, text)
        now = self._monotonic()
        self._failures = {each: at for each, at in self._failures.items() if now - at < SAME_FAILURE_S}
        if text not in self._failures:
            self._failures[text] = now
            self.request("a cycle failed")

    def request(self, why: str) -> None:
        """Write what is kept now, soon."""
        task = asyncio.get_running_loop().create_task(self._write(self.kept, why), name="recordings")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _keep(self, inputs: CycleInputs, result: CycleResult | None, error: str) -> None:
        before = self._kept[-1].inputs.cluster if self._kept else None
        cluster = inputs.cluster
        size_bytes = _size_bytes(cluster, before)
        # The journal is not part of the inputs, and would be kept whole.
        inputs = replace(inputs, cluster=replace(cluster, journal=[], journal_start=cluster.serial))
        self._kept.append(RecordedCycle(inputs, result, error, size_bytes))
        while len(self._kept) > CYCLES_MAX or sum(each.size_bytes for each in list(self._kept)[:-1]) > KEPT_BYTES:
            self._kept.popleft()

    async def _write(self, cycles: Sequence[RecordedCycle], why: str) -> None:
        if not cycles:
            log.warning("recordings.empty", why=why, remedy="wait until a cycle has run")
            return
        async with self._writing:
            self._written += 1
            time = datetime.fromtimestamp(self._wall_s(), UTC).strftime("%Y%m%dT%H%M%SZ")
            path = self._folder / f"{PREFIX}{time}-{os.getpid()}-{self._written}{SUFFIX}"
            try:
                await asyncio.to_thread(_write_file, path, cycles)
            except Exception as error:
                remedy = "name a folder that can be written with --recordings"
                problem = f"{type(error).__name__}: {error}"
                self._on_failure()
                log.error("recordings.failed", file=str(path), why=why, problem=problem, remedy=remedy)
            else:
                replay = f"kai-sched replay {path}"
                log.info("recordings.written", file=str(path), why=why, cycles=len(cycles), replay=replay)


def _size_bytes(cluster: Cluster, before: Cluster | None) -> int:
    """About how much memory is kept with the view, beyond what is kept with the one before it."""
    tables = sum(sys.getsizeof(cluster.table(kind)) for kind in TABLES)
    changes = None if before is None else cluster.changes_since(before.store_id, before.serial)
    return tables + OBJECT_BYTES * len(changes or ())


def _line(cycle: RecordedCycle) -> bytes:
    plan = plan_lines(cycle.result) if cycle.result is not None else []
    return encode_recording(CycleRecording(cycle.inputs, plan, cycle.error, __version__)) + b"\n"


def _write_file(path: Path, cycles: Sequence[RecordedCycle]) -> None:
    """Write the file, each cycle on a line, and remove the oldest beyond FILES_MAX. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, (gzip.compress(_line(each), compresslevel=1, mtime=0) for each in cycles), overwrite=False)
    written = sorted(path.parent.glob(f"{PREFIX}*{SUFFIX}"), key=lambda file: (file.stat().st_mtime_ns, file.name))
    for file in written[:-FILES_MAX]:
        file.unlink(missing_ok=True)
