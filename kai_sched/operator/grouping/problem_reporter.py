"""When a workload's problem becomes a log line and an Event: once until it changes; for pods whose owner is gone, after
a delay.

The grouper and the PodGroup writer call it. Each problem is logged and emitted as an Event once, until it changes. What
several pods or PodGroups of a workload have in common is reported once, about the workload, with the name of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog

from kai_sched.api import core, names
from kai_sched.model.keys import group_key, split_key
from kai_sched.operator.grouping.groups import Groups
from kai_sched.operator.grouping.members import key_of
from kai_sched.operator.grouping.requests import GroupingRequests
from kai_sched.plan.effects import Emit, Ref
from kai_sched.reconcile import events
from kai_sched.reconcile.grouping import deciders
from kai_sched.reconcile.grouping.manifest import Grouping
from kai_sched.reconcile.grouping.owners import Chain, Owner
from kai_sched.reconcile.grouping.workload_errors import GroupingError, OwnerGone
from kai_sched.reconcile.status.owner_reconciler import OwnerIndex

PROBLEMS_MAX = 10_000  # that are remembered, so that each is reported once
GONE_S = 10.0  # pods whose owner was deleted get this long to go, too, before a problem is reported

log = structlog.get_logger("grouping")


class GroupingReporter:
    """For one event loop.

    Parameters
    ----------
    groups
        The pods and their groups.
    requests
        Where a source is put that has to be reconciled again.
    owners
        Hears which owner each group has.
    emit
        Takes events.
    monotonic
        Seconds that never go back.
    """

    def __init__(
        self,
        groups: Groups,
        requests: GroupingRequests,
        owners: OwnerIndex,
        emit: Callable[[Iterable[Emit]], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._groups = groups
        self._requests = requests
        self._owners = owners
        self._emit = emit
        self._monotonic = monotonic
        self._problems: dict[str, str] = {}  # by uid of the object, and what it is about
        self._gone_s: dict[str, float] = {}  # since when the owner is missing, by source

    def grouped(self, pod: core.WirePod, found: tuple[Chain, Grouping] | None) -> None:
        """The place of the pod is decided; None: it belongs to no group of ours."""
        meta = pod.metadata or core.Meta()
        self._problems.pop(meta.uid or "", None)
        if found is None:
            return
        chain, grouping = found
        owner = _kubernetes_group(grouping) or (
            _owner_ref(chain.owners[-1]) if chain.owners else pod_ref(key_of(pod), meta.uid or "")
        )
        group = group_key(owner.namespace, grouping.name)
        owners = self._groups.deciders(group)
        if grouping.by and owners is not None:
            if text := owners.difference():
                self.problem(owner, f"{owner.kind} {owner.key}: {deciders.FIELD}: {text}", deciders.FIELD)
            else:
                self._problems.pop(f"{owner.uid}/{deciders.FIELD}", None)
            if grouping.by.subject != owners.first:
                return  # what it says does not count
        if owners is not None:  # otherwise its pods went meanwhile
            self._owners.observe(group, owner, grouping.queue)
        for note in grouping.notes:
            self._shared_problem(owner, f"{note.subject}: {note.field}: {note.message}", f"Pod {key_of(pod)}")

    def failed(self, source: str, failures: dict[str, tuple[core.WirePod, GroupingError]]) -> None:
        """These pods have no place. If their owner is gone, wait GONE_S before that is reported."""
        now_s = self._monotonic()
        if any(isinstance(error, OwnerGone) for _, error in failures.values()):
            end_s = self._gone_s.setdefault(source, now_s) + GONE_S
            is_early = now_s < end_s
            if is_early:
                self._requests.reconciles.add(source, end_s - now_s)
        else:
            is_early = False
            self._gone_s.pop(source, None)
        for pod, error in failures.values():
            staying = self._groups.staying(source, pod)
            if staying is not None and not (is_early and isinstance(error, OwnerGone)):
                self.problem(pod_ref(*staying), str(error))

    def write_refused(self, ref: Ref | None, group: str, text: str) -> None:
        """A write was refused for what the object says: report it about ``ref``, else about the owner of the group."""
        if ref is not None:
            self.problem(ref, text)
        elif (owner := self._owners.owner_of(group)) is not None:
            self._shared_problem(owner, text, split_key(group)[1])

    def problem(self, ref: Ref, text: str, about: str = "") -> None:
        """Log the problem of the object and emit an Event, unless that was done before; ``about`` is set for one that
        does not take the place of another of the object.
        """
        text = events.cut(text)
        self._report(ref, text, f"{ref.uid}/{about}" if about else ref.uid, text)

    def _shared_problem(self, owner: Ref, text: str, name: str) -> None:
        """Report what many pods or groups of the owner can have, each by its own ``name``: the first of them, once.

        They are decided again and again, in turn, so what was reported about one must not take the place of another.
        """
        content = events.cut(text.replace(name, ""))
        self._report(owner, events.cut(text), f"{owner.uid}/{content}", content)

    def _report(self, ref: Ref, text: str, key: str, content: str) -> None:
        if self._problems.get(key) != content:
            if len(self._problems) >= PROBLEMS_MAX:
                self._problems.clear()
            self._problems[key] = content
            log.warning("grouping.problem", object=f"{ref.kind} {ref.key}", problem=text)
            self._emit([events.emit(ref, names.WARNING, names.GROUPER_WARNING, text)])


def pod_ref(key: str, uid: str) -> Ref:
    """Return the reference of the pod "namespace/name"."""
    namespace, name = split_key(key)
    return Ref("v1", "Pod", namespace, name, uid)


def _kubernetes_group(grouping: Grouping) -> Ref | None:
    """The PodGroup of Kubernetes that the group is made of; None for another group."""
    meta = grouping.manifest["metadata"]
    (of,) = meta["ownerReferences"]
    if (of["apiVersion"], of["kind"]) != names.KUBERNETES_GROUP:
        return None
    return Ref(of["apiVersion"], of["kind"], meta["namespace"], of["name"], of["uid"])


def _owner_ref(owner: Owner) -> Ref:
    return Ref(owner.api_version, owner.kind, owner.namespace, owner.name, owner.uid)
