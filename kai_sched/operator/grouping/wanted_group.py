"""A PodGroup as the rules want it, its pods, and which of them decides where they have several owners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from kai_sched.api import core
from kai_sched.reconcile.grouping.deciders import Deciders
from kai_sched.reconcile.grouping.manifest import Grouping
from kai_sched.reconcile.grouping.owners import owner_of_pod

OF_A_POD = "Pod "  # how the subject of a pod begins


@dataclass(slots=True)
class _Source:
    """What the group has of one source: the pod that was decided last, and how many members."""

    like: core.WirePod
    count: int = 0


@dataclass(slots=True)
class WantedGroup:
    """A PodGroup as the rules want it.

    Attributes
    ----------
    wanted
        The manifest as JSON.
    source
        The source of ``like``. The group has members of it, and may have some of others (``members.source_of``).
    like
        The pod whose decision made the manifest, or is to make it.
    members
        The sources of the pods of the group, by key of the pod.
    unwritten
        Members that do not name the group in the API server yet.
    is_sure
        Whether the group has been decided again since the API server lost it, or it lost the source or the owner that
        decides.
    is_written
        Whether the API server shows the PodGroup as it is wanted.
    moves
        Whether the queue label of the workload counts: no pod had a node when it was read. Where a pod has one by the
        time somebody changes the PodGroup after that was written, it does not any more.
    deciders
        The owners of its pods, where there can be several.
    last_written, times_written
        What was wanted when it was last written, and how many times in a row.
    """

    wanted: bytes
    source: str
    like: core.WirePod
    members: dict[str, str] = field(default_factory=dict)
    unwritten: set[str] = field(default_factory=set)
    is_sure: bool = True
    is_written: bool = False
    moves: bool = False
    last_written: bytes = b""
    times_written: int = 0
    deciders: Deciders = field(default_factory=Deciders)
    _sources: dict[str, _Source] = field(default_factory=dict)
    _owners: dict[str, str] = field(default_factory=dict)  # of members, where there can be several
    _counts: Counter[str] = field(default_factory=Counter)  # members by owner
    _likes: dict[str, core.WirePod] = field(default_factory=dict)  # by owner, the pod that was decided last

    def written(self) -> int:
        """It was written as it is wanted: return how many times in a row that was the same."""
        self.times_written = self.times_written + 1 if self.last_written == self.wanted else 1
        self.last_written = self.wanted
        return self.times_written

    def takes(self, grouping: Grouping, source: str, pod: core.WirePod, member: str | None) -> bool:
        """Take the decision about a pod, a member if its key is given; return whether the manifest is to be that."""
        if member is not None:
            self._joins(member, source, pod)
        if source not in self._sources:
            return False  # its pods went meanwhile, and another source decides
        self._sources[source].like = pod
        if grouping.by is None:
            return True
        by, before = grouping.by.subject, self.deciders.first
        if member is not None and self._owners.get(member) != by:
            self._leaves_owner(member)
            self._owners[member] = by
            self._counts[by] += 1
        if by not in self._counts:
            return False
        self._likes[by] = pod
        decides = self.deciders.put(grouping.by, grouping.manifest["spec"])
        self._follow(before)
        return decides

    def loses(self, member: str) -> None:
        """The pod is not in the group any more. If its source or its owner decided and has no other pod in it, one of
        the next is to be decided again.
        """
        before = self.deciders.first
        self.unwritten.discard(member)
        if member in self.members:
            self._leaves_source(self.members.pop(member))
        self._leaves_owner(member)
        self._follow(before)

    def to_decide(self) -> list[core.WirePod]:
        """One pod of each owner whose labels may have changed; changes of pods without an owner are events."""
        others = (pod for by, pod in self._likes.items() if pod is not self.like and not by.startswith(OF_A_POD))
        return [self.like, *others]

    def _joins(self, member: str, source: str, pod: core.WirePod) -> None:
        before = self.members.get(member)
        if before == source:
            return
        self.members[member] = source
        self._sources.setdefault(source, _Source(pod)).count += 1
        if before is not None:
            self._leaves_source(before)

    def _leaves_source(self, source: str) -> None:
        of = self._sources[source]
        of.count -= 1
        if of.count:
            return
        del self._sources[source]
        if source == self.source and self._sources:
            self.source = next(reversed(self._sources))  # the one that came last is the last to go
            self.like, self.is_sure = self._sources[self.source].like, False

    def _leaves_owner(self, member: str) -> None:
        by = self._owners.pop(member, "")
        if not by:
            return
        self._counts[by] -= 1
        if self._counts[by]:
            return
        del self._counts[by], self._likes[by]
        self.deciders.drop(by)

    def _follow(self, before: str) -> None:
        """Where another owner decides than ``before``, the group is to be decided again with a pod of it."""
        first = self.deciders.first
        if before and first and first != before:
            self.like, self.is_sure = self._likes[first], False


def by_owner(pods: Mapping[str, core.WirePod]) -> dict[str, core.WirePod]:
    """The pods in the order of the names of what owns them, so that the owner that decides is mostly known first, and
    a group that exists does not change to and fro when a replica begins to lead.
    """
    return dict(sorted(pods.items(), key=lambda item: _owner_name(item[1])))


def _owner_name(pod: core.WirePod) -> str:
    itself = owner_of_pod(pod)
    return next((each.subject for each in itself.references), itself.subject)
