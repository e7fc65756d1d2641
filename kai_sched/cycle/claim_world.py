"""Offline, what happens to claims for devices between two cycles: they get the devices that were decided, and lose them
with their last pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kai_sched.model.claims import ResourceClaim
from kai_sched.model.objects import Pod
from kai_sched.model.store import Cluster, Store
from kai_sched.plan.effects import Bind


def settle_claims(store: Store, cluster: Cluster, binds: Iterable[Bind], pods: Mapping[str, Pod]) -> None:
    """Write the allocations of ``binds`` to the store, and take away those of claims that no pod uses any more.

    ``cluster`` is the view before the cycle, ``pods`` are the pods after it.
    """
    changed: dict[str, ResourceClaim] = {}
    for bind in binds:
        pod = cluster.pods[bind.pod]
        for use in bind.claims:
            claim = changed.get(use.claim) or cluster.resource_claims[use.claim]
            consumers = tuple(dict.fromkeys((*claim.consumers, (pod.name, pod.uid))))
            changed[use.claim] = replace(claim, allocation=use.allocation, consumers=consumers)
    if not cluster.resource_claims:
        return
    used = {f"{pod.namespace}/{use.claim}" for pod in pods.values() if pod.node or pod.deleted_ns for use in pod.claims}
    for key, pod in cluster.pods.items():
        after = pods.get(key)
        if not pod.claims or not pod.node or (after is not None and after.node):
            continue
        for name in (f"{pod.namespace}/{use.claim}" for use in pod.claims):
            if (known := changed.get(name) or cluster.resource_claims.get(name)) is not None:
                consumers = tuple(each for each in known.consumers if each != (pod.name, pod.uid))
                allocation = known.allocation if consumers or name in used else None
                changed[name] = replace(known, allocation=allocation, consumers=consumers)
    for claim in changed.values():
        store.put(claim)
