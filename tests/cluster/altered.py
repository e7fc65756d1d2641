"""`kai-sched run` with what tests cannot bring about from outside: python -m tests.cluster.altered WHAT NUMBER run ...

WHAT is "stalled": a watch is dead after so many seconds without a byte. Or "busy": the cycle that first sees the pod
default/slow computes for so long, without a pause in which others could run but those that the interpreter makes. Or
"paged": lists come in pages of so many objects.
"""

from __future__ import annotations

import sys
import time
from functools import partial, partialmethod
from typing import Any

from kai_sched.cli.main import main
from kai_sched.cluster.client import Api
from kai_sched.cluster.reflector import Pace, Reflector
from kai_sched.cycle.run import run_cycle
from kai_sched.operator import app, loop
from kai_sched.operator.handlers import kopf_settings


def stalled(seconds: float) -> None:
    def settings() -> Any:
        found = kopf_settings()
        found.watching.inactivity_timeout = seconds
        return found

    app.Reflector = partial(Reflector, pace=Pace(stalled_s=seconds))  # type: ignore[assignment, misc]
    app.kopf_settings = settings


def busy(seconds: float) -> None:
    left = [seconds]

    def slow_cycle(cluster: Any, *arguments: Any) -> Any:
        if "default/slow" in cluster.pods and left:
            end = time.monotonic() + left.pop()
            while time.monotonic() < end:
                pass
        return run_cycle(cluster, *arguments)

    loop.run_cycle = slow_cycle


def paged(objects: float) -> None:
    Api.list_pages = partialmethod(Api.list_pages, limit=round(objects))  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    _, what, number, *rest = sys.argv
    {"stalled": stalled, "busy": busy, "paged": paged}[what](float(number))
    sys.argv = ["kai-sched", *rest]
    main()
