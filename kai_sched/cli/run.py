"""``kai-sched run``: from flags to the operator: the config file, the logs, the event loop, and the exit status if it
cannot start.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

import uvloop

from kai_sched.cluster.login import LoginFailure
from kai_sched.files.faults import BrokenInput
from kai_sched.files.settings import read_overlay
from kai_sched.model.config import Config
from kai_sched.model.faults import FieldError
from kai_sched.model.problems import Problem
from kai_sched.operator.http.listener import AddressError, parse_address
from kai_sched.operator.options import RunOptions
from kai_sched.operator.process import run as run_operator
from kai_sched.telemetry import logs
from kai_sched.telemetry.loop_time import MeasuredLoop


@dataclass(frozen=True, slots=True)
class RunArguments:
    """The arguments of the command line: those of the operator, and those that this module handles."""

    options: RunOptions
    scheduler_conf: str | None = None
    log_json: bool | None = None
    log_level: str = "info"


def run(arguments: RunArguments) -> int:
    """Run the operator until a signal.

    Returns the exit status: 0 after a signal, 1 if the process cannot continue, 2 if it cannot start.
    """
    try:
        options = arguments.options
        for address in filter(None, (options.listen_address, options.webhook_address)):
            parse_address(address)
        if arguments.scheduler_conf:
            options = _with_file(options, arguments.scheduler_conf)
        logs.set_up(sys.stderr, arguments.log_json, arguments.log_level)
        return uvloop.run(run_operator(options), loop_factory=MeasuredLoop)
    except (AddressError, BrokenInput, FieldError, LoginFailure, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0


def _with_file(options: RunOptions, path: str) -> RunOptions:
    problems: list[Problem] = []
    with open(path, "rb") as file:
        overlay = read_overlay(path, file.read(), problems)
    config: Config = overlay(options.config)
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)
    return replace(options, config=config)
