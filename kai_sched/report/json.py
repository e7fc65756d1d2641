"""The result of cycles as a document (``report.cycle_documents``), and documents as JSON or YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from msgspec import UNSET

from kai_sched.answers.overview import overview
from kai_sched.model.config import Config
from kai_sched.model.objects import Phase
from kai_sched.model.problems import Problem
from kai_sched.model.store import Cluster
from kai_sched.plan.allocations import quantity, wire_allocation
from kai_sched.plan.effects import Bind, Evict
from kai_sched.plan.receipts import freed, receipt
from kai_sched.plan.result import CycleResult, GroupState, PodState, QueueState
from kai_sched.report import cycle_documents as c
from kai_sched.report.answers_json import overview_document, reason_document
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
    suspended: tuple[bool, ...] = ()  # workloads of the input: whether Kueue suspended each


def cycle_document(cycle: Cycle, config: Config | None) -> c.CycleDocument:
    """The cycle as a document. For plain clusters, which have a ``config``, also a summary, shared GPUs, devices of
    claims, queues, groups with their counts and reasons, and evictions."""
    result, pods = cycle.result, cycle.cluster.pods
    # The solver never sees failed pods, but readers of the output expect them.
    failed = {
        key: c.PodDocument(status="Failed", node=pod.node) for key, pod in pods.items() if pod.phase == Phase.FAILED
    }
    groups = {key: pod.gpu_groups for key, pod in pods.items() if pod.gpu_groups}
    binds = [effect for effect in result.effects if isinstance(effect, Bind)]
    groups |= {bind.pod: bind.gpu_groups for bind in binds if bind.gpu_groups}
    claims = {bind.pod: {use.claim: wire_allocation(use.allocation) for use in bind.claims} for bind in binds}
    evictions = [effect for effect in result.effects if isinstance(effect, Evict)]
    found = c.CycleDocument(
        decided=_pods(result.pods, groups, failed, claims),
        settled=_pods(cycle.settled, groups, failed, {}),
        # Moved pods are evicted too, but listed apart.
        evicted=[effect.pod for effect in evictions if not effect.moved],
        moved=[effect.pod for effect in evictions if effect.moved],
        nodes={
            name: c.NodeGpusDocument(idle_gpus=node.idle.get("gpu", 0.0), releasing_gpus=node.releasing.get("gpu", 0.0))
            for name, node in result.nodes.items()
        },
        pod_groups={
            key: c.CodeDocument(reason=group.reason.code, message=group.reason.message)
            for key, group in result.groups.items()
            if group.reason is not None
        },
    )
    if config is not None:
        found.summary = overview_document(overview(cycle.cluster, result, config, cycle.now_ns, cycle.suspended))
        found.reasons = {key: reason_document(group.reason) for key, group in result.groups.items() if group.reason}
        found.shared_gpus = _devices(shared_devices(cycle.cluster, result))
        found.claimed_devices = _claimed(claimed_devices(cycle.cluster, result))
        found.queues = {queue.name: _queue(queue) for queue in result.queues}
        found.groups = {key: _group(group) for key, group in result.groups.items()}
        found.evictions = [_eviction(effect) for effect in evictions]
    return found


def _devices(devices: Sequence[SharedDevice]) -> dict[str, list[c.SharedGpuDocument]]:
    """By node: the GPUs that are shared, with the part that each pod has as its annotations say it."""
    found: dict[str, list[c.SharedGpuDocument]] = {}
    for device in devices:
        pods = {
            sharer.pod: c.PartDocument(memory_mib=sharer.share.memory_mib)
            if sharer.share.memory_mib
            else c.PartDocument(fraction=sharer.share.portion)
            for sharer in device.sharers
        }
        entry = c.SharedGpuDocument(gpu_group=device.group, held=device.held, pods=pods)
        found.setdefault(device.node, []).append(entry)
    return found


def _claimed(devices: Sequence[ClaimedDevice]) -> dict[str, list[c.ClaimedDeviceDocument]]:
    """By node: the devices that claims hold. Amounts of capacities are Kubernetes quantities."""
    found: dict[str, list[c.ClaimedDeviceDocument]] = {}
    for device in devices:
        consumed = {name: quantity(amount) for name, amount in device.consumed}
        entry = c.ClaimedDeviceDocument(
            driver=device.driver,
            pool=device.pool,
            device=device.device,
            claim=device.claim,
            gpus=device.gpus,
            admin_access=device.admin or UNSET,
            consumed_capacity=consumed or UNSET,
            pods=dict(device.pods),
        )
        found.setdefault(device.node, []).append(entry)
    return found


def _pods(
    states: Mapping[str, PodState],
    groups: Mapping[str, tuple[str, ...]],
    failed: Mapping[str, c.PodDocument],
    claims: Mapping[str, dict[str, dict[str, Any]]],
) -> dict[str, c.PodDocument]:
    """The states of the pods, with the groups of GPUs that they share and what is allocated to their claims."""
    found: dict[str, c.PodDocument] = {}
    for key, state in states.items():
        entry = c.PodDocument(status=state.status, node=state.node)
        if state.node and groups.get(key):
            entry.gpu_groups = list(groups[key])
        if claims.get(key):
            entry.resource_claims = claims[key]
        found[key] = entry
    return dict(sorted((found | dict(failed)).items())) if failed else found


def _queue(queue: QueueState) -> c.CycleQueueDocument:
    return c.CycleQueueDocument(
        parent=queue.parent,
        priority=queue.priority,
        quota=_units(queue.quota),
        limit=_units(queue.limit),
        fair_share=_units(queue.fair_share),
        allocated=_units(queue.allocated),
        allocated_non_preemptible=_units(queue.allocated_non_preemptible),
        requested=_units(queue.requested),
    )


def _units(triple: tuple[float, float, float]) -> c.UnitsDocument:
    cpu, memory, gpu = map(finite, triple)
    return c.UnitsDocument(cpu=cpu, memory=memory, gpu=gpu)


def _group(group: GroupState) -> c.GroupDocument:
    return c.GroupDocument(
        queue=group.queue,
        priority=group.priority,
        preemptible=group.preemptible,
        min_member=group.min_member,
        counts=dict(group.counts),
        nodes=dict(group.nodes),
    )


def _eviction(effect: Evict) -> c.EvictionDocument:
    return c.EvictionDocument(
        pod=effect.pod,
        pod_group=effect.group,
        action=effect.action,
        cause=effect.cause,
        node=effect.node,
        moves_to=effect.moves_to,
        freed=dict(freed(effect)),
        message=receipt(effect),
    )


def document(
    file: str, name: str, cycles: Sequence[c.CycleDocument | msgspec.Raw], problems: Sequence[Problem] | None
) -> c.SimulationDocument:
    """The document of one input. ``cycles`` are encoded or not; ``problems`` is None for scenarios."""
    return c.SimulationDocument(
        # A path may hold bytes that are no text.
        file=file.encode("utf-8", "backslashreplace").decode("utf-8"),
        name=name,
        cycles=cast("list[c.CycleDocument]", cycles),
        problems=UNSET if problems is None else [_problem(each) for each in problems],
    )


def _problem(item: Problem) -> c.ProblemDocument:
    return c.ProblemDocument(source=item.source, subject=item.subject, field=item.field, message=item.message)


def encode(data: Any) -> bytes:
    """JSON on one line, without the line's end."""
    return _encoder.encode(data)


def encoded(data: Any) -> msgspec.Raw:
    """JSON to be put into a larger document as it is: a few bytes a pod instead of a tree of objects."""
    return msgspec.Raw(_encoder.encode(data))


def to_dict(data: Any) -> Any:
    """The document as dictionaries, lists, texts and numbers."""
    return msgspec.to_builtins(data)


def to_yaml(data: Any) -> str:
    """One YAML document, keys in the order of the JSON."""
    import yaml

    text: str = yaml.dump(
        to_dict(data),
        Dumper=yaml.CSafeDumper,
        sort_keys=False,
        allow_unicode=True,
        explicit_start=True,
        width=120,
    )
    return text
