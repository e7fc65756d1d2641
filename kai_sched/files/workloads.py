"""For which workloads in files pods are made, which of these pods are kept, and how many there may be.

No pods are made for a workload if the input has pods of it already, or if it has a uid: it was then read from a
cluster, where its controller has made its pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from kai_sched.api import core, names
from kai_sched.files.controllers.kinds import made_up_uid
from kai_sched.files.controllers.registry import controllers_of
from kai_sched.files.controllers.workload import ControlledWorkload, Controller
from kai_sched.files.expanded import Expanded, SuspendedWorkload, may_lack_group
from kai_sched.files.grouping import PRIORITY_CLASS, InputGrouper
from kai_sched.files.items import Item, problem_in
from kai_sched.files.objects import Key, Objects, meta_of
from kai_sched.model.config import Config
from kai_sched.model.field_errors import FieldError, Warn
from kai_sched.model.priorities import SHIPPED_CLASSES
from kai_sched.model.problems import Problem
from kai_sched.model.read.kinds import POD, VOLUME_CLAIM, Kind
from kai_sched.model.read.meta import identity, namespace_of, time_ns
from kai_sched.model.times import format_time
from kai_sched.reconcile.grouping.owners import ObjectReference, Owner, read_owner
from kai_sched.reconcile.grouping.workload_errors import GroupingError
from kai_sched.workload_kinds import installed_kinds

# No workload has more; a number with a zero too many must not fill the memory.
OBJECTS_MAX = 100_000
SECOND_NS = 1_000_000_000


class _Suspendable(core.Wire):
    suspend: object = None


class _WorkloadSpec(_Suspendable):
    run_policy: _Suspendable | None = None


class _Workload(core.Wire):
    spec: _WorkloadSpec | None = None


_workload = msgspec.json.Decoder(_Workload)
KUEUE_LABEL = "kueue.x-k8s.io/queue-name"


class _Spec(core.Wire):
    scheduler_name: object = None


class _Scheduled(core.Wire):
    spec: _Spec


_scheduler = msgspec.json.Decoder(_Scheduled)


def expand_workloads(items: Sequence[Item], config: Config, problems: list[Problem]) -> Expanded:
    """Make the objects that controllers would make, and group pods without a group. Errors become problems."""
    problems.extend(Problem("", "", "", str(fault)) for fault in installed_kinds().faults)
    controllers = controllers_of(installed_kinds())
    work = [item for item in items if item.kind in controllers]
    ungrouped = [item for item in items if may_lack_group(item, config)]
    objects = Objects(items, config)
    grouper = InputGrouper(objects, items, config, problems)
    maker = _Maker(objects, config, controllers, problems)
    made = [each for item in work for each in maker.make(item, grouper)]
    # In an order that does not depend on the files.
    ungrouped.sort(key=lambda item: item.subject)
    placed = {id(item): grouper.place(item, False) for item in ungrouped}
    groups = grouper.groups()
    replaced = {id(old) for group in groups if (old := objects.get(_key(group))) is not None}
    left = {id(item) for item in work} | {id(item) for item in objects.strangers_used()} | replaced
    kept = [placed.get(id(item), item) for item in items if id(item) not in left]
    if groups and not any(item.kind == PRIORITY_CLASS for item in items):
        made.extend(_shipped_classes(groups[0]))
    return Expanded([*kept, *made, *groups], grouper.queues, tuple(sorted(maker.suspended)))


def _key(item: Item) -> Key:
    meta = meta_of(item)
    return Key(*item.kind, namespace_of(meta), identity(meta))


def _shipped_classes(item: Item) -> Iterator[Item]:
    """The priority classes that every installation has, for inputs that leave them out."""
    version, kind = PRIORITY_CLASS
    for name, value in SHIPPED_CLASSES.items():
        manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "value": value}
        yield Item(item.source, PRIORITY_CLASS, msgspec.json.encode(manifest))


class _Maker:
    """Acts as the controllers do, and notes the workloads that are ``suspended``."""

    def __init__(
        self, objects: Objects, config: Config, controllers: Mapping[Kind, Controller], problems: list[Problem]
    ) -> None:
        self._controllers = controllers
        self.suspended: list[SuspendedWorkload] = []
        self._objects = objects
        self._config = config
        self._problems = problems
        # Younger than all objects of the input, as if it were created now.
        self._now = format_time(objects.latest_ns + SECOND_NS)

    def make(self, item: Item, grouper: InputGrouper) -> list[Item]:
        """The pods of the workload with their groups, and its claims."""
        try:
            key, meta = _key(item), meta_of(item)
            created = meta.creation_timestamp or self._now
            time_ns(created, "metadata.creationTimestamp")
        except FieldError as error:
            self._problems.append(problem_in(item, error.field, error.message, fatal=True))
            return []
        first = self._objects.get(key)
        if first is not None and first is not item:
            message = f"already defined in {first.source}: remove one of them"
            self._problems.append(Problem(str(item.source), key.subject, "", message, fatal=True))
            return []
        if field := _suspended(item):
            by_kueue = KUEUE_LABEL in (meta.labels or {})
            self.suspended.append(SuspendedWorkload(key.kind, key.namespace, key.name, by_kueue))
            message = "true, so that it has no pods: set it to false to see what they would get"
            if by_kueue:
                message = f"{message} (Kueue does so once it admits the workload)"
            self._problems.append(Problem(str(item.source), key.subject, field, message))
        if key in self._objects.owned:
            return []
        # In a cluster the controllers have acted, so errors of the workload are not reported.
        problems = self._problems if not meta.uid else []
        try:
            made = dict(self._act(item, key, created, problems))
            ours = self._ours(item, key, made, problems)
            if meta.uid:
                return self._expected(item, key, ours)
            for each, child in made.items():
                self._objects.put(each, child)
            return [grouper.place(each, True) if each.kind == POD else each for each in ours]
        except GroupingError as error:
            problems.append(Problem(str(item.source), error.subject, error.field, error.message, fatal=True))
            return []

    def _act(self, item: Item, key: Key, created: str, problems: list[Problem]) -> Iterator[tuple[Key, Item]]:
        """All objects made for the workload, its own new state included. Raises GroupingError."""
        todo = [read_owner(item.raw, _reference(key))]
        count = 0
        while todo:
            owner = todo.pop()
            workload = ControlledWorkload(owner, _warner(item, owner, problems), self._find)
            for manifest in self._controllers[owner.api_version, owner.kind](workload):
                count += 1
                if count > OBJECTS_MAX:
                    message = f"would create more than {OBJECTS_MAX:,} objects: correct its numbers of replicas"
                    raise GroupingError(key.subject, "", message)
                manifest["metadata"].setdefault("creationTimestamp", created)
                child = Item(item.source, (manifest["apiVersion"], manifest["kind"]), msgspec.json.encode(manifest))
                child_key = Key(*child.kind, owner.namespace, manifest["metadata"]["name"])
                is_new = child_key != key
                if is_new and self._objects.get(child_key) is not None:
                    if child.kind == VOLUME_CLAIM:
                        continue
                    message = f"it would create {child_key.subject}, which is in the input already: rename one of them"
                    raise GroupingError(key.subject, "", message)
                if is_new and child.kind in self._controllers:
                    todo.append(read_owner(child.raw, _reference(child_key)))
                yield child_key, child

    def _find(self, reference: ObjectReference) -> Owner | None:
        try:
            return self._objects.fetch(reference)
        except PermissionError:
            return None

    def _ours(self, item: Item, key: Key, made: Mapping[Key, Item], problems: list[Problem]) -> list[Item]:
        """The pods for this scheduler, and the claims. Pods of other schedulers give a warning."""
        ours: list[Item] = []
        others: list[object] = []
        for child in made.values():
            if child.kind == VOLUME_CLAIM:
                ours.append(child)
            elif child.kind == POD:
                scheduler = _scheduler.decode(child.raw).spec.scheduler_name or names.DEFAULT_SCHEDULER
                if scheduler == self._config.scheduler_name:
                    ours.append(child)
                else:
                    others.append(scheduler)
        if others:
            pods = "1 pod is" if len(others) == 1 else f"{len(others)} pods are"
            message = f"{pods} ignored, as the scheduler {others[0]!r} is responsible: to schedule them here, set"
            message = f"{message} schedulerName: {self._config.scheduler_name} in the pod template"
            problems.append(Problem(str(item.source), key.subject, "schedulerName", message))
        return ours

    def _expected(self, item: Item, key: Key, ours: Sequence[Item]) -> list[Item]:
        if any(each.kind == POD for each in ours):
            message = "the workload has a uid, so it was read from a cluster, but the input has none of its pods: add "
            message = f"{message}them, or remove the uid to have them created"
            self._problems.append(Problem(str(item.source), key.subject, "metadata.uid", message))
        return []


def _suspended(item: Item) -> str:
    """The field that suspends the workload; "" for none."""
    try:
        spec = _workload.decode(item.raw).spec
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""  # its controller reports the error
    if spec is not None and spec.suspend is True:
        return "spec.suspend"
    return "spec.runPolicy.suspend" if spec and spec.run_policy and spec.run_policy.suspend is True else ""


def _warner(item: Item, owner: Owner, problems: list[Problem]) -> Warn:
    def warn(field: str, message: str) -> None:
        problems.append(Problem(str(item.source), owner.subject, field, message))

    return warn


def _reference(key: Key) -> ObjectReference:
    return ObjectReference(*key, uid=made_up_uid(key.kind), whole=True)
