"""What is written for pods that share a GPU: the reservation pod of a device, and the ConfigMaps, labels and
annotations of the pods that share it (API 7.3, 7.4).

Pure functions; ``cluster`` sends what they return.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from kai_sched.api import names
from kai_sched.model.config import Config, ReservationSettings
from kai_sched.model.constraints import Toleration
from kai_sched.model.gpu_memory import memory_price
from kai_sched.model.objects import GpuShare, Pod
from kai_sched.model.read.sharing import is_device_label

NAME_DIGITS = 16
CDI_KIND = "k8s.device-plugin.nvidia.com/gpu"
CONTAINER = "resource-reservation"
GRACE_S = 5  # it ends at once when it is told to, and frees its device
RECEIVED_FRACTION = "Fraction"


@dataclass(frozen=True, slots=True)
class GpuGroup:
    """A device that pods share: its node, and the name of the group of pods that share it there."""

    node: str
    group: str

    @property
    def reservation(self) -> str:
        """The name of the reservation pod. It is made of the node and the group, so a second one cannot be created."""
        return f"gpu-reservation-{sha256(f'{self.node}/{self.group}'.encode()).hexdigest()[:NAME_DIGITS]}"


def shared_devices(pod: Pod) -> tuple[GpuGroup, ...]:
    """The devices that the pod shares, or reserves, on its node."""
    return tuple(GpuGroup(pod.node, group) for group in pod.gpu_groups) if pod.node else ()


def reservation_pod(
    device: GpuGroup, tolerations: Sequence[Toleration], image: str, is_fake: bool, settings: ReservationSettings
) -> dict[str, Any]:
    """The reservation pod of the device, which holds it against the device plugin and says which one it is.

    Parameters
    ----------
    tolerations
        Those of the pod for which the device is reserved.
    image
        What it runs.
    is_fake
        Whether the node has no real GPUs: the pod makes the device up.
    """
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": image,
        "imagePullPolicy": settings.image_pull_policy,
        "args": ["reserve", "--fake-device"] if is_fake else ["reserve"],
        "env": [
            {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for variable, path in (("POD_NAME", "metadata.name"), ("POD_NAMESPACE", "metadata.namespace"))
        ],
        "resources": {
            "requests": {**settings.requests, names.NVIDIA_GPU: "1"},
            "limits": {**settings.limits, names.NVIDIA_GPU: "1"},
        },
        "securityContext": dict(settings.container_security_context),
    }
    spec: dict[str, Any] = {
        "nodeName": device.node,
        "serviceAccountName": settings.service_account,
        "terminationGracePeriodSeconds": GRACE_S,
        "securityContext": dict(settings.pod_security_context),
        "containers": [container],
        "tolerations": [_toleration(each) for each in tolerations],
    }
    if settings.runtime_class and not is_fake:
        spec["runtimeClassName"] = settings.runtime_class
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": device.reservation,
            "namespace": settings.namespace,
            "labels": {names.APP_LABEL: settings.app_label, names.GPU_GROUP_LABEL: device.group},
            "annotations": {"karpenter.sh/do-not-disrupt": "true"},
        },
        "spec": spec,
    }


def _toleration(toleration: Toleration) -> dict[str, str]:
    named = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    return {key: value for key, value in named.items() if value}


def portion_text(share: GpuShare, memory_mib: int) -> str:
    """The part of one device, with two decimals. GPU memory is its part of ``memory_mib``, rounded up."""
    portion = memory_price(share, memory_mib) / share.devices if share.memory_mib else share.portion
    return f"{portion:.2f}"


def device_maps(
    pod: Pod, uuids: Sequence[str], portion: str, memory_limit: str, settings: ReservationSettings
) -> list[dict[str, Any]]:
    """The two ConfigMaps that tell the container which devices it has (API 7.4).

    Parameters
    ----------
    uuids
        The devices, in the order of the names of their groups.
    portion
        ``portion_text``.
    memory_limit
        The value of CUDA_DEVICE_MEMORY_LIMIT; "" for none.
    """
    visible = ",".join(f"{CDI_KIND}={uuid}" if settings.cdi_enabled else uuid for uuid in uuids)
    values = {
        names.VISIBLE_DEVICES_ENV: visible,
        names.GPU_PORTION_ENV: portion,
        names.NUMBER_OF_GPUS_ENV: portion,
    }
    if memory_limit:
        values[names.DEVICE_MEMORY_LIMIT_ENV] = memory_limit
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": pod.namespace,
                "labels": {names.SHARED_GPU_LABEL: "true"},
                "ownerReferences": [owner],
            },
            "data": data,
        }
        for name, data in (
            (pod.device_map, values),
            (f"{pod.device_map}-evar", {names.VISIBLE_DEVICES_ENV: visible}),
        )
    ]


def visible_device(data: Mapping[str, str], pod: Pod, group: str) -> str:
    """Which of the devices in the data of ``device_maps`` is that of the group; "" where it does not say."""
    listed = data.get(names.VISIBLE_DEVICES_ENV, "").split(",")
    groups = sorted(pod.gpu_groups)
    return listed[groups.index(group)].removeprefix(f"{CDI_KIND}=") if len(listed) == len(groups) else ""


def sharing_patch(
    pod: Pod, groups: Sequence[str], uuids: Sequence[str], settings: ReservationSettings
) -> dict[str, Any]:
    """The merge patch of a pod before its bind: which devices it shares.

    Labels of a bind that failed go, as far as the pod is shown with them; ``leftover_patch`` takes off the rest.
    """
    labels: dict[str, str | None] = dict.fromkeys(filter(is_device_label, pod.labels))
    labels |= (
        {names.GPU_GROUP_LABEL: groups[0]}
        if len(groups) == 1
        else {f"{names.GPU_GROUPS_PREFIX}{group}": group for group in groups}
    )
    annotations = {names.RECEIVED_TYPE_ANNOTATION: RECEIVED_FRACTION}
    if settings.cdi_enabled:
        # For runtimes that know CDI but have no runtime class of NVIDIA's, which reads the environment.
        annotations[names.CDI_ANNOTATION] = ",".join(f"{CDI_KIND}={uuid}" for uuid in uuids)
    return {"metadata": {"uid": pod.uid, "labels": labels, "annotations": annotations}}


def leftover_patch(patch: Mapping[str, Any], labels: Iterable[str]) -> dict[str, Any] | None:
    """The merge patch that takes off the labels of devices that ``sharing_patch`` did not set; None where there are
    none. ``labels`` are those of the pod after the first patch."""
    meta = patch["metadata"]
    others = [key for key in labels if is_device_label(key) and not meta["labels"].get(key)]
    return {"metadata": {"uid": meta["uid"], "labels": dict.fromkeys(others)}} if others else None


def is_user(pod: Pod, config: Config) -> bool:
    """Whether the pod uses a shared device: it is for this scheduler, asks for a part of one, is on a node and has not
    ended. Pods of other schedulers name a device in vain: anybody can write labels."""
    shares = pod.shape.share is not None and bool(pod.gpu_groups and pod.node)
    is_ours = pod.scheduler == config.scheduler_name and pod.namespace != config.reservation.namespace
    return shares and is_ours and not pod.has_ended
