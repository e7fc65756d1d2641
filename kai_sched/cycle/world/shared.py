"""Offline, what the shards that are decided later see of the binds of an earlier one: the devices and volumes that
pools share.
"""

from __future__ import annotations

from dataclasses import replace

from kai_sched.cycle.world.claims import settle_claims
from kai_sched.cycle.world.volumes import settle_volumes
from kai_sched.model.store import Cluster, Store
from kai_sched.plan.effects import Bind
from kai_sched.plan.result import CycleResult


def with_taken(cluster: Cluster, result: CycleResult) -> Cluster:
    """The view after the binds of ``result`` that take devices of claims or volumes; itself where there are none.

    The pods are on their nodes. Whoever was evicted has not left yet.
    """
    binds = [
        effect
        for effect in result.effects
        if isinstance(effect, Bind) and (effect.claims or cluster.pods[effect.pod].shape.claims)
    ]
    if not binds:
        return cluster
    store, pods = Store.of(cluster), dict(cluster.pods)
    for bind in binds:
        pods[bind.pod] = replace(pods[bind.pod], node=bind.node)
        store.put(pods[bind.pod])
    settle_volumes(store, cluster, replace(result, evicted=()), pods)
    settle_claims(store, cluster, binds, pods)
    return store.cluster()
