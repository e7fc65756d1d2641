"""What all objects have: names and times."""

from __future__ import annotations

from kai_sched.api import core
from kai_sched.model.faults import FieldError
from kai_sched.model.times import parse_duration, parse_time

DEFAULT_NAMESPACE = "default"


def identity(meta: core.Meta) -> str:
    """The object's name. Raises FieldError where it has none."""
    name = meta.name
    if not name:
        raise FieldError("metadata.name", "missing: give the object a name")
    if "/" in name:
        raise FieldError("metadata.name", f"{name!r} has a slash: names of objects have none")
    return name


def namespace_of(meta: core.Meta) -> str:
    """The namespace, or the one that the API server would put the object in. Raises FieldError."""
    namespace = meta.namespace or DEFAULT_NAMESPACE
    if "/" in namespace:
        raise FieldError("metadata.namespace", f"{namespace!r} has a slash: names of namespaces have none")
    return namespace


def time_ns(text: str | None, field: str) -> int:
    """Nanoseconds since the epoch, 0 where there is no time. Raises FieldError."""
    if not text:
        return 0
    try:
        return parse_time(text)
    except ValueError as error:
        raise FieldError(field, str(error)) from None


def duration_s(text: str | None, field: str) -> float | None:
    """Seconds, None where there is no duration. Raises FieldError."""
    if not text:
        return None
    try:
        return parse_duration(text)
    except ValueError as error:
        raise FieldError(field, str(error)) from None
