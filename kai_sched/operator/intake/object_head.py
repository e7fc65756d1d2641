"""Reads who an object is (key, uid, version) before anything else, so that a malformed object still has a name.

Pods are decoded as a whole, since there are many of them and most are used. Of other objects, and of pods that cannot
be decoded, only the metadata is read here.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import structlog

from kai_sched.api import core
from kai_sched.model.read.kinds import NAMESPACED, POD, Kind
from kai_sched.model.read.meta import version_number

log = structlog.get_logger("intake")


class _HeadMeta(core.Wire):
    name: str | None = None
    namespace: str | None = None
    resource_version: str | None = None


class _Headed(core.Wire):
    metadata: _HeadMeta | None = None


_ENDED = frozenset({"Succeeded", "Failed"})

_decode_pod = msgspec.json.Decoder(core.WirePod).decode
_decode_head = msgspec.json.Decoder(_Headed).decode
_decode_any = msgspec.json.Decoder().decode


class ObjectHead(NamedTuple):
    """The identity of an object.

    Attributes
    ----------
    key
        "namespace/name", or the name of an object without a namespace.
    version
        The resourceVersion as a number.
    node, has_ended
        Of a pod: its node, and whether it has ended and takes no room any more.
    pod
        The pod, None for other kinds and for a pod that cannot be decoded.
    """

    key: str
    version: int
    node: str = ""
    has_ended: bool = False
    pod: core.WirePod | None = None


def read_name(raw: bytes) -> tuple[str, str]:
    """The namespace and the name of an object, "" for what cannot be read. It costs much less than the whole object."""
    try:
        meta = _decode_head(raw).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        meta = None
    return (meta.namespace or "", meta.name or "") if meta is not None else ("", "")


def read_head(kind: Kind, raw: bytes) -> ObjectHead | None:
    """Return the identity of the object; None, with a warning in the log, if it has none that can be read."""
    try:
        if kind == POD:
            pod = _decode_pod(raw)
            meta = pod.metadata
            if meta is not None and meta.name:
                node = pod.spec.node_name if pod.spec is not None else None
                has_ended = pod.status is not None and pod.status.phase in _ENDED
                version = version_number(meta.resource_version)
                return ObjectHead(_key(kind, meta.namespace, meta.name), version, node or "", has_ended, pod)
        else:
            head = _decode_head(raw).metadata
            if head is not None and head.name:
                return ObjectHead(_key(kind, head.namespace, head.name), version_number(head.resource_version))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    return _read_any(kind, raw)


def _read_any(kind: Kind, raw: bytes) -> ObjectHead | None:
    """Read what can be read of an object that does not have the types of its kind."""
    try:
        found = _decode_any(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        log.warning("object.unreadable", kind=kind[1], problem=str(error))
        return None
    meta = _part(found, "metadata")
    name = _text(meta, "name")
    if not name:
        log.warning("object.unreadable", kind=kind[1], problem="metadata.name: missing, or not a string")
        return None
    has_ended = _text(_part(found, "status"), "phase") in _ENDED
    node = _text(_part(found, "spec"), "nodeName")
    return ObjectHead(
        _key(kind, _text(meta, "namespace"), name), version_number(_text(meta, "resourceVersion")), node, has_ended
    )


def _key(kind: Kind, namespace: str | None, name: str) -> str:
    return f"{namespace or 'default'}/{name}" if kind[1] in NAMESPACED else name


def _part(found: object, name: str) -> object:
    return found.get(name) if isinstance(found, dict) else None


def _text(found: object, name: str) -> str:
    value = _part(found, name)
    return value if isinstance(value, str) else ""
