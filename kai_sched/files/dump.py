"""The dump of a cluster, as ``kai-sched dump`` writes it: its form, its contents in a fixed order, and its bytes.

One JSON document, compressed: ``metadata`` (time, version, context, namespaces, unreadable), ``settings`` (fields of
Config, see ``dump_settings``) and ``items``, the objects without secrets (``redaction``).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kai_sched import __version__
from kai_sched.api import names
from kai_sched.files.dump_settings import settings_of
from kai_sched.files.redaction import Manifest, redacted
from kai_sched.model.config import Config
from kai_sched.model.field_errors import FieldError
from kai_sched.model.read.config import config_from_operator
from kai_sched.model.read.kinds import OPERATOR_CONFIG
from kai_sched.model.times import format_time

DUMP = ("kai-sched.io/v1", "ClusterDump")
CHUNK_BYTES = 65_536
_GZIP = zlib.MAX_WBITS | 16
_SECOND_NS = 10**9


@dataclass(frozen=True, slots=True)
class DumpMetadata:
    """When and from where a dump is.

    Attributes
    ----------
    time_ns
        When the objects were read, in nanoseconds since the epoch.
    context
        The context of the kubeconfig; "" for none.
    namespaces
        The namespaces whose objects it holds; None for all.
    unreadable
        What could not be listed, as words for people: "configs.kai.scheduler (forbidden)".
    version
        The version that wrote it.
    """

    time_ns: int
    context: str = ""
    namespaces: tuple[str, ...] | None = None
    unreadable: tuple[str, ...] = ()
    version: str = __version__

    def document(self) -> dict[str, Any]:
        """The ``metadata`` of a dump."""
        found: dict[str, Any] = {"time": exact_time(self.time_ns), "version": self.version}
        if self.context:
            found["context"] = self.context
        if self.namespaces is not None:
            found["namespaces"] = list(self.namespaces)
        if self.unreadable:
            found["unreadable"] = list(self.unreadable)
        return found


def exact_time(ns: int) -> str:
    """RFC 3339 in UTC, with as many digits as the time has."""
    rest = f"{ns % _SECOND_NS:09d}".rstrip("0")
    text = format_time(ns)
    return text.replace("Z", f".{rest}Z") if rest else text


def dump_document(
    objects: Iterable[Manifest], config: Config, metadata: DumpMetadata, shard: str = ""
) -> dict[str, Any]:
    """The dump as one document.

    Parameters
    ----------
    objects
        All objects, each with its apiVersion and kind, in any order. They are not changed.
    config
        The settings before the objects Config and SchedulingShard change them. ``gpu_sharing`` counts where there is
        no Config: False, unless GPU sharing is known to be on.
    metadata
        When and from where the objects are.
    shard
        The SchedulingShard that the scheduler serves; "" for the default one.
    """
    settings = settings_of(config) | ({"shard": shard} if shard else {})
    return {
        "apiVersion": DUMP[0],
        "kind": DUMP[1],
        "metadata": metadata.document(),
        "settings": settings,
        "items": cleaned(objects, config),
    }


def cleaned(objects: Iterable[Manifest], config: Config) -> list[dict[str, Any]]:
    """The objects without secrets, by kind, namespace and name."""
    found = list(objects)
    kept = kinds_config_map_of(found, config)
    items = [item for each in found if (item := redacted(each, kept)) is not None]
    return sorted(items, key=_place)


def kinds_config_map_of(objects: Iterable[Manifest], config: Config) -> str:
    """The ConfigMap ("namespace/name") with settings for kinds of workloads, which keeps its data; "" for none."""
    return next((name for each in objects if (name := _kinds_config_map(each))), config.kinds_config_map)


def _kinds_config_map(manifest: Manifest) -> str:
    """The ConfigMap that the Config names for kinds of workloads; "" for none."""
    if (manifest.get("apiVersion"), manifest.get("kind")) != OPERATOR_CONFIG:
        return ""
    meta = manifest.get("metadata")
    if not isinstance(meta, Mapping) or meta.get("name") != names.CONFIG_NAME:
        return ""
    try:
        raw = msgspec.json.encode(manifest.get("spec") or {})
        return config_from_operator(raw, Config(), lambda _field, _message: None).kinds_config_map
    except FieldError:
        return ""  # who reads the dump is told


def _place(item: Manifest) -> tuple[str, ...]:
    meta = item.get("metadata")
    named: Mapping[str, Any] = meta if isinstance(meta, Mapping) else {}
    parts = (item.get("apiVersion"), item.get("kind"), named.get("namespace"), named.get("name"))
    return tuple(str(part or "") for part in parts)


def dump_chunks(document: Mapping[str, Any]) -> Iterator[bytes]:
    """The dump compressed (gzip), in pieces; the same document always gives the same bytes."""
    packer = zlib.compressobj(wbits=_GZIP)
    head = {name: value for name, value in document.items() if name != "items"}
    pending = bytearray(packer.compress(msgspec.json.encode(head)[:-1] + b',"items":['))
    for number, item in enumerate(document["items"]):
        pending += packer.compress((b",\n" if number else b"\n") + msgspec.json.encode(item))
        if len(pending) >= CHUNK_BYTES:
            yield bytes(pending)
            pending.clear()
    yield bytes(pending + packer.compress(b"\n]}\n") + packer.flush())
