"""The result of cycles as JSON or YAML: which keys it has.

The first five keys of a cycle are the form in which scenarios are checked; plain clusters have more keys after them.
Amounts are in scheduler units: millicores, bytes, devices. Unlimited is -1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec

from kai_sched.answers.overview import overview
from kai_sched.model.config import Config
from kai_sched.model.objects import Phase
from kai_sched.model.problems import Problem
from kai_sched.model.store import Cluster
from kai_sched.plan.allocations import quantity, wire_allocation
from kai_sched.plan.effects import Bind, Evict
from kai_sched.plan.receipts import freed, receipt
from kai_sched.plan.result import QUEUE_RESOURCES, CycleResult, GroupState, PodState, QueueState
from kai_sched.report.answers_json import API_VERSION, overview_document, reason_document
from kai_sched.report.claims import ClaimedDevice, claimed_devices
from kai_sched.report.devices import SharedDevice, shared_devices
from kai_sched.report.text import finite

_encoder = msgspec.json.Encoder(order=None)


@dataclass(frozen=True, slots=True)
class Cycle:
    """The view and the result of one cycle, and the states of the pods once its effects have taken place."""

    cluster: Cluster
    result: CycleResult
    settled: Mapping[str, PodState]
    now_ns: int = 0


def cycle_document(cycle: Cycle, config: Config | None) -> dict[str, Any]:
    """The cycle as plain data. For plain clusters, which have a ``config``, also a summary, shared GPUs, devices of
    claims, queues, groups with their counts and reasons, and evictions."""
    result, pods = cycle.result, cycle.cluster.pods
    # The solver never sees failed pods, but readers of the output expect them.
    failed = {key: {"status": "Failed", "node": pod.node} for key, pod in pods.items() if pod.phase == Phase.FAILED}
    groups = {key: pod.gpu_groups for key, pod in pods.items() if pod.gpu_groups}
    binds = [effect for effect in result.effects if isinstance(effect, Bind)]
    groups |= {bind.pod: bind.gpu_groups for bind in binds if bind.gpu_groups}
    claims = {bind.pod: {use.claim: wire_allocation(use.allocation) for use in bind.claims} for bind in binds}
    document: dict[str, Any] = {
        "decided": _pods(result.pods, groups, failed, claims),
        "settled": _pods(cycle.settled, groups, failed),
        # Moved pods are evicted too, but listed apart.
        "evicted": [effect.pod for effect in result.effects if isinstance(effect, Evict) and not effect.moved],
        "moved": [effect.pod for effect in result.effects if isinstance(effect, Evict) and effect.moved],
        "nodes": {
            name: {"idleGPUs": node.idle.get("gpu", 0.0), "releasingGPUs": node.releasing.get("gpu", 0.0)}
            for name, node in result.nodes.items()
        },
        "podGroups": {
            key: {"reason": group.reason.code, "message": group.reason.message}
            for key, group in result.groups.items()
            if group.reason is not None
        },
    }
    if config is not None:
        document["summary"] = overview_document(overview(cycle.cluster, result, config, cycle.now_ns))
        document["reasons"] = {
            key: reason_document(group.reason) for key, group in result.groups.items() if group.reason
        }
        document["sharedGPUs"] = _devices(shared_devices(cycle.cluster, result))
        document["claimedDevices"] = _claimed(claimed_devices(cycle.cluster, result))
        document["queues"] = {queue.name: _queue(queue) for queue in result.queues}
        document["groups"] = {key: _group(group) for key, group in result.groups.items()}
        document["evictions"] = [_eviction(effect) for effect in result.effects if isinstance(effect, Evict)]
    return document


def _devices(devices: Sequence[SharedDevice]) -> dict[str, Any]:
    """By node: the GPUs that are shared, with the part that each pod has as its annotations say it."""
    found: dict[str, Any] = {}
    for device in devices:
        pods = {
            sharer.pod: {"memoryMiB": sharer.share.memory_mib}
            if sharer.share.memory_mib
            else {"fraction": sharer.share.portion}
            for sharer in device.sharers
        }
        found.setdefault(device.node, []).append({"gpuGroup": device.group, "held": device.held, "pods": pods})
    return found


def _claimed(devices: Sequence[ClaimedDevice]) -> dict[str, Any]:
    """By node: the devices that claims hold. Amounts of capacities are Kubernetes quantities."""
    found: dict[str, Any] = {}
    for device in devices:
        entry: dict[str, Any] = {
            "driver": device.driver,
            "pool": device.pool,
            "device": device.device,
            "claim": device.claim,
            "gpus": device.gpus,
        }
        if device.admin:
            entry["adminAccess"] = True
        if device.consumed:
            entry["consumedCapacity"] = {name: quantity(amount) for name, amount in device.consumed}
        found.setdefault(device.node, []).append({**entry, "pods": dict(device.pods)})
    return found


def _pods(
    states: Mapping[str, PodState],
    groups: Mapping[str, tuple[str, ...]],
    failed: Mapping[str, Any],
    claims: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> dict[str, Any]:
    """The states of the pods, with the groups of GPUs that they share and what is allocated to their claims."""
    found: dict[str, Any] = {}
    for key, state in states.items():
        entry: dict[str, Any] = {"status": state.status, "node": state.node}
        if state.node and groups.get(key):
            entry["gpuGroups"] = list(groups[key])
        if claims.get(key):
            entry["resourceClaims"] = claims[key]
        found[key] = entry
    return dict(sorted((found | dict(failed)).items())) if failed else found


def _queue(queue: QueueState) -> dict[str, Any]:
    columns = {
        "quota": queue.quota,
        "limit": queue.limit,
        "fairShare": queue.fair_share,
        "allocated": queue.allocated,
        "allocatedNonPreemptible": queue.allocated_non_preemptible,
        "requested": queue.requested,
    }
    amounts = {
        name: {resource: finite(value) for resource, value in zip(QUEUE_RESOURCES, triple, strict=True)}
        for name, triple in columns.items()
    }
    return {"parent": queue.parent, "priority": queue.priority, **amounts}


def _group(group: GroupState) -> dict[str, Any]:
    return {
        "queue": group.queue,
        "priority": group.priority,
        "preemptible": group.preemptible,
        "minMember": group.min_member,
        "counts": dict(group.counts),
        "nodes": dict(group.nodes),
    }


def _eviction(effect: Evict) -> dict[str, Any]:
    return {
        "pod": effect.pod,
        "podGroup": effect.group,
        "action": effect.action,
        "for": effect.cause,
        "node": effect.node,
        "movesTo": effect.moves_to,
        "freed": dict(freed(effect)),
        "message": receipt(effect),
    }


def document(file: str, name: str, cycles: Sequence[Any], problems: Sequence[Problem] | None) -> dict[str, Any]:
    """The document of one input. ``cycles`` are documents, encoded or not; ``problems`` is None for scenarios."""
    # A path may hold bytes that are no text.
    file = file.encode("utf-8", "backslashreplace").decode("utf-8")
    found: dict[str, Any] = {"apiVersion": API_VERSION, "kind": "Simulation", "file": file, "name": name}
    found["cycles"] = list(cycles)
    if problems is not None:
        found["problems"] = [
            {"source": item.source, "subject": item.subject, "field": item.field, "message": item.message}
            for item in problems
        ]
    return found


def encode(data: Any) -> bytes:
    """JSON on one line, without the line's end."""
    return _encoder.encode(data)


def encoded(data: Any) -> msgspec.Raw:
    """JSON to be put into a larger document as it is: a few bytes a pod instead of a tree of objects."""
    return msgspec.Raw(_encoder.encode(data))


def to_yaml(data: Any) -> str:
    """One YAML document, keys in the order of the JSON."""
    import yaml

    text: str = yaml.dump(
        data,
        Dumper=yaml.CSafeDumper,
        sort_keys=False,
        allow_unicode=True,
        explicit_start=True,
        width=120,
    )
    return text
