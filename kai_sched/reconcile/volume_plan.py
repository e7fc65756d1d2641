"""What is written for the claims of a pod before it is bound, which claims must be bound first, and when the node is
refused (API 7.2).

``plan_volumes`` is level-triggered: the volume binder calls it before the first write, and again once every claim is
bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kai_sched.model.objects import Node, Pod, Volume, VolumeClaim
from kai_sched.model.selectors import admits
from kai_sched.model.volumes import NOTHING_CHOSEN, VolumeBook
from kai_sched.plan.effects import ClaimVolume, Ref, SelectNode, VolumeWrite

NOTHING: Mapping[str, VolumeWrite] = {}


@dataclass(frozen=True, slots=True)
class VolumePlan:
    """What to write now, and the claims ("namespace/name") that must be bound before the pod is."""

    writes: tuple[VolumeWrite, ...] = ()
    awaits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the pod cannot be bound to the node: the claim, what is wrong with it, and the remedy."""

    message: str


def plan_volumes(
    book: VolumeBook,
    pod: Pod,
    node_name: str,
    decided: Mapping[str, VolumeWrite] = NOTHING,
    chosen: Mapping[str, str] = NOTHING_CHOSEN,
) -> VolumePlan | Refusal:
    """Return the plan for the pod on the node.

    Parameters
    ----------
    book
        The volumes and claims of the view.
    pod, node_name
        What is about to be bound.
    decided
        Earlier decisions that the view may not show yet, by the key of the claim: for pods of the same cycle, and for
        pods whose volumes are still being bound. Their volumes are not given away again.
    chosen
        By key of the claim, the volume that the cycle chose for it, "" for one that is to be made (``Bind.volumes``).
    """
    node = book.cluster.nodes.get(node_name)
    if node is None:
        return Refusal(f"node {node_name} is gone: the pod is scheduled again")
    open_claims: list[VolumeClaim] = []
    for key in pod.shape.claims:
        claim = book.cluster.volume_claims.get(key)
        fault = _fault_of(claim, node, book)
        if fault:
            return Refusal(f"PersistentVolumeClaim {key} {fault}")
        if claim is not None and not claim.volume:
            open_claims.append(claim)
    undecided = []
    for claim in open_claims:
        earlier = decided.get(claim.key)
        if earlier is None:
            undecided.append(claim)
        elif not _agrees(earlier, node, book):
            return Refusal(
                f"PersistentVolumeClaim {claim.key} is getting a volume for another node than {node.name}: "
                "the pod is scheduled again once it has it"
            )
    taken = {each.volume.name for each in decided.values() if isinstance(each, ClaimVolume)}
    placed = book.place(undecided, node, taken, chosen)
    if placed.homeless is not None:
        return Refusal(_homeless(placed.homeless, node))
    writes = [write for claim, volume in placed.volumes if (write := _write(claim, volume, node)) is not None]
    return VolumePlan(tuple(writes), tuple(claim.key for claim in open_claims))


def _fault_of(claim: VolumeClaim | None, node: Node, book: VolumeBook) -> str:
    """Return what keeps the claim from being used on the node, or an empty string."""
    if claim is None:
        return "does not exist: create it"
    if claim.deleted:
        return "is being deleted: create it again"
    if claim.phase == "Lost":
        return f"has lost its volume {claim.volume}: create the claim again"
    if not claim.volume:
        return "" if book.waits(claim) else "is not bound, and its storage class binds immediately or does not exist"
    volume = book.cluster.volumes.get(claim.volume)
    if volume is None:
        return f"is bound to volume {claim.volume}, which does not exist"
    if not admits(volume.node_affinity, node):
        return f"is bound to volume {volume.name}, which node {node.name} cannot reach: the pod is scheduled again"
    return ""


def _agrees(earlier: VolumeWrite, node: Node, book: VolumeBook) -> bool:
    """Return whether what was decided for the claim fits this node, too."""
    if isinstance(earlier, SelectNode):
        return earlier.node == node.name
    volume = book.cluster.volumes.get(earlier.volume.name)
    return volume is not None and admits(volume.node_affinity, node)


def _homeless(claim: VolumeClaim, node: Node) -> str:
    size = f"{claim.size_bytes / 2**30:g}Gi"
    modes = ", ".join(claim.access_modes) or "any access mode"
    return (
        f"PersistentVolumeClaim {claim.key} finds no free PersistentVolume of class {claim.storage_class} with {size} "
        f"and {modes} on node {node.name}: the pod is scheduled again"
    )


def _write(claim: VolumeClaim, volume: Volume | None, node: Node) -> VolumeWrite | None:
    """Return what is still to be written for the claim, or None."""
    ref = Ref("v1", "PersistentVolumeClaim", claim.namespace, claim.name, claim.uid)
    if volume is None:
        return None if claim.selected_node else SelectNode(ref, node.name)
    if volume.claim and volume.claim_uid:
        return None
    return ClaimVolume(Ref("v1", "PersistentVolume", "", volume.name, volume.uid), ref)
