"""Which scaling pods there should be: pods that ask for whole GPUs in place of waiting pods with a part of one, so that
cluster autoscalers, which do not know parts, add nodes (API 13).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from kai_sched.api import names
from kai_sched.api.custom import NAME_LENGTH
from kai_sched.api.legal import LABEL_MAX
from kai_sched.model.config import ScalingSettings
from kai_sched.model.keys import split_key
from kai_sched.model.objects import GpuShare, Node, Phase, Pod
from kai_sched.model.resources import CPU, GPU, MEMORY, gpu_memory_mib, quantity_text
from kai_sched.model.store import Cluster

CONTAINER = "scaling-pod"
HUNDREDTHS = 100
_HASH_LENGTH = 8
_FINISHED = frozenset({Phase.SUCCEEDED, Phase.FAILED})
_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
_WEIGHTED_TERMS = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class ScalingPlan:
    """What is to be done: keys of scaling pods to delete, and of the waiting pods that get one."""

    remove: tuple[str, ...]
    create: tuple[str, ...]


def plan_scaling(cluster: Cluster, unschedulable: Collection[str], settings: ScalingSettings) -> ScalingPlan:
    """Compare what waits with the scaling pods that are there.

    ``unschedulable`` has the pods whose condition says that a new node could help. A scaling pod goes when it has
    finished, and when its pod waits no more. Those that stay or are made ask for at least as many GPUs as all waiting
    pods need, and one of them for as many as the pod with the most devices. While the settings are off, only what this
    program made is deleted.
    """
    pods = cluster.pods
    waiting = {key: share for key in unschedulable if (share := _share_of(pods.get(key)))}
    labels: dict[tuple[str, ...], str] = {_labels_of(key): key for key in sorted(waiting, reverse=True)}
    kept: dict[str, Pod] = {}
    remove = []
    for key, pod in sorted(_scaling_pods(cluster, settings)):
        found = (pod.labels.get(label, "") for label in (names.SCALED_NAMESPACE_LABEL, names.SCALED_NAME_LABEL))
        owner = labels.get(tuple(found))
        if pod.deleted_ns:
            continue
        if pod.phase in _FINISHED or owner is None or owner in kept:
            remove.append(key)
        else:
            kept[owner] = pod
    return ScalingPlan(tuple(remove), tuple(_missing(waiting, kept, smallest_memory(cluster.nodes.values()), settings)))


def _scaling_pods(cluster: Cluster, settings: ScalingSettings) -> Iterable[tuple[str, Pod]]:
    return (
        (key, pod)
        for key, pod in cluster.pods.items()
        if pod.namespace == settings.namespace
        and pod.labels.get(names.APP_LABEL) == names.SCALING_APP
        and (settings.enabled or pod.labels.get(names.MANAGED_BY_LABEL) == names.MANAGER)
    )


def _share_of(pod: Pod | None) -> GpuShare | None:
    waits = pod is not None and not pod.node and not pod.deleted_ns and pod.phase == Phase.PENDING
    return pod.shape.share if pod is not None and waits else None


def _missing(
    waiting: Mapping[str, GpuShare], kept: Mapping[str, Pod], memory_mib: int, settings: ScalingSettings
) -> Iterable[str]:
    """The waiting pods that get a scaling pod: those with the most devices first, until enough GPUs are asked for."""
    held = [gpus_of(pod) for pod in kept.values()]
    asked, largest = sum(held), max(held, default=0)
    need = devices_needed([(hundredths(share, memory_mib, settings), share.devices) for share in waiting.values()])
    for key in sorted(waiting.keys() - kept.keys(), key=lambda key: (-waiting[key].devices, key)):
        devices = waiting[key].devices
        if need > asked or devices > largest:
            asked, largest = asked + devices, max(largest, devices)
            yield key


def gpus_of(pod: Pod) -> int:
    """The GPUs that a scaling pod asks for."""
    return int(dict(pod.shape.request).get(GPU, 0.0))


def smallest_memory(nodes: Iterable[Node]) -> int:
    """The memory of the smallest GPU that a node tells of, in MiB; 0 where none does."""
    known = (gpu_memory_mib(node.labels.get(names.GPU_MEMORY_LABEL, "")) for node in nodes)
    return min((memory for memory in known if memory), default=0)


def hundredths(share: GpuShare, memory_mib: int, settings: ScalingSettings) -> int:
    """What the share takes of each device, in hundredths rounded up, 100 at most.

    Memory is its part of a device with ``memory_mib``; where that is not known it is the portion of the settings.
    """
    if share.memory_mib:
        part = share.memory_mib / memory_mib if memory_mib else settings.memory_portion
    else:
        part = share.portion
    return min(HUNDREDTHS, max(1, math.ceil(part * HUNDREDTHS - 1e-9)))


def devices_needed(shares: Sequence[tuple[int, int]]) -> int:
    """How many GPUs hold all of these: (hundredths of each device, number of devices, which are different ones).

    The largest first, each onto the fullest devices that have room: never fewer than are needed, and few more.
    """
    count = [0] * (HUNDREDTHS + 1)  # devices by the hundredths that are left of them
    for part, devices in sorted(shares, reverse=True):
        left, taken = devices, []
        for room in range(part, HUNDREDTHS + 1):
            here = min(left, count[room])
            if here:
                count[room] -= here
                left -= here
                taken.append((room - part, here))
        for room, here in [*taken, (HUNDREDTHS - part, left)]:
            count[room] += here
    return sum(count)


def scaling_pod(pod: Pod, raw: Mapping[str, Any], name: str, settings: ScalingSettings) -> dict[str, Any]:
    """The scaling pod of this name for a waiting pod, of which ``raw`` is what the API server has."""
    spec, request = raw.get("spec") or {}, dict(pod.shape.request)
    share = pod.shape.share
    amounts = {
        resource: quantity_text(resource, request[resource]) for resource in (CPU, MEMORY) if request.get(resource)
    }
    gpus = {names.NVIDIA_GPU: str(share.devices if share else 1)}
    container = {
        "name": CONTAINER,
        "image": settings.image,
        "imagePullPolicy": settings.image_pull_policy,
        "args": list(settings.arguments),
        "resources": {"requests": amounts | gpus, "limits": gpus},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    copied = {field: spec[field] for field in ("nodeSelector", "tolerations") if spec.get(field)}
    if spec.get("affinity"):
        copied["affinity"] = _affinity(spec["affinity"], pod.namespace)
    security = {"runAsNonRoot": True, "runAsUser": 10000, "seccompProfile": {"type": "RuntimeDefault"}}
    of_namespace, of_name = _labels_of(pod.key)
    labels = {
        names.APP_LABEL: names.SCALING_APP,
        names.SCALED_NAMESPACE_LABEL: of_namespace,
        names.SCALED_NAME_LABEL: of_name,
        names.MANAGED_BY_LABEL: names.MANAGER,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": settings.namespace, "labels": labels},
        "spec": {
            **copied,
            "automountServiceAccountToken": False,
            "containers": [container],
            "restartPolicy": "OnFailure",
            "securityContext": security,
            "serviceAccountName": settings.service_account,
            "terminationGracePeriodSeconds": 0,
        },
    }


def name_of(key: str, taken: Collection[str] = ()) -> str:
    """The name of the scaling pod for the pod "namespace/name": both, joined by a dash.

    With a hash behind them if that is too long, or if another pod's has the name: ``a-b/c`` and ``a/b-c`` have one.
    """
    plain = key.replace("/", "-")
    if len(plain) <= NAME_LENGTH and plain not in taken:
        return plain
    return _hashed(plain, key, NAME_LENGTH)


def _labels_of(key: str) -> tuple[str, str]:
    """Namespace and name of a pod as the labels of its scaling pod have them: names may be longer than labels."""
    namespace, name = split_key(key)
    return namespace, name if len(name) <= LABEL_MAX else _hashed(name, key, LABEL_MAX)


def _hashed(text: str, key: str, length: int) -> str:
    digest = sha256(key.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{text[: length - _HASH_LENGTH - 1].rstrip('-.')}-{digest}"


def _affinity(affinity: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """The same for a pod in another namespace: terms that mean the pod's own name it."""

    def named(term: Mapping[str, Any]) -> dict[str, Any]:
        return (
            dict(term) if term.get("namespaces") or "namespaceSelector" in term else {**term, "namespaces": [namespace]}
        )

    found = dict(affinity)
    for field in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(field)
        if not part:
            continue
        found[field] = dict(part)
        if part.get(_TERMS):
            found[field][_TERMS] = [named(term) for term in part[_TERMS]]
        if part.get(_WEIGHTED_TERMS):
            found[field][_WEIGHTED_TERMS] = [
                {**each, "podAffinityTerm": named(each.get("podAffinityTerm") or {})} for each in part[_WEIGHTED_TERMS]
            ]
    return found
