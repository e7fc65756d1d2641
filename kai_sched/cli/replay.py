"""``kai-sched replay``: decide recorded cycles again, and say which of them give another plan than they did."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest

import msgspec

from kai_sched import __version__, library
from kai_sched.answers.words import count
from kai_sched.files.errors import BrokenInput
from kai_sched.files.recording import CycleRecording, decode_recording
from kai_sched.files.sources import documents, read_bytes
from kai_sched.model.times import format_time
from kai_sched.plan.plan_text import digest_of, plan_lines
from kai_sched.report.text import plain
from kai_sched.solver import jit
from kai_sched.telemetry.pace import Pace
from kai_sched.telemetry.progress import Progress

DIFFERENT = 1
BAD_INPUT = 2
SHOWN_MAX = 200  # characters of a line of a plan
EFFECTS = {"Bind": "bound", "Pipeline": "pipelined", "Evict": "evicted"}

_line = msgspec.json.Decoder(tuple[str, msgspec.Raw])


def replay(paths: Sequence[str]) -> int:
    """Run the command on these files; returns the exit status."""
    status = 0
    for path in paths:
        try:
            for recording in _recordings(path):
                if not _replay(recording):
                    status = DIFFERENT
                sys.stdout.flush()
        except BrokenInput as error:
            print(f"error: {path}: {error}", file=sys.stderr)
            return BAD_INPUT
    return status


def _recordings(path: str) -> Iterator[CycleRecording]:
    """The recordings of a file. Raises BrokenInput."""
    found = documents(path, read_bytes(path, sys.stdin.buffer), Pace(None))
    number = 0
    for number, document in enumerate(found, 1):
        try:
            yield decode_recording(document)
        except BrokenInput as error:
            raise BrokenInput(f"document {number}: {error}") from None
    if not number:
        raise BrokenInput("empty: record the cycles again")


def _replay(recording: CycleRecording) -> bool:
    """Decide the cycle again, and print what became of it; returns whether the plan is the same."""
    inputs, progress = recording.inputs, Progress(sys.stderr)
    if not jit.decided():
        effort_s = library.effort_s(inputs.cluster, inputs.config.actions)
        library.choose(effort_s, len(inputs.cluster.nodes), library.AUTO, progress)
    from kai_sched.cycle.run import run_cycle  # imports kernels, which fixes the choice

    if recording.version != __version__:
        text = f"version {recording.version} recorded this cycle, and this is {__version__}: it may decide otherwise"
        print(f"warning: {text}", file=sys.stderr)
    lines, error = list[bytes](), ""
    try:
        lines = plan_lines(run_cycle(inputs.cluster, inputs.config, inputs.now_ns, hints=inputs.hints))
    except Exception as failed:
        error = f"{type(failed).__name__}: {failed}"
    title = f"{format_time(inputs.now_ns)}, {count(len(inputs.cluster.pods), 'pod')}"
    if lines == list(recording.plan) and error == recording.error:
        print(plain(f"{title}: the same {_summary(lines, error)}"))
        return True
    print(plain(f"{title}: recorded {_summary(recording.plan, recording.error)}, now {_summary(lines, error)}"))
    for before, after in zip_longest(recording.plan, lines, fillvalue=b"nothing"):
        if before != after:
            print(plain(f"  first difference: recorded {_shown(before)}, now {_shown(after)}"))
            break
    return False


def _summary(lines: Sequence[bytes], error: str) -> str:
    """Such as "plan 0123456789abcdef (2 bound, 0 pipelined, 1 evicted)"."""
    if error:
        return f"error, {error}"
    kinds = Counter(_line.decode(line)[0] for line in lines)
    effects = ", ".join(f"{kinds[name]} {word}" for name, word in EFFECTS.items())
    return f"plan {digest_of(lines)} ({effects})"


def _shown(line: bytes) -> str:
    text = line.decode(errors="replace")
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."
