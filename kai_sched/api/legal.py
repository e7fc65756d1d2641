"""Which texts can be names of objects, namespaces, API groups and versions, by the checks of the API server."""

from __future__ import annotations

import re
from hashlib import sha256

NAME_LENGTH = 253  # of any object's name
LABEL_MAX = 63
QUOTED_MAX = 80  # characters of what people wrote that a message quotes

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_VALUE = re.compile("([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_NOT_IN_NAMES = re.compile("[^a-z0-9]+")
_KEPT_LENGTH = 200  # of a text that is no name: room for the hash, and for what its users append
_SEGMENT = re.compile("[^/%\ud800-\udfff]+")  # lone surrogates are no text
# Kinds of this group may have any name that fits into a path, such as "system:node".
_FREE = "rbac.authorization.k8s.io"


def is_label(text: str) -> bool:
    """A DNS-1123 label: a namespace, a version."""
    return len(text) <= LABEL_MAX and _LABEL.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    """The value of a label, which may be empty."""
    return len(text) <= LABEL_MAX and _VALUE.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """A DNS-1123 subdomain: a group, and the name of nearly any object."""
    return len(text) <= NAME_LENGTH and _SUBDOMAIN.fullmatch(text) is not None


def object_name(text: str) -> str:
    """The text where an object can have it as its name, else a name like it, with a hash: other texts get others.

    The chart makes the same ones (its ``kai-scheduler.objectName``).
    """
    if is_subdomain(text):
        return text
    like = _NOT_IN_NAMES.sub("-", text.lower())[:_KEPT_LENGTH].strip("-")
    digest = sha256(text.encode(errors="backslashreplace")).hexdigest()[:8]
    return f"{like}-{digest}" if like else digest


def segment_fault(name: str) -> str:
    """Why no object of any kind can have this name; "" if it is possible.

    Not all kinds have DNS names, but all names are segments of URL paths and must be printable.
    """
    if not name:
        return "the name is empty"
    if len(name) > NAME_LENGTH:
        return f"{shown(name)} has {len(name):,} characters: names have at most {NAME_LENGTH}"
    if "/" in name:
        return f"{name!r} has a slash: object names must not have one"
    if "%" in name or name in (".", ".."):
        return f"{name!r} cannot be part of a path: give the object another name"
    if not name.isprintable():
        return f"{name!r} has control characters: object names must not have any"
    return ""


def name_fault(api_version: str, name: str) -> str:
    """Why no object of that apiVersion can have the name; "" if it is possible."""
    if api_version.partition("/")[0] == _FREE:
        return segment_fault(name)
    if is_subdomain(name):
        return ""
    letters = "lower-case letters, digits, '-' and '.', a letter or digit at each end"
    return f"{shown(name)} is not 1 to {NAME_LENGTH} {letters}"


def version_fault(api_version: str) -> str:
    """Why the text is no apiVersion; "" if it is one, such as "v1" or "batch/v1"."""
    group, slash, version = api_version.rpartition("/")
    if is_label(version) and (is_subdomain(group) if slash else True):
        return ""
    return f"{shown(api_version)} is neither a version such as v1 nor a group and a version such as batch/v1"


def shown(value: object) -> str:
    """The value as messages quote it: escaped, and shortened if it is long."""
    if isinstance(value, str) and len(value) > QUOTED_MAX:
        return f"{value[:QUOTED_MAX]!r}..."
    text = repr(value)
    return text if len(text) <= 2 * QUOTED_MAX else f"{text[: 2 * QUOTED_MAX]}..."
