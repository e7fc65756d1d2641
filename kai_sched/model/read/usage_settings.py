"""Reads ``usageDBConfig`` of a SchedulingShard or of the config file: whose accounts of the past count, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kai_sched.model.config import INTERNAL, PROMETHEUS, Config, UsageDatabase, UsageSettings
from kai_sched.model.cron import parse_cron
from kai_sched.model.field_errors import FieldError, Warn, shown
from kai_sched.model.read.meta import time_ns
from kai_sched.model.times import parse_duration

if TYPE_CHECKING:
    from kai_sched.api.shard import UsageDBConfig, UsageParams

FOR_TESTS = ("fake", "fake-with-history")  # of the original's
WINDOW_MIN_S = 60.0
INTERVAL_MIN_S = 1.0
RESOURCES = ("cpu", "memory", "gpu")  # in the order of the triples
SCHEMES = ("http://", "https://")


def with_usage(given: UsageDBConfig, field: str, config: Config, warn: Warn) -> Config:
    """The settings where the past counts as the config says. Raises FieldError."""
    if given.client_type in FOR_TESTS:
        text = f"{given.client_type} is for tests of the original: the past does not count; give {INTERNAL}"
        warn(f"{field}.clientType", text)
        return replace(config, usage=UsageSettings())
    if given.client_type not in (INTERNAL, PROMETHEUS):
        text = f"there is no {shown(str(given.client_type))}: give {INTERNAL} or {PROMETHEUS}"
        raise FieldError(f"{field}.clientType", text)
    if given.client_type == PROMETHEUS and not given.connection_string and not given.connection_string_env_var:
        # The original's operator fills it in with the Prometheus that it has installed.
        text = "missing, so that the past does not count: name the Prometheus, such as http://prometheus:9090"
        warn(f"{field}.connectionString", text)
        return replace(config, usage=UsageSettings())
    params, extra = given.usage_params, _Fields(f"{field}.usageParams.extraParams", {})
    usage = UsageSettings(given.client_type)
    if params is not None:
        usage = _window(params, usage, f"{field}.usageParams", warn)
        extra.left = dict(params.extra_params or {})
    if given.client_type == PROMETHEUS:
        return replace(config, usage=replace(usage, database=_database(given, extra, field, warn)))
    wrong: list[tuple[str, Any]] = [
        ("connectionString", given.connection_string),
        ("connectionStringEnvVar", given.connection_string_env_var),
    ]
    if params is not None:
        names = ("staleness_period", "wait_timeout", "extra_params")
        wrong += [(f"usageParams.{_wire(params, name)}", getattr(params, name)) for name in names]
    for name, value in wrong:
        if value is not None:
            warn(f"{field}.{name}", f"not used by {INTERNAL}: leave it out")
    return replace(config, usage=usage)


class _Fields:
    """The entries of a mapping that nobody has read yet."""

    def __init__(self, field: str, entries: Mapping[str, str]) -> None:
        self.field = field
        self.left = dict(entries)

    def text(self, name: str, default: str) -> str:
        return self.left.pop(name, "") or default

    def seconds(self, name: str, default: float) -> float:
        return _seconds(self.left.pop(name, None), default, f"{self.field}.{name}")


def _window(given: UsageParams, usage: UsageSettings, field: str, warn: Warn) -> UsageSettings:
    interval_s = _seconds(given.fetch_interval, usage.interval_s, f"{field}.fetchInterval")
    if interval_s < INTERVAL_MIN_S:
        raise FieldError(f"{field}.fetchInterval", f"{shown(str(given.fetch_interval))} is too short: give 1s or more")
    half_life_s = max(0.0, _seconds(given.half_life_period, 0.0, f"{field}.halfLifePeriod"))
    usage = replace(usage, half_life_s=half_life_s, interval_s=interval_s)
    kind = given.window_type or "sliding"
    for name, value, owner in (
        ("tumblingWindowStartTime", given.tumbling_window_start_time, "tumbling"),
        ("cronString", given.cron_string, "cron"),
    ):
        if value and kind != owner:
            warn(f"{field}.{name}", f"not used: windowType is not {owner}")
    if kind == "cron":
        return _from_cron(given, usage, field, warn)
    window_s = _seconds(given.window_size, usage.window_s, f"{field}.windowSize")
    if window_s < WINDOW_MIN_S:
        raise FieldError(f"{field}.windowSize", f"{shown(str(given.window_size))} is too short: give 1m or more")
    if kind == "sliding":
        return replace(usage, window_s=window_s)
    start, starts_at = given.tumbling_window_start_time, f"{field}.tumblingWindowStartTime"
    if not start:
        raise FieldError(starts_at, "missing: say when the first window starts, such as 2026-01-05T00:00:00Z")
    return replace(usage, window_s=window_s, tumbling_from_s=time_ns(start, starts_at) / 1e9)


def _from_cron(given: UsageParams, usage: UsageSettings, field: str, warn: Warn) -> UsageSettings:
    """The settings where an expression says when windows start, and with that how long they are."""
    if given.window_size:
        warn(f"{field}.windowSize", "not used: a window lasts until cronString fires again")
    if not given.cron_string:
        text = "missing: say when a window starts, such as 0 0 * * 1 for every Monday"
        raise FieldError(f"{field}.cronString", text)
    try:
        window_s = parse_cron(given.cron_string).longest_s()
    except ValueError as error:
        raise FieldError(f"{field}.cronString", str(error)) from None
    return replace(usage, window_s=window_s, cron=given.cron_string)


def _database(given: UsageDBConfig, extra: _Fields, field: str, warn: Warn) -> UsageDatabase:
    url, variable = given.connection_string or "", given.connection_string_env_var or ""
    if url and not url.startswith(SCHEMES):
        raise FieldError(f"{field}.connectionString", f"{shown(url)} is no address: write it as http://prometheus:9090")
    known, params = UsageDatabase(), given.usage_params
    allocation, capacity = (
        tuple(
            extra.text(f"{resource}{kind}Metric", default)
            for resource, default in zip(RESOURCES, defaults, strict=True)
        )
        for kind, defaults in (("Allocation", known.allocation), ("Capacity", known.capacity))
    )
    stale_s = _seconds(
        params.staleness_period if params else None, known.stale_s, f"{field}.usageParams.stalenessPeriod"
    )
    wait_s = _seconds(params.wait_timeout if params else None, known.wait_s, f"{field}.usageParams.waitTimeout")
    found = UsageDatabase(
        url=url.rstrip("/"),
        url_variable=variable,
        allocation=_triple(allocation),
        capacity=_triple(capacity),
        resolution_s=max(1.0, extra.seconds("queryResolution", known.resolution_s)),
        timeout_s=max(0.1, extra.seconds("usageQueryTimeout", known.timeout_s)),
        stale_s=stale_s,
        wait_s=wait_s,
    )
    for name in sorted(extra.left):
        warn(f"{extra.field}.{name}", "there is no such parameter: correct the name, or leave it out")
    return found


def _triple(texts: tuple[str, ...]) -> tuple[str, str, str]:
    cpu, memory, gpus = texts
    return cpu, memory, gpus


def _wire(given: UsageParams, name: str) -> str:
    """What the field is called in the object."""
    return type(given).model_fields[name].alias or name


def _seconds(text: str | None, default: float, field: str) -> float:
    if not text:
        return default
    try:
        return parse_duration(text, long_units=True)
    except ValueError as error:
        raise FieldError(field, f"{error}, or 7d, or 1w") from None
