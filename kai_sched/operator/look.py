"""What the rules of grouping see while the pods of one source are looked at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kai_sched.cluster.client import ApiFailure
from kai_sched.model.keys import group_key
from kai_sched.model.objects import Pod, PodGroup
from kai_sched.model.store import Store
from kai_sched.operator.groups import Groups
from kai_sched.reconcile.grouping.owners import Owner, Reference


class Missing(Exception):
    """An object has to be got first."""

    def __init__(self, reference: Reference) -> None:
        super().__init__(reference.subject)
        self.reference = reference


@dataclass(frozen=True, slots=True)
class Known:
    """An answer about an object: what it is, None for none of that name, and that it may not be read."""

    owner: Owner | None
    may_be_read: bool
    at_s: float


class Look:
    """A view for the rules, the same from the beginning of a look to its end. ``asked_s`` is when the look was asked
    for, ``is_old`` that it has things that were known before, ``lost`` what could not be got."""

    def __init__(self, store: Store, groups: Groups, known: dict[Reference, Known], asked_s: float) -> None:
        self._store = store
        self._groups = groups
        self._known = known
        self._asked_s = asked_s
        self.found: dict[Reference, Known] = {}
        self.lost: dict[Reference, ApiFailure] = {}
        self.is_old = False

    def fetch(self, reference: Reference) -> Owner | None:
        """As ``owners.Fetch``; raises Missing for what has to be got first."""
        name = replace(reference, uid="")
        known = self.found.get(name) or self.found.get(replace(name, whole=True))
        if known is None:
            known = self._known.get(name) or self._known.get(replace(name, whole=True))
            if known is None:
                raise Missing(name)
            self.found[name] = known
            if known.at_s < self._asked_s:
                self.is_old = True
        if not known.may_be_read:
            raise PermissionError(reference.subject)
        return known.owner

    def group(self, namespace: str, name: str) -> PodGroup | None:
        """As ``draft.View``."""
        return self._store.get(PodGroup, group_key(namespace, name))

    def pods(self, namespace: str, label: str, value: str) -> Iterable[Pod]:
        """As ``draft.View``."""
        for key in self._groups.labelled.keys(namespace, label, value):
            pod = self._store.get(Pod, key) or self._groups.held.get(key)
            if pod is not None:
                yield pod
