"""Reads ``usageDBConfig`` of a SchedulingShard or of the config file: whose accounts of the past count, and how."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kai_sched.model.config import Config, UsageSettings
from kai_sched.model.field_errors import FieldError, Warn, shown
from kai_sched.model.times import parse_duration

if TYPE_CHECKING:
    from kai_sched.api.shard import UsageDBConfig, UsageParams

INTERNAL = "internal"
# Of the original's: a database of metrics, and two for its tests.
OTHERS = ("prometheus", "fake", "fake-with-history")
WINDOW_MIN_S = 60.0
INTERVAL_MIN_S = 1.0
UNUSED = ("tumbling_window_start_time", "cron_string", "staleness_period", "wait_timeout", "extra_params")


def with_usage(given: UsageDBConfig, field: str, config: Config, warn: Warn) -> Config:
    """The settings where the past counts as the config says. Raises FieldError."""
    if given.client_type in OTHERS:
        text = f"{given.client_type} is not used by this version: the past does not count; give {INTERNAL}"
        warn(f"{field}.clientType", text)
        return replace(config, usage=UsageSettings())
    if given.client_type != INTERNAL:
        raise FieldError(f"{field}.clientType", f"there is no {shown(str(given.client_type))}: give {INTERNAL}")
    for name, value in (
        ("connectionString", given.connection_string),
        ("connectionStringEnvVar", given.connection_string_env_var),
    ):
        if value is not None:
            warn(f"{field}.{name}", f"not used by {INTERNAL}: leave it out")
    return replace(config, usage=_parameters(given.usage_params, f"{field}.usageParams", warn))


def _parameters(given: UsageParams | None, field: str, warn: Warn) -> UsageSettings:
    found = UsageSettings(INTERNAL)
    if given is None:
        return found
    if given.window_type not in (None, "sliding"):
        warn(f"{field}.windowType", f"{given.window_type} is not used by this version: the window is sliding")
    for name in UNUSED:
        if getattr(given, name) is not None:
            wire = type(given).model_fields[name].alias or name
            warn(f"{field}.{wire}", f"not used by {INTERNAL}: leave it out")
    window_s = _seconds(given.window_size, found.window_s, f"{field}.windowSize")
    if window_s < WINDOW_MIN_S:
        raise FieldError(f"{field}.windowSize", f"{shown(str(given.window_size))} is too short: give 1m or more")
    interval_s = _seconds(given.fetch_interval, found.interval_s, f"{field}.fetchInterval")
    if interval_s < INTERVAL_MIN_S:
        raise FieldError(f"{field}.fetchInterval", f"{shown(str(given.fetch_interval))} is too short: give 1s or more")
    half_life_s = max(0.0, _seconds(given.half_life_period, 0.0, f"{field}.halfLifePeriod"))
    return UsageSettings(INTERNAL, window_s, half_life_s, interval_s)


def _seconds(text: str | None, default: float, field: str) -> float:
    if not text:
        return default
    try:
        return parse_duration(text, long_units=True)
    except ValueError as error:
        raise FieldError(field, f"{error}, or 7d, or 1w") from None
