"""The argument and the result of grouping rules: the fields of GroupingCase and Draft, and the name of an owner's
group.

There is one rule for each kind of workload (see ``registry``). A rule gets a GroupingCase and returns a Draft, from
which ``manifest`` makes the PodGroup.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from kai_sched.api import core, legal, names
from kai_sched.api.custom import DNS_LABEL_LENGTH, DNS_LABEL_PATTERN
from kai_sched.model.field_errors import shown
from kai_sched.model.objects import Pod, PodGroup, SubGroup, TopologyConstraint
from kai_sched.reconcile.grouping.fields import COUNT_MAX, Fields, whole_number
from kai_sched.reconcile.grouping.owners import ObjectReference, Owner
from kai_sched.reconcile.grouping.settings import GroupingSettings
from kai_sched.reconcile.grouping.workload_errors import GroupingError, Note, OwnerGone

_DNS_LABEL = re.compile(DNS_LABEL_PATTERN)

# Rules ask for pods by these labels only, so that views can keep them by their values.
SELECTED_LABELS = (names.JOB_NAME_LABEL, names.KNATIVE_REVISION_LABEL, names.RAY_CLUSTER_LABEL)

TRAIN = "train"
BUILD = "build"
INFERENCE = "inference"

T = TypeVar("T")


class View(Protocol):
    """The other objects of the cluster. Its exceptions pass through the rules, like those of ``owners.Fetch``."""

    def fetch(self, reference: ObjectReference) -> Owner | None:
        """See ``owners.Fetch``."""

    def group(self, namespace: str, name: str) -> PodGroup | None:
        """Return the PodGroup of that name, or None."""

    def pods(self, namespace: str, label: str, value: str) -> Iterable[Pod]:
        """Return the pods of the namespace with that label, one of SELECTED_LABELS."""

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what ``make`` returns, which pods have in common; for those that are decided together it is made once.

        Pods and groups that come while they are decided have them decided again.
        """


@dataclass(frozen=True, slots=True)
class GroupingCase:
    """A pod to group. ``owners`` are the nearest first, without skipped ones at the top; ``owner`` is the last of them.

    If there is no owner left, ``owner`` is the pod.
    """

    pod: Owner
    spec: core.PodSpec
    owners: tuple[Owner, ...]
    owner: Owner
    view: View
    settings: GroupingSettings
    notes: list[Note] = field(default_factory=list)

    @property
    def chain(self) -> tuple[Owner, ...]:
        """The owners; the pod if it has none."""
        return self.owners or (self.owner,)

    def whole(self, owner: Owner) -> Owner:
        """Return the owner with its spec and status, and with the labels that it has here. Raises GroupingError."""
        found = None
        try:
            found = self.view.fetch(owner.reference(whole=True))
        except PermissionError:
            message = "may not be read, and its size is needed: grant get on the kind"
            raise GroupingError(owner.subject, "", message) from None
        if found is None or found.uid != owner.uid:
            raise OwnerGone(owner.subject, "", "is gone: delete its pods, or make it anew")
        return replace(owner, body=found.body, derived=found.derived)

    def named(self, api_version: str, kind: str, name: str, whole: bool = True) -> Owner | None:
        """An object of the pod's namespace; None where it is not there, as with an impossible name, or may not be
        read."""
        if legal.name_fault(api_version, name):
            return None
        try:
            return self.view.fetch(ObjectReference(api_version, kind, self.pod.namespace, name, whole=whole))
        except PermissionError:
            return None

    def note(self, subject: str, field: str, message: str) -> None:
        """Note something that is ignored."""
        self.notes.append(Note(subject, field, message))


@dataclass(slots=True, eq=False)
class SharedSubGroups:
    """Sub-groups that many pods have in common: what follows from them is computed once.

    ``wire`` are these as fields of a PodGroup, None until they are checked; ``places`` are their parents and names.
    """

    sub_groups: tuple[SubGroup, ...]
    places: Set[tuple[str, str]] = field(init=False)
    wire: list[dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        self.places = {(each.parent, each.name) for each in self.sub_groups}


@dataclass(frozen=True, slots=True)
class Draft:
    """What a rule decides; ``manifest`` adds what all kinds have in common.

    ``owner`` is what the group belongs to and is named after. ``source`` gives it its labels, annotations, queue
    and topology: the owner itself if None. ``listed`` are the objects whose labels give the priority and the
    like, in this order: the source alone if empty.
    """

    owner: Owner
    source: Owner | None = None
    listed: tuple[Owner, ...] = ()
    name: str = ""  # where it is not "pg-<owner>-<uid>"
    min_member: int = 1
    min_sub_group: int | None = None  # of the root; it then replaces min_member
    sub_groups: tuple[SubGroup, ...] = ()
    shared: SharedSubGroups | None = None  # where ``sub_groups`` are its sub-groups
    sub_group: str = ""  # that of the pod
    default_class: str = TRAIN
    fixed_class: str = ""  # needs not exist
    has_policy: bool = True  # whether preemptibility, preemption delay and grace period are looked for
    has_topology: bool = True
    topology: TopologyConstraint | None = None  # in place of what the annotations say


Rule = Callable[[GroupingCase], Draft]


def group_name(owner: Owner) -> str:
    """Return the name of the group of an owner."""
    return group_name_of(owner.name, owner.uid)


def group_name_of(name: str, uid: str) -> str:
    """Return the name of the group of an owner with this name and uid."""
    return f"pg-{name}-{uid}"


def usable_name(fields: Fields, key: str, name: str) -> str:
    """Return the name at ``key``, if a sub-group can have it. Raises GroupingError."""
    if len(name) > DNS_LABEL_LENGTH or not _DNS_LABEL.fullmatch(name):
        allowed = f"at most {DNS_LABEL_LENGTH} lower-case letters, digits and dashes"
        raise fields.error(key, f"{shown(name)} cannot name a sub-group of a PodGroup: rename it, with {allowed}")
    return name


def number_in(owner: Owner, texts: Mapping[str, str], key: str, place: str, least: int) -> int | None:
    """Return the number in an annotation or a label of the owner; None if it has none.

    ``place`` is the path of ``texts`` in the owner. Raises GroupingError.
    """
    text = texts.get(key)
    if text is None:
        return None
    value = whole_number(text)
    if value is None or value < least:
        raise owner.error(f"{place}[{key}]", f"{shown(text)} is not a number of {least} or more: correct it")
    if value > COUNT_MAX:
        raise owner.error(f"{place}[{key}]", f"{shown(text)} is more than {COUNT_MAX}: give less")
    return value
