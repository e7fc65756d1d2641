"""The process that evaluates expressions: what it may do, and its loop over requests. ``worker_process`` starts it.

It reads requests from standard input, and writes replies to standard output. It has no environment and no network, and
of other files only how much memory it uses: after its start it cannot open anything. It ends with its input.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys

import msgspec

from kai_sched.selectors import expressions
from kai_sched.selectors.wire import HEADER, Reply, Request, framed

MEMORY_MAX = 256 * 2**20  # bytes of address space; an empty process takes about 50 MB
RESTART_ABOVE = 112 * 2**20  # bytes of memory in use after which a new process takes over
CPU_S = 0.5  # of one request
NICENESS = 5


def main() -> None:
    """Answer requests until the input ends, or until this process has become too large."""
    os.nice(NICENESS)
    usage = os.open("/proc/self/statm", os.O_RDONLY)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: who started this process ends it
    for limit, most in (
        (resource.RLIMIT_AS, MEMORY_MAX),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, 3),
    ):
        resource.setrlimit(limit, (most, most))
    gc.freeze()
    page = resource.getpagesize()
    source = sys.stdin.buffer
    decoder = msgspec.json.Decoder(Request)
    _send(Reply("", []))
    while len(header := source.read(HEADER.size)) == HEADER.size:
        (length,) = HEADER.unpack(header)
        request = decoder.decode(source.read(length))
        # Beyond this the kernel ends the process, in the middle of whatever it does.
        signal.setitimer(signal.ITIMER_PROF, CPU_S)
        reply = _reply(request)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        reply.is_last = int(os.pread(usage, 100, 0).split()[1]) * page > RESTART_ABOVE
        _send(reply)
        if reply.is_last:
            return


def _send(reply: Reply) -> None:
    sys.stdout.buffer.write(framed(reply))
    sys.stdout.buffer.flush()


def _reply(request: Request) -> Reply:
    try:
        return Reply("", expressions.answers(request.expression, [bytes(each) for each in request.devices]))
    except expressions.ExpressionFault as fault:
        return Reply(str(fault), [])
