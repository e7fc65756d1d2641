"""Offline, what happens to claims for devices between two cycles: they get the devices that were decided, and lose them
with their last pod, also where that has finished. Those for extended resources are made with a bind, and are gone with
their pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kai_sched.model.claims.objects import ExtendedRequests, ResourceClaim, made_claim
from kai_sched.model.objects import Pod
from kai_sched.model.store import Cluster, Store
from kai_sched.plan.effects import Bind, ClaimUse, Pipeline


def settle_claims(store: Store, cluster: Cluster, binds: Iterable[Bind], pods: Mapping[str, Pod]) -> None:
    """Write the allocations of ``binds`` to the store, and take away those of claims that no pod uses any more.

    ``cluster`` is the view before the cycle, ``pods`` are the pods after it.
    """
    changed: dict[str, ResourceClaim] = {}
    for bind in binds:
        pod = cluster.pods[bind.pod]
        for use in bind.claims:
            claim = changed.get(use.claim) or cluster.resource_claims.get(use.claim) or _made(use, pod)
            consumers = tuple(dict.fromkeys((*claim.consumers, (pod.name, pod.uid))))
            changed[use.claim] = replace(claim, allocation=use.allocation, consumers=consumers)
    for claim in changed.values():
        store.put(claim)
    if not cluster.resource_claims:
        return
    owned = {(claim.namespace, claim.owner): key for key, claim in cluster.resource_claims.items() if claim.extended}
    using = [pod for pod in pods.values() if (pod.node or pod.deleted_ns) and not pod.has_ended]
    used = {f"{pod.namespace}/{use.claim}" for pod in using for use in pod.claims}
    for key, pod in cluster.pods.items():
        after = pods.get(key)
        if not pod.node or (after is not None and after.node and not after.has_ended):
            continue
        made = owned.get((pod.namespace, pod.uid or pod.name))
        if made is not None:
            store.remove(ResourceClaim, made)
        for name in (f"{pod.namespace}/{use.claim}" for use in pod.claims):
            known = changed.get(name) or cluster.resource_claims.get(name)
            # A pod that has finished is there in each step; it is taken out of its claims once.
            if known is not None and (not pod.has_ended or (pod.name, pod.uid) in known.consumers):
                consumers = tuple(each for each in known.consumers if each != (pod.name, pod.uid))
                allocation = known.allocation if consumers or name in used else None
                changed[name] = replace(known, allocation=allocation, consumers=consumers)
                store.put(changed[name])


def keep_devices(store: Store, waits: Iterable[Pipeline]) -> None:
    """Write the devices that pods wait for to their claims in the store, as far as these have none."""
    claims = store.cluster().resource_claims
    for use in (use for each in waits for use in each.claims):
        claim = claims.get(use.claim)
        if claim is not None and claim.allocation is None:
            store.put(replace(claim, allocation=use.allocation))


def _made(use: ClaimUse, pod: Pod) -> ResourceClaim:
    """The claim that is made for extended resources of the pod, with a uid."""
    return replace(made_claim(use.claim, pod.uid or pod.name, use.made or ExtendedRequests()), uid=use.claim)
