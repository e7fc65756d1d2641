"""The snapshot archive that the original's scheduler serves under ``/get-snapshot``: a ZIP archive with the member
snapshot.json (API 9.4), how it is unpacked within bounds, what its parts are, and how it is written.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from kai_sched.files.dump import CHUNK_BYTES, DumpMetadata, cleaned
from kai_sched.files.dump_settings import settings_of, snapshot_parts
from kai_sched.files.errors import BrokenInput
from kai_sched.files.redaction import CONFIG_MAP, Manifest
from kai_sched.model.config import Config
from kai_sched.model.read import kinds

MEMBER = "snapshot.json"
ZIP = b"PK\x03\x04"
# The parts of ``rawObjects``, in the original's order. Its objects do not say their own kind.
RAW_OBJECTS: Mapping[str, kinds.Kind] = {
    "pods": kinds.POD,
    "nodes": kinds.NODE,
    "queues": kinds.QUEUE,
    "podGroups": kinds.POD_GROUP,
    "bindRequests": kinds.BIND_REQUEST,
    "priorityClasses": ("scheduling.k8s.io/v1", "PriorityClass"),
    "configMaps": CONFIG_MAP,
    "persistentVolumes": kinds.VOLUME,
    "persistentVolumeClaims": kinds.VOLUME_CLAIM,
    "csiStorageCapacities": kinds.STORAGE_CAPACITY,
    "storageClasses": kinds.STORAGE_CLASS,
    "csiDrivers": kinds.STORAGE_DRIVER,
    "resourceClaims": kinds.RESOURCE_CLAIM,
    "resourceSlices": kinds.RESOURCE_SLICE,
    "deviceClasses": kinds.DEVICE_CLASS,
    "topologies": kinds.TOPOLOGY,
    "nodeResourceTopologies": kinds.NODE_TOPOLOGY,
    # Of ours only: the original has no part for them, and does not read it.
    "namespaces": ("v1", "Namespace"),
    "deviceTaintRules": kinds.DEVICE_TAINT_RULE,
    "csiNodes": kinds.NODE_VOLUMES,
}


def unpack(data: bytes, most: int) -> bytes:
    """The snapshot in the archive. Raises BrokenInput, also where it has more than ``most`` bytes."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if MEMBER not in archive.namelist():
                message = f"a ZIP archive without {MEMBER}, so it is no snapshot of a scheduler: unpack it"
                raise BrokenInput(message)
            with archive.open(MEMBER) as member:
                # The size that the archive names may be wrong.
                found = member.read(most + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError):
        raise BrokenInput("not a complete ZIP archive: get the snapshot again") from None
    except (RuntimeError, NotImplementedError):
        raise BrokenInput("encrypted or packed in an unusual way: pack the snapshot again") from None
    if len(found) > most:
        raise BrokenInput(f"more than {most:,} bytes once it is unpacked, so it is not read")
    return found


class _Sink(io.RawIOBase):
    """Takes what the archive writes, and hands it on in pieces; it cannot be rewound."""

    def __init__(self) -> None:
        self.pending = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.pending += data
        return len(data)

    def taken(self) -> bytes:
        found = bytes(self.pending)
        self.pending.clear()
        return found


def archive_chunks(
    objects: Iterable[Manifest], config: Config, metadata: DumpMetadata, discovery: Mapping[str, Any] | None = None
) -> Iterator[bytes]:
    """The archive in pieces, for a body that is streamed; the same arguments always give the same bytes.

    Secrets are left out as in a dump. Kinds that the original's snapshot lacks are left out, too, but for those that
    decide here. Its programs ignore ``metadata`` and ``settings``, which are those of a dump: with them the snapshot
    is replayed here at its own time, and with all settings.

    Parameters
    ----------
    objects
        All objects, each with its apiVersion and kind, in any order. They are not changed.
    config
        The settings in force: those that objects changed included.
    metadata
        When and from where the objects are.
    discovery
        What the API server serves: ``serverVersion`` (the answer of /version) and ``resources`` (a list of
        APIResourceList); None: nothing is said.
    """
    parts: dict[kinds.Kind, list[dict[str, Any]]] = {kind: [] for kind in RAW_OBJECTS.values()}
    for item in cleaned(objects, config):
        kind = (str(item.get("apiVersion")), str(item.get("kind")))
        if kind in parts:
            parts[kind].append(item)
    file, params = snapshot_parts(config)
    head = {
        "metadata": metadata.document(),
        "settings": settings_of(config),
        "config": file,
        "schedulerParams": params,
    }
    sink = _Sink()
    info = zipfile.ZipInfo(MEMBER)  # of 1980, so that the bytes do not depend on the clock
    info.compress_type = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(sink, "w") as archive, archive.open(info, "w") as member:
        member.write(msgspec.json.encode(head)[:-1] + b',"rawObjects":{')
        for number, (name, kind) in enumerate(RAW_OBJECTS.items()):
            member.write((b"," if number else b"") + msgspec.json.encode(name) + b":[")
            for place, item in enumerate(parts[kind]):
                member.write((b",\n" if place else b"\n") + msgspec.json.encode(item))
                if len(sink.pending) >= CHUNK_BYTES:
                    yield sink.taken()
            member.write(b"]")
        member.write(b"}" + (b',"discovery":' + msgspec.json.encode(discovery) if discovery else b"") + b"}\n")
    yield sink.taken()
