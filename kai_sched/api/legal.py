"""Which texts can name an object, a group or a version in Kubernetes, as the API server itself checks them."""

from __future__ import annotations

import re

NAME_MAX = 253
LABEL_MAX = 63
SHOWN_MAX = 80

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_SEGMENT = re.compile("[^/%\ud800-\udfff]+")  # lone surrogates are no text
# Kinds of this group may have any name that fits into a path, such as "system:node".
_FREE = "rbac.authorization.k8s.io"


def is_label(text: str) -> bool:
    """A DNS-1123 label: a namespace, a version."""
    return len(text) <= LABEL_MAX and _LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """A DNS-1123 subdomain: a group, and the name of nearly any object."""
    return len(text) <= NAME_MAX and _SUBDOMAIN.fullmatch(text) is not None


def is_segment(text: str) -> bool:
    """Whether it can be one segment of a path at all."""
    return text not in (".", "..") and _SEGMENT.fullmatch(text) is not None


def name_fault(api_version: str, name: str) -> str:
    """Why no object of that apiVersion can have the name; empty where one can."""
    if api_version.partition("/")[0] == _FREE:
        return "" if is_segment(name) else f"{shown(name)} is empty, '.' or '..', or has '/' or '%' in it"
    if is_subdomain(name):
        return ""
    return (
        f"{shown(name)} is not 1 to {NAME_MAX} lower-case letters, digits, '-' and '.', a letter or digit at each end"
    )


def version_fault(api_version: str) -> str:
    """Why it is no apiVersion; empty where it is one, such as "v1" or "batch/v1"."""
    group, slash, version = api_version.rpartition("/")
    if is_label(version) and (is_subdomain(group) if slash else True):
        return ""
    return f"{shown(api_version)} is neither a version such as v1 nor a group and a version such as batch/v1"


def shown(text: str) -> str:
    """The text in quotes, control characters escaped and cut to what people can read."""
    return repr(text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}...")
