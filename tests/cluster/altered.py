"""`kai-sched run` with what tests cannot bring about from outside: python -m tests.cluster.altered WHAT NUMBER run ...

WHAT is "stalled": a watch is dead after so many seconds without a byte. Or "busy": the cycle that first sees the pod
default/slow computes for so long, without a pause in which others could run but those that the interpreter makes. Or
"hasty": webhooks are served after so long by a process that is not in step with the cluster. Or "jumping": the wall
clock is put forward by so much at SIGUSR1, and back at SIGUSR2. Or "paged": lists come in pages of so many objects.
"""

from __future__ import annotations

import signal
import sys
import time
from functools import partial, partialmethod
from typing import Any

from kai_sched.cli.main import main
from kai_sched.cluster.client import Api
from kai_sched.cluster.reflector import Reflector, ReflectorTimings
from kai_sched.cycle.run import run_cycle
from kai_sched.operator import app, kopf_frame, process
from kai_sched.operator.clock import Clock, SteadyWall
from kai_sched.operator.cycle.loop import CycleLoop
from kai_sched.operator.http import pages
from kai_sched.operator.kopf_frame import kopf_settings


def stalled(seconds: float) -> None:
    def settings() -> Any:
        found = kopf_settings()
        found.watching.inactivity_timeout = seconds
        return found

    app.Reflector = partial(Reflector, timings=ReflectorTimings(stalled_s=seconds))  # type: ignore[assignment, misc]
    kopf_frame.kopf_settings = settings


def busy(seconds: float) -> None:
    left = [seconds]

    def slow_cycle(cluster: Any, *arguments: Any) -> Any:
        if "default/slow" in cluster.pods and left:
            end = time.monotonic() + left.pop()
            while time.monotonic() < end:
                pass
        return run_cycle(cluster, *arguments)

    app.CycleLoop = partial(CycleLoop, run=slow_cycle)  # type: ignore[assignment, misc]


def hasty(seconds: float) -> None:
    pages.START_S = seconds


def jumping(seconds: float) -> None:
    ahead_ns = [0]

    def jump(number: int, _frame: object) -> None:
        ahead_ns[0] += round(seconds * 1e9) * (1 if number == signal.SIGUSR1 else -1)

    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, jump)
    wall = SteadyWall(wall_ns=lambda: time.time_ns() + ahead_ns[0])
    process.Clock = lambda: Clock(wall_ns=wall)  # type: ignore[assignment, misc]


def paged(objects: float) -> None:
    Api.list_pages = partialmethod(Api.list_pages, limit=round(objects))  # type: ignore[method-assign, assignment]


CHANGES = {"stalled": stalled, "busy": busy, "hasty": hasty, "jumping": jumping, "paged": paged}

if __name__ == "__main__":
    _, what, number, *rest = sys.argv
    CHANGES[what](float(number))
    sys.argv = ["kai-sched", *rest]
    main()
