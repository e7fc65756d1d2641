"""``kai-sched dump``: write a running cluster into one compressed file, which the other commands read."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from kai_sched.answers.words import count
from kai_sched.cli.live_cluster import LiveCluster, read_cluster
from kai_sched.files.dump import dump_chunks
from kai_sched.files.private_file import write_private
from kai_sched.report.text import plain

STDOUT = "-"
BAD_INPUT = 2
COUNTED = {"Node": "node", "Queue": "queue", "PodGroup": "pod group", "Pod": "pod"}


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """The options of the command; ``namespace`` is empty for all."""

    output: str
    kubeconfig: str | None = None
    context: str | None = None
    namespace: str = ""
    force: bool = False


def dump(options: DumpOptions) -> int:
    """Run the command; returns the exit status."""
    if refusal := _refusal(options):
        print(f"error: {refusal}", file=sys.stderr)
        return BAD_INPUT
    found = read_cluster(options.kubeconfig, options.context, options.namespace)
    for problem in found.problems:
        print(f"{'error' if problem.fatal else 'warning'}: {plain(str(problem))}", file=sys.stderr)
    if not found.is_usable:
        return BAD_INPUT
    if options.output == STDOUT:
        for piece in dump_chunks(found.document):
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    else:
        try:
            write_private(Path(options.output), dump_chunks(found.document), options.force)
        except OSError as error:
            print(f"error: --output: {_failed(options.output, error)}", file=sys.stderr)
            return BAD_INPUT
    print(plain(_summary(found, options)), file=sys.stderr)
    return 0


def _refusal(options: DumpOptions) -> str:
    """Why the output cannot be written, as far as that is known before the cluster is read; else empty."""
    if options.output == STDOUT:
        return "--output: a dump is no text for a terminal: name a file, or pipe it on" if sys.stdout.isatty() else ""
    path = Path(options.output)
    if path.is_dir():
        return f"--output: {path} is a folder: name a file in it"
    if path.exists() and not options.force:
        return f"--output: {path} exists: name another file, or overwrite it with --force"
    if not path.parent.is_dir():
        return f"--output: there is no folder {path.parent}: make it first"
    return ""


def _failed(output: str, error: OSError) -> str:
    if isinstance(error, FileExistsError):
        return f"{output} exists: name another file, or overwrite it with --force"
    return f"{output} cannot be written: {error.strerror or error}: name another file"


def _summary(found: LiveCluster, options: DumpOptions) -> str:
    kinds = Counter(item["kind"] for item in found.document["items"])
    amounts = ", ".join(count(kinds[kind], noun) for kind, noun in COUNTED.items())
    where = "standard output" if options.output == STDOUT else options.output
    text = f"{found.name} as of {found.document['metadata']['time']} in {where}: {amounts}"
    if options.namespace:
        text += f". Only the namespace {options.namespace} is in it: answers about shares of queues need all namespaces"
    return text
