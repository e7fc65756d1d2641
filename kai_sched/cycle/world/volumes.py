"""Offline, what happens to PersistentVolumeClaims between two cycles: those of pods that were bound get volumes, which
take of the capacity of a storage driver, and those that are deleted with pods that were evicted give it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kai_sched.model.constraints import NodeSelector, Requirement
from kai_sched.model.objects import Node, Pod, StorageClass, Volume, VolumeClaim
from kai_sched.model.selectors import NODE_NAME, admits
from kai_sched.model.storage import StorageCapacity
from kai_sched.model.store import Cluster, Store
from kai_sched.model.volumes import VolumeBook
from kai_sched.plan.effects import Bind
from kai_sched.plan.result import CycleResult


def settle_volumes(store: Store, cluster: Cluster, result: CycleResult, pods: Mapping[str, Pod]) -> None:
    """Bind the claims that waited for pods which this cycle binds; ``cluster`` is what it was decided on.

    A volume that is made can be used in the topology of its storage class; where the class names none, it is on the
    node of the pod: nobody here knows what its driver does.
    """
    if not cluster.volume_claims:
        return
    for key in result.evicted if cluster.storage_capacities else ():
        _leave(cluster.pods[key], store, cluster)
    book = VolumeBook(cluster)
    for bind in result.effects:
        if not isinstance(bind, Bind) or bind.pod not in pods:
            continue
        node = cluster.nodes[bind.node]
        waiting = [claim for claim in book.waiting(pods[bind.pod].shape.claims) if not _has_volume(claim, store)]
        for claim, volume in book.place(waiting, node, (), dict(bind.volumes)).volumes:
            found = volume or _made(claim, node, cluster.storage_classes[claim.storage_class])
            if volume is None:
                _change_capacity(claim, node, -claim.size_bytes, store)
            store.put(replace(found, claim=claim.key, claim_uid=claim.uid, phase="Bound"))
            store.put(replace(claim, volume=found.name, phase="Bound", selected_node=""))


def _has_volume(claim: VolumeClaim, store: Store) -> bool:
    """Whether a pod of this cycle that shares the claim has got it a volume already."""
    known = store.get(VolumeClaim, claim.key)
    return known is None or bool(known.volume)


def _made(claim: VolumeClaim, node: Node, storage: StorageClass) -> Volume:
    """The volume that is made for the claim on the node."""
    reach: NodeSelector = ((Requirement(NODE_NAME, "In", (node.name,)),),)
    if storage.allowed_topologies is not None:
        reach = tuple(term for term in storage.allowed_topologies if admits((term,), node))
    name = f"pvc-{claim.uid or claim.key.replace('/', '-')}"
    return Volume(
        name,
        reach,
        claim.storage_class,
        access_modes=claim.access_modes,
        size_bytes=claim.size_bytes,
        uid=name,
        volume_mode=claim.volume_mode,
        attributes_class=claim.attributes_class,
        driver=storage.provisioner,
        handle=name,
    )


def _leave(pod: Pod, store: Store, cluster: Cluster) -> None:
    """Have the claims that are deleted with the pod, which left its node, wait again: the next pod has new ones."""
    node = cluster.nodes.get(pod.node)
    if node is None:
        return
    for key in pod.shape.claims:
        claim = store.get(VolumeClaim, key)
        if claim is not None and claim.volume and claim.pod_uid and claim.pod_uid == pod.uid:
            store.remove(Volume, claim.volume)
            store.put(replace(claim, volume="", phase="Pending"))
            _change_capacity(claim, node, claim.size_bytes, store)


def _change_capacity(claim: VolumeClaim, node: Node, size_bytes: float, store: Store) -> None:
    """Add the bytes to the first segment of the claim's storage class that has the node, and room for what is taken."""
    for _, each in sorted(store.all(StorageCapacity).items()):
        if each.storage_class == claim.storage_class and admits(each.nodes, node) and each.bound_bytes >= -size_bytes:
            if each.size_bytes is not None:
                left = max(0.0, each.size_bytes + size_bytes)
                largest = None if each.largest_bytes is None else min(each.largest_bytes, left)
                store.put(replace(each, size_bytes=left, largest_bytes=largest))
            return
