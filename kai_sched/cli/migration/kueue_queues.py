"""ClusterQueues and Cohorts as Queues: the tree, quotas, limits and weights, and what none of these can say.

A Queue has one quota of each resource, so that those of several flavors are added up. A ClusterQueue becomes a leaf, a
Cohort the parent of its members; its quota is that of all of them and its own. What has no cohort above it cannot
borrow: its limit is its quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kai_sched.api import names
from kai_sched.api.legal import shown
from kai_sched.api.queue import SHARE_MAX
from kai_sched.cli.migration.kueue_objects import KueueSpec
from kai_sched.model.field_errors import FieldError
from kai_sched.model.objects import UNLIMITED
from kai_sched.model.problems import some_of
from kai_sched.model.read.custom import MEGABYTE
from kai_sched.model.resources import CPU, GPU, MEMORY, QuantityError, amount, canonical, parse_quantity

RESOURCES = (CPU, MEMORY, GPU)
CLUSTER_QUEUE = "ClusterQueue"
COHORT = "Cohort"
OTHER_RESOURCES = "a Queue has quotas of cpu, memory and GPUs only: use a ResourceQuota of the namespace for the others"
LENDING = "all that is idle is lent, and taken back when the queue needs it: nothing to do, but evictions are possible"


@dataclass(slots=True)
class CoveredAmount:
    """What one ClusterQueue or Cohort has of a resource. ``borrowing`` UNLIMITED: as much as there is."""

    nominal: float = 0.0
    borrowing: float = 0.0


@dataclass(slots=True)
class KueueQueue:
    """A ClusterQueue, or a Cohort with what is in it.

    Attributes
    ----------
    kind, name
        As in Kueue; ``queue`` is the name of the Queue.
    parts
        By resource; a resource that is not covered is missing.
    notes
        (field, text) of what the Queue does not say.
    """

    kind: str
    name: str
    above: str = ""
    weight: float = 1.0
    parts: dict[str, CoveredAmount] = field(default_factory=dict)
    notes: list[tuple[str, str]] = field(default_factory=list)
    members: list[KueueQueue] = field(default_factory=list)
    queue: str = ""

    @property
    def subject(self) -> str:
        """Such as "ClusterQueue vision"."""
        return f"{self.kind} {self.name}"

    def quota(self, resource: str) -> float:
        """Its own and that of its members, UNLIMITED where a member has no bound."""
        own = self.parts.get(resource)
        if own is None and self.kind == CLUSTER_QUEUE:
            return 0.0 if resource == GPU else UNLIMITED
        quotas = [own.nominal if own else 0.0, *(each.quota(resource) for each in self.members)]
        return UNLIMITED if UNLIMITED in quotas else sum(quotas)

    def limit(self, resource: str) -> float:
        """The most that it may use: its quota, and what it may borrow from the cohort above it."""
        quota, own = self.quota(resource), self.parts.get(resource)
        if quota == UNLIMITED or not self.above or (own is None and self.kind == CLUSTER_QUEUE):
            return quota
        if own is None or own.borrowing == UNLIMITED:
            return UNLIMITED
        return quota + own.borrowing

    def manifest(self, parent: str) -> dict[str, Any]:
        """The Queue."""
        shares = {
            resource: {
                "quota": _number(self.quota(resource), resource),
                "limit": _number(self.limit(resource), resource),
                "overQuotaWeight": _number(self.weight),
            }
            for resource in RESOURCES
        }
        spec = {**({"parentQueue": parent} if parent else {}), "resources": shares}
        return {"apiVersion": names.QUEUE_VERSION, "kind": "Queue", "metadata": {"name": self.queue}, "spec": spec}


def _number(value: float, resource: str = "") -> float:
    """In the unit of Queues; a whole number as such."""
    value = value / MEGABYTE if resource == MEMORY and value != UNLIMITED else value
    return int(value) if value == int(value) else value


def kueue_queue(kind: str, name: str, spec: KueueSpec) -> KueueQueue:
    """The object with its amounts, not yet in its cohort. Raises FieldError."""
    found = KueueQueue(kind, name, spec.above)
    weight = spec.fair_sharing.weight if spec.fair_sharing else None
    if weight is not None:
        found.weight = _exact(weight, "spec.fairSharing.weight")
    flavors: dict[str, list[str]] = {}
    others: dict[str, str] = {}
    for i, group in enumerate(spec.resource_groups or ()):
        for j, flavor in enumerate(group.flavors or ()):
            for k, each in enumerate(flavor.resources or ()):
                path = f"spec.resourceGroups[{i}].flavors[{j}].resources[{k}]"
                resource = canonical(each.name)
                if resource not in RESOURCES:
                    others.setdefault(each.name, f"spec.resourceGroups[{i}].coveredResources")
                    continue
                part = found.parts.setdefault(resource, CoveredAmount())
                part.nominal += _amount(resource, each.nominal_quota, f"{path}.nominalQuota")
                _add_borrowing(part, each.borrowing_limit, resource, f"{path}.borrowingLimit")
                flavors.setdefault(resource, []).append(flavor.name)
                if each.lending_limit is not None:
                    found.notes.append((f"{path}.lendingLimit", LENDING))
    _note_amounts(found, flavors, others)
    return found


def _add_borrowing(part: CoveredAmount, limit: str | float | None, resource: str, path: str) -> None:
    if limit is None or part.borrowing == UNLIMITED:
        part.borrowing = UNLIMITED
    else:
        part.borrowing += _amount(resource, limit, path)


def _note_amounts(found: KueueQueue, flavors: Mapping[str, list[str]], others: Mapping[str, str]) -> None:
    """What one quota of each resource cannot say."""
    for resource, several in sorted(flavors.items()):
        if len(several) > 1:
            text = f"the quotas of {resource} of {some_of(several)} are added up, as a Queue has one"
            remedy = "a shard for each kind of node divides them (examples/shard.yaml)"
            found.notes.append(("spec.resourceGroups", f"{text}: {remedy}"))
    found.notes += [(path, f"{name}: {OTHER_RESOURCES}") for name, path in others.items()]
    if found.kind == CLUSTER_QUEUE:
        missing = [each for each in (CPU, MEMORY) if each not in found.parts]
        if missing:
            text = f"{' and '.join(missing)} not covered: unlimited here, as Kueue can be told to ignore them"
            found.notes.append(("spec.resourceGroups", f"{text}: give the Queue a quota and a limit if they count"))
        if GPU not in found.parts:
            found.notes.append(("spec.resourceGroups", "GPUs are not covered: the limit is 0, as Kueue admits none"))


def _exact(quantity: str | float, path: str) -> float:
    try:
        value = float(parse_quantity(quantity))
    except QuantityError as error:
        raise FieldError(path, str(error)) from None
    if value < 0:
        raise FieldError(path, f"{shown(quantity)} is below 0: correct the value")
    return value


def _amount(resource: str, quantity: str | float, path: str) -> float:
    """In millicores, bytes or GPUs. Raises FieldError for what a Queue could not have."""
    _exact(quantity, path)
    value = amount(resource, quantity)
    if value / (MEGABYTE if resource == MEMORY else 1) > SHARE_MAX:
        raise FieldError(path, f"{shown(quantity)} is more than a Queue can have: correct the value")
    return value


def queues_of(found: Iterable[KueueQueue]) -> list[tuple[KueueQueue, dict[str, Any]]]:
    """The Queues, parents first, each with what it was made of. Cohorts that have no object are made.

    Raises FieldError for a circle of cohorts; its text names the circle.
    """
    listed = list(found)
    cohorts = {each.name: each for each in listed if each.kind == COHORT}
    for above in [each.above for each in listed if each.above]:
        cohorts.setdefault(above, KueueQueue(COHORT, above))
    _check_circles(cohorts)
    everything = [*(each for each in listed if each.kind != COHORT), *cohorts.values()]
    _give_names(everything)
    for each in sorted(everything, key=lambda one: (one.kind == CLUSTER_QUEUE, one.name)):
        if each.above:
            cohorts[each.above].members.append(each)
    result: list[tuple[KueueQueue, dict[str, Any]]] = []
    todo = sorted((each for each in everything if not each.above), key=lambda one: one.queue, reverse=True)
    while todo:  # Bound: each queue is the member of one cohort at most, and there is no circle.
        each = todo.pop()
        result.append((each, each.manifest(cohorts[each.above].queue if each.above else "")))
        todo += reversed(each.members)
    return result


def _check_circles(cohorts: Mapping[str, KueueQueue]) -> None:
    for name in cohorts:
        path = [name]
        while above := cohorts[path[-1]].above:  # Bound: the names of cohorts, each once.
            if above in path:
                circle = " -> ".join([*path[path.index(above) :], above])
                raise FieldError("spec.parentName", f"cohorts that are each other's parents ({circle}): correct one")
            path.append(above)


def _give_names(everything: Iterable[KueueQueue]) -> None:
    """Names of Queues: their own, but for a Cohort that is called like a ClusterQueue."""
    taken: set[str] = set()
    for each in sorted(everything, key=lambda one: (one.kind != CLUSTER_QUEUE, one.name)):
        each.queue = each.name
        while each.queue in taken:  # Bound: there are fewer names than queues.
            each.queue += "-cohort"
        if each.queue != each.name:
            each.notes.append(
                ("metadata.name", f"the Queue is called {each.queue}, as a ClusterQueue has this name, too")
            )
        taken.add(each.queue)
