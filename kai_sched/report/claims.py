"""Which devices ResourceClaims hold at the end of a cycle, what they take of each, and which pods use them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from kai_sched.model.claims.objects import AllocatedDevice, Allocation, ResourceClaim, is_gpu_name
from kai_sched.model.keys import object_key
from kai_sched.model.objects import Pod
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Bind
from kai_sched.plan.result import CycleResult, PodState


@dataclass(frozen=True, slots=True)
class ClaimedDevice:
    """A device that one claim has; a device of several claims is listed for each.

    Attributes
    ----------
    node
        The node of the device, else those of its pods, with commas; "" where neither says so.
    driver, pool, device
        The names of the device.
    claim
        Key of the ResourceClaim.
    gpus
        1 where the device was asked for as a GPU (semantics 8.6) and is used up, else 0.
    admin
        Whether it is used with admin access, and so not used up.
    consumed
        (name, amount) of the capacities that the claim takes, in the units of Kubernetes quantities.
    pods
        The status of each pod that uses it, as in PodState, by key.
    """

    node: str
    driver: str
    pool: str
    device: str
    claim: str
    gpus: int
    admin: bool
    consumed: tuple[tuple[str, Fraction], ...]
    pods: Mapping[str, str] = field(default_factory=dict)


def claimed_devices(cluster: Cluster, result: CycleResult) -> list[ClaimedDevice]:
    """The devices of claims by node, driver, pool, device and claim. Claims that only pipelined pods have hold none."""
    allocations = dict(_allocations(cluster, result))
    if not allocations:
        return []
    made = _made_for(cluster, result)
    users: dict[str, dict[str, PodState]] = {}
    for key, state in sorted(result.pods.items()):
        pod = cluster.pods.get(key)
        if pod is not None and (pod.claims or key in made) and (status := _status_there(pod, state)):
            at = PodState(status, pod.node or state.node)
            for claim_key in (*(object_key(pod.namespace, use.claim) for use in pod.claims), *made.get(key, ())):
                users.setdefault(claim_key, {})[key] = at
    nodes = {
        (each.driver, each.pool, device.name): device.node
        for each in cluster.resource_slices.values()
        for device in each.devices
    }
    found = []
    for key, allocation in allocations.items():
        claim, pods = cluster.resource_claims.get(key), users.get(key, {})
        for each in allocation.devices:
            node = nodes.get((each.driver, each.pool, each.device), "")
            node = node or ", ".join(sorted({state.node for state in pods.values()}))
            names = (each.driver, each.pool, each.device)
            statuses = {pod: state.status for pod, state in pods.items()}
            found.append(
                ClaimedDevice(
                    node, *names, key, _gpus(claim, each) if claim else 0, each.admin, each.consumed, statuses
                ),
            )
    return sorted(found, key=lambda each: (each.node, each.driver, each.pool, each.device, each.claim))


def _made_for(cluster: Cluster, result: CycleResult) -> dict[str, tuple[str, ...]]:
    """By pod the claim for its extended resources, which the pod does not name: there already, or made by its bind."""
    found: dict[str, tuple[str, ...]] = {
        object_key(claim.namespace, name): (claim.key,)
        for claim in cluster.resource_claims.values()
        if claim.extended
        for name, _ in claim.consumers
    }
    for effect in result.effects:
        if isinstance(effect, Bind) and (keys := tuple(use.claim for use in effect.claims if use.made is not None)):
            found[effect.pod] = keys
    return found


def _allocations(cluster: Cluster, result: CycleResult) -> Iterator[tuple[str, Allocation]]:
    """What each claim has: by its status, by a live BindRequest, or by a bind of this cycle."""
    for key, claim in cluster.resource_claims.items():
        if claim.allocation is not None:
            yield key, claim.allocation
    for request in cluster.bind_requests.values():
        pod = cluster.pods.get(request.pod_key)
        keys = {use.name: object_key(pod.namespace, use.claim) for use in pod.claims} if pod and request.is_live else {}
        for name, allocation in request.claims:
            known = cluster.resource_claims.get(keys.get(name, ""))
            if known is not None and known.allocation is None:
                yield known.key, allocation
    for effect in result.effects:
        if isinstance(effect, Bind):
            yield from ((use.claim, use.allocation) for use in effect.claims)


def _status_there(pod: Pod, state: PodState) -> str:
    """The status of a pod that uses what its claims have; "" for others. A pod that moves still leaves its node."""
    if state.status in ("Pending", "Gated", "Succeeded", "Failed"):
        return ""
    if state.status == "Pipelined":
        return "Releasing" if pod.node else ""
    return state.status


def _gpus(claim: ResourceClaim | None, had: AllocatedDevice) -> int:
    """1 where the device was asked for by an exact request for a class of GPUs; None: a claim that is not there yet."""
    if claim is None:  # made for extended resources, which the request of the pod counts
        return 0
    classes = [each.options[0].device_class for each in claim.asks.requests if each.exact and each.name == had.request]
    return int(not had.admin and not claim.extended and any(map(is_gpu_name, classes)))
