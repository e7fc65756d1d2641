"""For how long a read owner counts, and the view of owners and pods that the rules of grouping get.

The WorkloadGrouper uses it while it reconciles a source. Owners are read when a rule needs them: their metadata, or the
whole object if the rule of their kind has asked for more. An answer counts for FRESH_S.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from kai_sched.cluster.client import ApiFailure
from kai_sched.cluster.owner_reader import OwnerReader
from kai_sched.model.keys import group_key
from kai_sched.model.objects import Pod, PodGroup
from kai_sched.model.store import Store
from kai_sched.operator.grouping.groups import Groups
from kai_sched.reconcile.grouping.owners import ObjectReference, Owner

FRESH_S = 1.0

T = TypeVar("T")


class MissingOwner(Exception):
    """A rule needs an object that is not cached: read it, then call the rule again."""

    def __init__(self, reference: ObjectReference) -> None:
        super().__init__(reference.subject)
        self.reference = reference


@dataclass(frozen=True, slots=True)
class CachedOwner:
    """An answer of the API server about an object.

    Attributes
    ----------
    owner
        The object; None if there is none of that name.
    may_be_read
        False if the API server refused to show it.
    at_s
        When it was asked for, in monotonic seconds.
    """

    owner: Owner | None
    may_be_read: bool
    at_s: float


class OwnerCache:
    """For one event loop.

    Parameters
    ----------
    reader
        Reads owners.
    monotonic
        Seconds that never go back.

    Attributes
    ----------
    entries
        The answers, in the order in which they came.
    """

    def __init__(self, reader: OwnerReader, monotonic: Callable[[], float]) -> None:
        self.reader = reader
        self.monotonic = monotonic
        self.entries: dict[ObjectReference, CachedOwner] = {}
        self._whole: set[tuple[str, str]] = set()  # kinds whose objects were needed whole

    def expire(self) -> None:
        """Drop answers older than FRESH_S."""
        end_s = self.monotonic() - FRESH_S
        for reference in list(self.entries):
            if self.entries[reference].at_s > end_s:
                break
            del self.entries[reference]

    async def read_into(self, view: OwnerView, reference: ObjectReference) -> None:
        """Read the object for the view. Raises ApiFailure, and the same one again if the view asks for it again."""
        kind = reference.api_version, reference.kind
        if reference.whole:
            self._whole.add(kind)
        wanted = replace(reference, whole=kind in self._whole)
        if wanted in view.failures:
            raise view.failures[wanted]
        at_s = self.monotonic()
        try:
            known = CachedOwner(await self.reader.fetch(wanted), True, at_s)
        except PermissionError:
            known = CachedOwner(None, False, at_s)
        except ApiFailure as failure:
            view.failures[wanted] = failure
            raise
        self.entries.pop(wanted, None)
        view.found[wanted] = self.entries[wanted] = known


class OwnerView:
    """What the rules see while one source is reconciled: an object stays the same from the first question on.

    Attributes
    ----------
    found
        The objects that the rules have asked for.
    failures
        Objects that could not be read.
    is_outdated
        Whether one of them was read before the reconciliation was asked for.
    """

    def __init__(
        self, store: Store, groups: Groups, entries: dict[ObjectReference, CachedOwner], requested_s: float
    ) -> None:
        self._store = store
        self._groups = groups
        self._entries = entries
        self._requested_s = requested_s
        self.found: dict[ObjectReference, CachedOwner] = {}
        self.failures: dict[ObjectReference, ApiFailure] = {}
        self.is_outdated = False
        self._made: dict[Hashable, Any] = {}

    def fetch(self, reference: ObjectReference) -> Owner | None:
        """See ``reconcile.grouping.owners``. Raises MissingOwner for an object that is not cached."""
        name = replace(reference, uid="")
        whole = replace(name, whole=True)
        known = self.found.get(name) or self.found.get(whole)
        if known is None:
            known = self._entries.get(name) or self._entries.get(whole)
            if known is None:
                raise MissingOwner(name)
            self.found[name] = known
            if known.at_s < self._requested_s:
                self.is_outdated = True
        if not known.may_be_read:
            raise PermissionError(reference.subject)
        return known.owner

    def group(self, namespace: str, name: str) -> PodGroup | None:
        """See ``reconcile.grouping.draft``."""
        return self._store.get(PodGroup, group_key(namespace, name))

    def pods(self, namespace: str, label: str, value: str) -> Iterable[Pod]:
        """See ``reconcile.grouping.draft``."""
        for key in self._groups.labelled.keys(namespace, label, value):
            pod = self._store.get(Pod, key) or self._groups.held.get(key)
            if pod is not None:
                yield pod

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """See ``reconcile.grouping.draft``."""
        if key not in self._made:
            self._made[key] = make()
        found: T = self._made[key]
        return found
