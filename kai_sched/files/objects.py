"""All objects of an input by kind and name, for grouping rules that read owners, pods and PodGroups."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

import msgspec

from kai_sched.api import core
from kai_sched.files.items import Item
from kai_sched.model.config import Config
from kai_sched.model.field_errors import FieldError, decode_part
from kai_sched.model.objects import Pod, PodGroup
from kai_sched.model.read.kinds import KINDS, POD, POD_GROUP, Reader
from kai_sched.model.read.meta import DEFAULT_NAMESPACE, time_ns
from kai_sched.reconcile.grouping.draft import SELECTED_LABELS
from kai_sched.reconcile.grouping.owners import ObjectReference, Owner, read_owner

T = TypeVar("T")


class Key(NamedTuple):
    """The kind and name of an object. Objects without a namespace have the default one here."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def subject(self) -> str:
        """Such as "RayCluster ml/train"."""
        return f"{self.kind} {self.namespace}/{self.name}"


class _Head(core.Wire):
    metadata: core.Meta | None = None


_head = msgspec.json.Decoder(_Head)


def meta_of(item: Item) -> core.Meta:
    """The object's metadata. Raises FieldError."""
    return decode_part(_head, item.raw, "").metadata or core.Meta()


class Objects:
    """The objects of an input as a view for ``reconcile.grouping``. Objects that it lacks count as not readable.

    Attributes
    ----------
    owned
        Objects that other objects name as their owner.
    used
        Objects that were looked up.
    latest_ns
        The creation time of the youngest object; 0 if none has one.
    """

    def __init__(self, items: Sequence[Item], config: Config) -> None:
        self.owned: set[Key] = set()
        self.used: set[Key] = set()
        self.latest_ns = 0
        self._items: dict[Key, Item] = {}
        self._owners: dict[ObjectReference, Owner] = {}
        self._unread: list[Key] = []  # pods
        self._selected: dict[tuple[str, str, str], dict[Key, Pod]] = {}  # by namespace, label and value
        self._reader = Reader(config)
        for item in items:
            # Its reader reports the error.
            with suppress(FieldError):
                self._note(item)

    def _note(self, item: Item) -> None:
        meta = meta_of(item)
        namespace = meta.namespace or DEFAULT_NAMESPACE
        key = Key(*item.kind, namespace, meta.name or "")
        if key not in self._items:
            self.put(key, item)
        for each in meta.owner_references or ():
            self.owned.add(Key(each.api_version or "", each.kind or "", namespace, each.name or ""))
        self.latest_ns = max(self.latest_ns, time_ns(meta.creation_timestamp, ""))

    def get(self, key: Key) -> Item | None:
        """The object of that kind and name."""
        return self._items.get(key)

    def put(self, key: Key, item: Item) -> None:
        """Add an object, or replace it: one that is no pod."""
        self._items[key] = item
        if (key.api_version, key.kind) == POD:
            self._unread.append(key)

    def fetch(self, reference: ObjectReference) -> Owner | None:
        """The object. Raises PermissionError where the input does not hold it, GroupingError where it is malformed."""
        found = self._owners.get(reference)
        if found is None:
            key = Key(reference.api_version, reference.kind, reference.namespace, reference.name)
            item = self._items.get(key)
            if item is None:
                raise PermissionError(reference.subject)
            self.used.add(key)
            found = self._owners[reference] = read_owner(item.raw, reference)
        return found

    def group(self, namespace: str, name: str) -> PodGroup | None:
        """The PodGroup of that name; None also if it cannot be read, which its reader reports."""
        item = self._items.get(Key(*POD_GROUP, namespace, name))
        if item is None:
            return None
        try:
            found = self._reader.read(POD_GROUP, item.raw, _ignore)
        except FieldError:
            return None
        return found if isinstance(found, PodGroup) else None

    def pods(self, namespace: str, label: str, value: str) -> Iterable[Pod]:
        """The pods of the namespace with that label, which is one of SELECTED_LABELS."""
        for key in self._unread:
            self._select(key)
        self._unread.clear()
        return list(self._selected.get((namespace, label, value), {}).values())

    def once(self, _: Hashable, make: Callable[[], T]) -> T:
        """What ``make`` returns: pods are placed one by one, and each sees those before it in their groups."""
        return make()

    def _select(self, key: Key) -> None:
        """Keep the pod by its labels. Few have one of them, so that is looked for before the pod is read."""
        raw = bytes(self._items[key].raw)
        if not any(label.encode() in raw for label in SELECTED_LABELS):
            return
        with suppress(FieldError):
            found = self._reader.read(POD, raw, _ignore)
            if isinstance(found, Pod):
                for label in SELECTED_LABELS:
                    if label in found.labels:
                        place = (key.namespace, label, found.labels[label])
                        self._selected.setdefault(place, {})[key] = found

    def strangers_used(self) -> Iterator[Item]:
        """Objects of kinds that the scheduler does not work with itself, but that own pods."""
        return (self._items[key] for key in self.used if (key.api_version, key.kind) not in KINDS)


def _ignore(field: str, message: str) -> None:
    """Ignore a warning: the reader of the object reports it."""
