"""Reads what all objects have: name, namespace, resourceVersion; and the times and durations in their fields."""

from __future__ import annotations

from kai_sched.api import core
from kai_sched.api.custom import DURATION_MAX_H
from kai_sched.api.legal import segment_fault
from kai_sched.model.field_errors import FieldError, Warn
from kai_sched.model.times import TooFar, format_time, is_too_long, parse_duration, parse_time

DEFAULT_NAMESPACE = "default"
VERSION_DIGITS = 20


def identity(meta: core.Meta) -> str:
    """The object's name. Raises FieldError where it has none, or one that no object can have."""
    name = meta.name
    if not name:
        raise FieldError("metadata.name", "missing: give the object a name")
    if fault := segment_fault(name):
        raise FieldError("metadata.name", fault)
    return name


def namespace_of(meta: core.Meta) -> str:
    """The namespace, or the one that the API server would put the object in. Raises FieldError."""
    namespace = meta.namespace or DEFAULT_NAMESPACE
    if fault := segment_fault(namespace):
        raise FieldError("metadata.namespace", fault)
    return namespace


def time_ns(text: str | None, field: str, warn: Warn | None = None) -> int:
    """Nanoseconds since the epoch; 0 for no time. Raises FieldError.

    With ``warn``, a time out of the supported range is a warning, and the nearest supported time is used: the object
    must not be lost because of it. A long grace period can lead to such deletion times.
    """
    if not text:
        return 0
    try:
        return parse_time(text)
    except TooFar as error:
        if warn is None:
            raise FieldError(field, str(error)) from None
        warn(field, f"{error}; {format_time(error.nearest_ns)} is used instead")
        return error.nearest_ns
    except ValueError as error:
        raise FieldError(field, str(error)) from None


def duration_s(text: str | None, field: str, warn: Warn) -> float | None:
    """Seconds; None for no duration. A duration that is too long is shortened with a warning. Raises FieldError."""
    if not text:
        return None
    try:
        seconds = parse_duration(text)
        if is_too_long(text):
            warn(field, f"{text!r} is longer than {DURATION_MAX_H}h (ten years), which is used instead: give less")
    except ValueError as error:
        raise FieldError(field, str(error)) from None
    return seconds


def version_number(version: str | None) -> int:
    """A resourceVersion, which is a number of 64 bits; 0, older than all, for anything else."""
    return int(version) if version and len(version) <= VERSION_DIGITS and version.isdecimal() else 0
