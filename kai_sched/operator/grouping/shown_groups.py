"""PodGroups as the API server shows them, the difference to what the rules want, and what the store shows of both."""

from __future__ import annotations

from typing import Any

import msgspec
import structlog

from kai_sched.api import names
from kai_sched.model.config import Config, in_pool
from kai_sched.model.field_errors import FieldError
from kai_sched.model.objects import PodGroup
from kai_sched.model.read.kinds import POD_GROUP, Reader
from kai_sched.model.store import Store
from kai_sched.reconcile.grouping.manifest import Manifest, merged

log = structlog.get_logger("grouping")

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class ShownGroups:
    """For one event loop. Keys are "namespace/name".

    Parameters
    ----------
    store
        Shows PodGroups to the cycles.
    reader
        Reads PodGroups.
    config
        The settings that objects are read with.
    """

    def __init__(self, store: Store, reader: Reader, config: Config) -> None:
        self._store = store
        self._reader = reader
        self._config = config
        self._raw: dict[str, bytes] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._raw

    def show(self, key: str, raw: bytes | None) -> None:
        """Record the PodGroup as the API server has it; ``raw`` is None if it has none."""
        if raw is None:
            self._raw.pop(key, None)
        else:
            self._raw[key] = bytes(raw)

    def restore(self, key: str) -> None:
        """Have the store show the PodGroup as the API server does."""
        self.put(key, self._read(key, self._raw.get(key)))

    def put(self, key: str, found: PodGroup | None) -> None:
        """Have the store show this PodGroup, or none."""
        if found is None:
            self._store.remove(PodGroup, key)
        else:
            self._store.put(found)

    def put_wanted(self, key: str, wanted: bytes, created: str | None, moves: bool) -> bool:
        """Have the store show the PodGroup as it is wanted; return whether the API server shows it so already.

        ``created`` is the creation time of one that the API server does not have yet, ``moves`` as in ``merged``.
        """
        raw = self._raw.get(key)
        manifest = _decode(wanted)
        if raw is None:
            manifest["metadata"]["creationTimestamp"] = created
            self.put(key, self._read(key, msgspec.json.encode(manifest)))
            return False
        new = self._merged(raw, manifest, moves)
        self.put(key, self._read(key, raw if new is None else msgspec.json.encode(new)))
        return new is None

    def write(self, key: str, wanted: bytes, moves: bool) -> tuple[bool, bytes] | None:
        """Return whether the PodGroup exists, and its body as it has to be; None if nothing is to be written."""
        raw = self._raw.get(key)
        if raw is None:
            return False, wanted
        new = self._merged(raw, _decode(wanted), moves)
        if new is None:
            return None
        head = {"apiVersion": names.POD_GROUP_VERSION, "kind": POD_GROUP[1]}  # items of lists lack them
        return True, msgspec.json.encode({**new, **head})

    def is_ours(self, key: str) -> bool:
        """Whether the PodGroup is in our node pool; other pools have schedulers of their own.

        A process for all shards has all pools, also those whose shard is yet to come.
        """
        found = self._store.get(PodGroup, key)
        return found is not None and (bool(self._config.node_pools) or in_pool(found.labels, self._config))

    def _merged(self, raw: bytes, wanted: Manifest, moves: bool) -> Manifest | None:
        """The PodGroup with what the rules want; None if that changes nothing."""
        old = _decode(raw)
        new = merged(old, wanted, self._config.queue_label, self._config.node_pool_label, moves)
        return None if old == new else new

    def _read(self, key: str, raw: bytes | None) -> PodGroup | None:
        if raw is None:
            return None
        try:
            found = self._reader.read(POD_GROUP, raw, _ignore)
        except FieldError as error:
            log.warning("group.unusable", group=key, problem=str(error))
            return None
        return found if isinstance(found, PodGroup) else None


def _ignore(field: str, message: str) -> None:
    """Rules write nothing doubtful, and the event sink reports what others write."""
