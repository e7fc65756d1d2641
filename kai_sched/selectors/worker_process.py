"""The border to the process that evaluates expressions: how it is started, how long it may take, and what follows when
it ends or answers something else.

Everything here blocks; callers that must not wait use a thread of their own.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

import msgspec

from kai_sched.selectors.wire import ANSWER_MAX, HEADER, Reply, Request, framed

END_S = 0.1
REQUEST_S = 10.0  # on the clock; ``worker.CPU_S`` is its limit of processor time, which ends it earlier
MODULE = "kai_sched.selectors.worker"
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from importlib import import_module as i; i({}).main()"
)

UNEVALUATED = (
    "could not be evaluated: it takes too long or too much memory, or ends the process that evaluates it: simplify it"
)
# Not for what it is: it is evaluated again later (``answer_book``).
DELAYED = "could not be evaluated in time, or the process that evaluates it was ended: it is tried again in 5 minutes"


class _Ended(Exception):
    """The process has ended, has not answered in time, or has answered something that is no answer."""


class _Late(_Ended):
    """It has not answered in time."""


class WorkerProcess:
    """One process at a time, started when it is first needed. For one thread, but for ``close``."""

    def __init__(self, command: Sequence[str] | None = None) -> None:
        self._command = list(command or _command())
        self._process: subprocess.Popen[bytes] | None = None
        self._is_fresh = True
        self._closed = False

    def ask(self, expression: str, devices: Sequence[bytes]) -> Reply:
        """What the expression says about the devices. Raises OSError if the process cannot be started.

        A process that has served others before may fail because of them: the request is then sent once more, to a new
        one. What fails there is at fault itself, and so is what uses up its processor time. Where the process has
        ended, the next one is started before this returns: those who ask next do not pay for it.
        """
        request = framed(Request(expression, [msgspec.Raw(each) for each in devices]))
        fault = UNEVALUATED
        while not self._closed:
            process = self._running()
            tried_fresh, self._is_fresh = self._is_fresh, False
            try:
                reply = _exchange(process, request, len(devices))
            except _Ended as error:
                status = self.end()
                if tried_fresh or status == -signal.SIGPROF:
                    fault = DELAYED if isinstance(error, _Late) or status == -signal.SIGKILL else UNEVALUATED
                    break
            else:
                if reply.is_last:
                    self._renew()
                return Reply(reply.fault, reply.answers)
        self._renew()
        return Reply(fault, [])

    def end(self) -> int | None:
        """End the process; the next request starts another one. Returns its status if it has ended by itself."""
        process, self._process = self._process, None
        return None if process is None else _end(process)

    def close(self) -> None:
        """End the process for good. May be called from another thread while a request is under way."""
        self._closed = True
        self.end()

    def _renew(self) -> None:
        self.end()
        if not self._closed:
            with contextlib.suppress(OSError):  # the next request raises it
                self._running()

    def _running(self) -> subprocess.Popen[bytes]:
        """The process, which is ready for requests. Raises OSError."""
        if self._process is None:
            self._is_fresh = True
            self._process = process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env={},
                cwd="/",
                start_new_session=True,
            )
            try:
                _exchange(process, b"", 0)
            except _Ended:
                status = self.end()
                raise OSError(f"the process that evaluates selectors does not start (status {status})") from None
        return self._process


def _command() -> list[str]:
    paths = [os.path.abspath(each) for each in sys.path]
    return [sys.executable, "-I", "-S", "-c", _START.format(repr(MODULE)), json.dumps(paths)]


def _end(process: subprocess.Popen[bytes]) -> int | None:
    """End the process. Returns its status if it has ended by itself."""
    status = None
    with contextlib.suppress(subprocess.TimeoutExpired):
        status = process.wait(END_S)  # it may be ending by itself, and how it does matters
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()
    return status


def _exchange(process: subprocess.Popen[bytes], request: bytes, n_devices: int) -> Reply:
    """Send the request and read the reply. Raises _Ended."""
    try:
        received = _transfer(process, request, ANSWER_MAX * (n_devices + 1))
        reply = msgspec.json.decode(received, type=Reply)
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise _Ended from error
    if len(reply.answers) != (0 if reply.fault else n_devices):
        raise _Ended
    return reply


def _transfer(process: subprocess.Popen[bytes], request: bytes, most: int) -> bytes:
    """The content of the frame that comes back. Raises OSError, ValueError and _Ended."""
    if process.stdin is None or process.stdout is None:
        raise _Ended
    sink, source = process.stdin.fileno(), process.stdout.fileno()
    os.set_blocking(sink, False)
    os.set_blocking(source, False)
    unsent, received, length = memoryview(request), bytearray(), HEADER.size
    ends_at = time.monotonic() + REQUEST_S
    with selectors.PollSelector() as ready:
        ready.register(source, selectors.EVENT_READ)
        if unsent:
            ready.register(sink, selectors.EVENT_WRITE)
        while len(received) < length:
            events = ready.select(ends_at - time.monotonic())
            if not events or time.monotonic() > ends_at:
                raise _Late
            for key, _ in events:
                if key.fd == sink:
                    unsent = unsent[os.write(sink, unsent) :]
                    if not unsent:
                        ready.unregister(sink)
                    continue
                part = os.read(source, length - len(received))
                if not part:
                    raise _Ended
                received += part
                if len(received) == HEADER.size == length:
                    length += HEADER.unpack(received)[0]
                    if length > most + HEADER.size:
                        raise _Ended
    return bytes(received[HEADER.size :])
