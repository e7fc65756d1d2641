"""How a view leaves out the objects that ``quarantine`` names, and what else it changes because of them.

Invariant: what an excluded object holds or is about to get never looks free, and no pod runs where it must not, or has
to leave, because an object is excluded. Pods that depend on one wait.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from kai_sched.api import names
from kai_sched.model.claims.objects import (
    Allocation,
    ClaimRequests,
    DeviceClass,
    DeviceOption,
    DeviceRequest,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from kai_sched.model.config import Config
from kai_sched.model.constraints import PodTerm
from kai_sched.model.objects import BindRequest, Namespace, Node, Object, Pod, PodGroup, PriorityClass, Shape
from kai_sched.model.store import TABLES, Change, Cluster

NEVER_STALE_S = -1.0  # a staleness grace without end

Pool = tuple[str, str]  # driver and pool of ResourceSlices


@dataclass(frozen=True, slots=True)
class Exclusions:
    """What a view leaves out and changes. Equal exclusions give equal views.

    Attributes
    ----------
    missing
        The objects that are missing.
    cordoned
        Nodes that get no new pods, because excluded pods hold room on them or are about to.
    never_stale
        PodGroups that do not count as stale, because pods of theirs are excluded.
    held
        Pods, ResourceClaims and DeviceTaintRules that are reduced to their identity and to what they hold or keep away.
    closed
        Pools whose devices cannot be used, because nobody knows which of them are free.
    staying
        PodGroups and bare pods that count as non-preemptible, because their priority is not known.
    """

    missing: frozenset[Change]
    cordoned: frozenset[str] = frozenset()
    never_stale: frozenset[str] = frozenset()
    held: frozenset[Change] = frozenset()
    closed: frozenset[Pool] = frozenset()
    staying: frozenset[Change] = frozenset()


@dataclass(slots=True)
class _Found:
    """The exclusions as they are found."""

    missing: set[Change]
    cordoned: set[str] = field(default_factory=set)
    never_stale: set[str] = field(default_factory=set)
    held: set[Change] = field(default_factory=set)
    closed: set[Pool] = field(default_factory=set)
    staying: set[Change] = field(default_factory=set)

    def hold(self, name: Change) -> None:
        self.held.add(name)
        self.missing.discard(name)


def missing_from(cluster: Cluster, excluded: Iterable[Change]) -> Exclusions:
    """Exclusions for a cycle whose result nobody acts on: the objects are missing, and nothing else is changed."""
    missing = set(excluded)
    _add_bound(cluster, missing)
    return Exclusions(frozenset(missing))


def leave_out(cluster: Cluster, excluded: Iterable[Change], keep: bool) -> Exclusions:
    """The exclusions that leave these objects out of a cycle that decides.

    - A bind request is left out together with its pod. The node of an excluded pod is cordoned, so that no other pod
      gets its room. With ``keep``, a pod on a node still holds its room and stays in its group.
    - With ``keep``, a ResourceClaim still holds its devices, and its pods wait. Otherwise its pools are closed, as is
      the pool of a slice: without it an older generation could come back, and counters could look free.
    - With ``keep``, a DeviceTaintRule taints all devices that it names, or that its excluded class might select.
    - Pods that wait do so if their PriorityClass or Namespace is excluded, or if one of their terms selects namespaces
      by their labels while one is excluded. Pods that run with such a PriorityClass do not have to leave.
    """
    found = _Found(set(excluded))
    requests = _add_bound(cluster, found.missing)
    kinds = {kind for kind, _ in found.missing}
    if PriorityClass in kinds or Namespace in kinds:
        _exclude_dependents(cluster, found)
    for kind, key in list(found.missing):
        if kind is Pod and key in cluster.pods:
            _exclude_pod(cluster.pods[key], requests.get(key), found, keep)
        elif kind is ResourceClaim and key in cluster.resource_claims:
            if keep:
                found.hold((kind, key))
            else:
                found.closed |= set(_pools_of(cluster.resource_claims[key], cluster, requests))
        elif kind is ResourceSlice and key in cluster.resource_slices:
            found.closed.add((cluster.resource_slices[key].driver, cluster.resource_slices[key].pool))
    for key, rule in cluster.device_taint_rules.items() if keep else ():
        names_devices = rule.driver or rule.pool or rule.device
        excluded_class = rule.device_class in {name for kind, name in found.missing if kind is DeviceClass}
        if names_devices and ((DeviceTaintRule, key) in found.missing or excluded_class):
            found.hold((DeviceTaintRule, key))
    return Exclusions(
        frozenset(found.missing),
        frozenset(found.cordoned),
        frozenset(found.never_stale),
        frozenset(found.held),
        frozenset(found.closed),
        frozenset(found.staying),
    )


def _add_bound(cluster: Cluster, missing: set[Change]) -> dict[str, BindRequest]:
    """Add the pods of bind requests that are missing; returns all live bind requests by pod."""
    for kind, key in list(missing):
        request = cluster.bind_requests.get(key) if kind is BindRequest else None
        if request is not None:
            missing.add((Pod, request.pod_key))
    return {request.pod_key: request for _, request in sorted(cluster.bind_requests.items()) if request.is_live}


def _exclude_pod(pod: Pod, request: BindRequest | None, found: _Found, keep: bool) -> None:
    if pod.node and keep:
        found.hold((Pod, pod.key))
    elif pod.node and pod.group:
        found.never_stale.add(pod.group_key)
    for node in (pod.node, request.node if request is not None else ""):
        if node:
            found.cordoned.add(node)


def _exclude_dependents(cluster: Cluster, found: _Found) -> None:
    """Let pods wait, or stay, whose PriorityClass or Namespace is missing."""
    classes = {key for kind, key in found.missing if kind is PriorityClass}
    spaces = {key for kind, key in found.missing if kind is Namespace}
    if any(key in cluster.priority_classes and cluster.priority_classes[key].global_default for key in classes):
        classes.add("")  # of those that name no class, or none that exists
    for key, pod in cluster.pods.items():
        group = cluster.pod_groups.get(pod.group_key) if pod.group else None
        name = group.priority_class if group is not None else pod.priority_class
        if (name if name in cluster.priority_classes else "") in classes:
            found.staying.add((PodGroup, pod.group_key) if group is not None else (Pod, key))
            if not pod.node:
                found.missing.add((Pod, key))
        elif spaces and not pod.node and (pod.namespace in spaces or any(terms_by_labels(pod.shape))):
            found.missing.add((Pod, key))


def terms_by_labels(shape: Shape) -> Iterator[PodTerm]:
    """The terms that select namespaces by their labels."""
    for term in (*shape.affinity, *shape.anti_affinity):
        if term.namespace_selector is not None:
            yield term


def _pools_of(claim: ResourceClaim, cluster: Cluster, requests: dict[str, BindRequest]) -> Iterator[Pool]:
    """The pools of the devices that the claim has or is about to have."""
    known: list[Allocation] = [claim.allocation] if claim.allocation is not None else []
    for key, request in requests.items():
        pod = cluster.pods.get(key)
        uses = pod.claims if pod is not None and pod.namespace == claim.namespace else ()
        if any(use.claim == claim.name for use in uses) or (pod is not None and claim.extended):
            known += [allocation for _, allocation in request.claims]
    for allocation in known:
        yield from ((each.driver, each.pool) for each in allocation.devices)


def view_without(cluster: Cluster, exclusions: Exclusions, config: Config, identity: object) -> Cluster:
    """The view with these exclusions. ``identity`` stands for the store of all views with equal exclusions."""
    tables: dict[str, dict[str, Object]] = {}

    def table(kind: type[Object]) -> dict[str, Object]:
        return tables.setdefault(TABLES[kind], dict(cluster.table(kind)))

    for kind, key in exclusions.missing:
        table(kind).pop(key, None)
    for kind, key in exclusions.held:
        if key in cluster.table(kind):
            table(kind)[key] = _holdings(cluster.table(kind)[key], config)
    for name in exclusions.cordoned & cluster.nodes.keys():
        if (Node, name) not in exclusions.missing:
            table(Node)[name] = replace(cluster.nodes[name], unschedulable=True)
    for key in exclusions.never_stale & cluster.pod_groups.keys():
        if (PodGroup, key) not in exclusions.missing:
            table(PodGroup)[key] = replace(cluster.pod_groups[key], staleness_grace_s=NEVER_STALE_S)
    for kind, key in exclusions.staying - exclusions.missing:
        if key in table(kind):
            table(kind)[key] = _staying(table(kind)[key])
    for key, each in cluster.resource_slices.items() if exclusions.closed else ():
        if (each.driver, each.pool) in exclusions.closed:
            table(ResourceSlice).pop(key, None)
    return replace(cluster, store_id=identity, **tables)  # type: ignore[arg-type]


def _holdings(item: Object, config: Config) -> Object:
    """The object reduced to its identity and to what it holds or keeps away: anything else may be what is faulty."""
    if isinstance(item, ResourceClaim):
        return replace(item, asks=_counted(item.asks), deleted=True, config=())
    if isinstance(item, DeviceTaintRule):
        return replace(item, device_class="", selectors=(), selects=True)
    if not isinstance(item, Pod):
        return item
    amounts = tuple((name, amount) for name, amount in item.shape.request if _is_amount(amount))
    shape = Shape(amounts, share=item.shape.share, legacy_mig=item.shape.legacy_mig)
    pool = config.node_pool_label
    labels = {pool: item.labels[pool]} if pool in item.labels else {}
    return replace(item, shape=shape, labels=labels, nominated_node="", expected_node="", gates=())


def _counted(asks: ClaimRequests) -> ClaimRequests:
    """What counts for the queue of what a claim asks for."""
    requests = tuple(
        DeviceRequest(each.name, tuple(DeviceOption(o.device_class, count=o.count) for o in each.options), each.exact)
        for each in asks.requests
    )
    return ClaimRequests(requests, fault="it is left out")


def _staying(item: Object) -> Object:
    """The group or bare pod as one that is non-preemptible."""
    if isinstance(item, PodGroup):
        return replace(item, preemptible=False)
    if isinstance(item, Pod):
        return replace(item, labels={**item.labels, names.PREEMPTIBILITY_LABEL: "non-preemptible"})
    return item


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0
