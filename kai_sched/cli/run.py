"""``kai-sched run``: from flags to the operator: the config file, the logs, the event loop, and the exit status if it
cannot start.
"""

from __future__ import annotations

import faulthandler
import sys
from dataclasses import dataclass, replace

import uvloop

from kai_sched.cluster.login import LoginFailure
from kai_sched.files.errors import BrokenInput
from kai_sched.files.settings import read_overlay
from kai_sched.files.settings_folder import read_settings_folder
from kai_sched.files.sources import read_bytes
from kai_sched.model.config import Config
from kai_sched.model.field_errors import FieldError
from kai_sched.model.problems import Problem
from kai_sched.operator.http.listener import AddressError, ListenFailure, parse_address
from kai_sched.operator.http.snapshot_server import snapshot_address
from kai_sched.operator.options import RunOptions
from kai_sched.operator.process import run as run_operator
from kai_sched.telemetry import logs
from kai_sched.telemetry.loop_time import MeasuredLoop

STDERR = 2  # the file descriptor: who replaces ``sys.stderr`` need not have one


@dataclass(frozen=True, slots=True)
class RunArguments:
    """The arguments of the command line: those of the operator, and those that this module handles."""

    options: RunOptions
    scheduler_conf: str | None = None
    settings_folder: str | None = None
    log_json: bool | None = None
    log_level: str = "info"


def base_config(scheduler_name: str, queue_label: str, node_pool_label: str, node_pool: str) -> Config:
    """The settings by flags, before a file or the objects of the cluster change them."""
    return Config(
        scheduler_name=scheduler_name,
        queue_label=queue_label,
        node_pool_label=node_pool_label,
        node_pool=node_pool,
        proves_shares=True,
    )


def run(arguments: RunArguments) -> int:
    """Run the operator until a signal.

    Returns the exit status: 0 after a signal, 1 if the process cannot continue, 2 if it cannot start.
    """
    options = arguments.options
    # Native code that breaks memory ends the process without a word: then say where each thread was.
    faulthandler.enable(STDERR)
    try:
        _check_addresses(options)
        if arguments.scheduler_conf:
            options = _with_file(options, arguments.scheduler_conf)
        if arguments.settings_folder:
            options = replace(options, installed=read_settings_folder(arguments.settings_folder))
        logs.set_up(sys.stderr, arguments.log_json, arguments.log_level)
        return uvloop.run(run_operator(options), loop_factory=MeasuredLoop)
    except ExceptionGroup as group:
        expected, others = group.split((LoginFailure, ListenFailure))
        if others is not None or expected is None:
            raise
        for error in expected.exceptions:
            print(f"error: {_named(error, options)}", file=sys.stderr)
        return 2
    except (AddressError, BrokenInput, FieldError, LoginFailure, OSError) as error:
        print(f"error: {_named(error, options)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0


def _flags(options: RunOptions) -> dict[str, str]:
    port = options.plugin_server_port
    return {
        "--listen-address": options.listen_address,
        "--webhook-address": options.webhook_address,
        "--page-address": options.page_address,
        "--plugin-server-port": snapshot_address(port) if port else "",
    }


def _check_addresses(options: RunOptions) -> None:
    """Raises AddressError for an address that is none, and for two that cannot be listened on at once."""
    taken: dict[tuple[str | None, int], str] = {}
    for flag, address in _flags(options).items():
        if not address:
            continue
        try:
            place = parse_address(address)
        except AddressError as error:
            raise AddressError(f"{flag}: {error}") from None
        if place[1] and place in taken:
            raise AddressError(f"{flag}: {address} is the address of {taken[place]} as well: choose another port")
        taken[place] = flag


def _named(error: Exception, options: RunOptions) -> str:
    """The message, with the flag that the address comes from."""
    if isinstance(error, ListenFailure):
        flags = [flag for flag, address in _flags(options).items() if address == error.address]
        return ": ".join([*flags[:1], str(error)])
    return str(error)


def _with_file(options: RunOptions, path: str) -> RunOptions:
    """The options with the config file. Raises BrokenInput and FieldError, with the name of the file."""
    problems: list[Problem] = []
    try:
        config: Config = read_overlay(path, read_bytes(path, None), problems)(options.config)
    except BrokenInput as error:
        raise BrokenInput(f"{path}: {error}") from None
    except FieldError as error:
        raise FieldError(f"{path}: {error.field}", error.message) from None
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)
    return replace(options, config=config)
