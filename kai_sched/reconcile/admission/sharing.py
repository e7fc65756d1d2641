"""Refuses pods whose annotations for a part of a GPU are wrong, or whose containers would see devices not given to them
(API 8.2).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from kai_sched.api import names
from kai_sched.api.legal import is_subdomain
from kai_sched.model.field_errors import shown
from kai_sched.model.read.container_memory import read_container_memory
from kai_sched.model.read.sharing import (
    DEVICES_MAX,
    FRACTION_LENGTH,
    asks_for_part,
    combined_faults,
    container_fault,
    container_of_share,
    devices_of,
    fraction_of,
    is_device_label,
    whole_of,
)
from kai_sched.model.resources import QuantityError, is_quantity, parse_quantity
from kai_sched.reconcile.admission.reserved_labels import claim_faults
from kai_sched.reconcile.admission.types import AdmissionRequest, AdmissionSettings, Answer

Container = Mapping[str, Any]
ALLOWED_DEVICES = ("void", "none")
# Fields below spec. Only a pod that runs gets ephemeral containers, which can ask for nothing.
OWN_CONTAINERS = ("initContainers", "containers")
EPHEMERAL = "ephemeralContainers"
SHARING_OFF = (
    "GPU sharing is off unless the Config kai-config turns it on (spec.global.gpuSharing): turn it on there, or ask "
    "for whole GPUs"
)
PREFIX_MAX = 200  # characters; the longest ending of a ConfigMap's name has to fit behind it


class UnknownContainer(ValueError):
    """The annotation names a container that the pod does not have; the message says so."""


def annotations_of(pod: Mapping[str, Any]) -> Mapping[str, str]:
    """The pod's annotations; empty where it has none."""
    found: Mapping[str, str] = (pod.get("metadata") or {}).get("annotations") or {}
    return found


def containers_of(pod: Mapping[str, Any], fields: Iterable[str] = OWN_CONTAINERS) -> list[tuple[str, int, Container]]:
    """All containers as (field below spec, index, container), init containers first."""
    spec = pod.get("spec") or {}
    return [(field, i, container) for field in fields for i, container in enumerate(spec.get(field) or ())]


def shares(pod: Mapping[str, Any]) -> bool:
    """Whether the pod asks for a part of a GPU."""
    return asks_for_part(annotations_of(pod))


def sharing_container(pod: Mapping[str, Any]) -> tuple[str, int] | None:
    """Field and index of the container that gets the part; None where there is no container.

    Raises UnknownContainer.
    """
    there = containers_of(pod)
    wanted = container_of_share(annotations_of(pod))
    for field, i, container in there:
        if (field == "containers") if wanted is None else container.get("name") == wanted[1]:
            return field, i
    if fault := container_fault(annotations_of(pod), (container.get("name") for _, _, container in there)):
        raise UnknownContainer(f"annotation {fault[0]}: {fault[1]}")
    return None


def asks_for_gpus(container: Container) -> bool:
    """Whether the container asks for whole GPUs or MIG devices."""
    resources = container.get("resources") or {}
    return any(
        (name == names.NVIDIA_GPU or name.startswith(names.MIG_PREFIX)) and _is_some(quantity)
        for part in ("requests", "limits")
        for name, quantity in (resources.get(part) or {}).items()
    )


def _is_some(quantity: Any) -> bool:
    try:
        return parse_quantity(quantity) != 0
    except QuantityError:
        return True


def validate_pod(request: AdmissionRequest, settings: AdmissionSettings, _suffix: str) -> Answer:
    """The first thing that is wrong, in the contract's order, then what no pod may claim."""
    pod = request.object
    if (pod.get("spec") or {}).get("schedulerName") != settings.scheduler_name:
        return Answer()
    updates = request.operation == "UPDATE" and bool(request.old)
    changes = _change_faults(pod, request.old) if updates else iter(())
    if request.is_leaving:  # it has its devices until it is gone; nothing else matters any more
        fault = next(changes, "")
        return Answer(denied=f"{request.label}: {fault}" if fault else "")
    # What was there before passes: else such a pod could not even be labelled once sharing is off.
    known = set(_faults(request.old, settings)) if updates else set()
    faults = (fault for fault in _faults(pod, settings) if fault not in known)
    fault = next(chain(changes, faults, claim_faults(request, settings)), "")
    return Answer(denied=f"{request.label}: {fault}" if fault else "")


def _faults(pod: Mapping[str, Any], settings: AdmissionSettings) -> Iterator[str]:
    annotations = annotations_of(pod)
    fraction, memory = (annotations.get(key) for key in (names.GPU_FRACTION_ANNOTATION, names.GPU_MEMORY_ANNOTATION))
    own = read_container_memory(annotations)
    is_part = bool(own.keys) or fraction is not None or memory is not None
    if is_part and not settings.gpu_sharing:
        yield SHARING_OFF
    if annotations.get(names.MPS_ANNOTATION) == "true" and not is_part:
        yield (
            f"annotation {names.MPS_ANNOTATION}: MPS is for parts of GPUs only: add {names.GPU_FRACTION_ANNOTATION} "
            f"or {names.GPU_MEMORY_ANNOTATION}"
        )
    limited = any(
        names.NVIDIA_GPU in ((container.get("resources") or {}).get("limits") or {})
        for _, _, container in containers_of(pod)
    )
    if fraction is not None and limited:
        yield (
            f"annotation {names.GPU_FRACTION_ANNOTATION} cannot be combined with whole GPUs: remove it, or the limit "
            f"{names.NVIDIA_GPU} of the containers"
        )
    if memory is not None and (limited or fraction is not None):
        what = names.GPU_FRACTION_ANNOTATION if fraction is not None else f"the limit {names.NVIDIA_GPU}"
        yield f"annotation {names.GPU_MEMORY_ANNOTATION}: cannot request both GPU and GPU memory: remove it, or {what}"
    if own.keys and limited:
        yield (
            f"annotation {own.keys[0]} cannot be combined with whole GPUs: remove it, or the limit {names.NVIDIA_GPU} "
            "of the containers"
        )
    yield from (f"annotation {key}: {fault}" for key, fault in (*own.faults, *combined_faults(annotations)))
    yield from _value_faults(annotations, fraction, memory, is_part)
    if is_part:
        yield from _place_faults(pod, annotations)
    if settings.block_visible_devices:
        yield from _device_faults(pod)


def _value_faults(
    annotations: Mapping[str, str], fraction: str | None, memory: str | None, is_part: bool
) -> Iterator[str]:
    devices = annotations.get(names.GPU_DEVICES_ANNOTATION)
    if devices is not None and not is_part:
        yield (
            f"annotation {names.GPU_DEVICES_ANNOTATION} needs a portion or memory of each device: add "
            f"{names.GPU_FRACTION_ANNOTATION} or {names.GPU_MEMORY_ANNOTATION}"
        )
    if memory is not None and not (memory.isdecimal() and whole_of(memory)):
        wanted = "a positive integer (MiB) of at most 9 digits"
        yield f"annotation {names.GPU_MEMORY_ANNOTATION} must be {wanted}, not {shown(memory)}"
    if fraction is not None:
        yield from _fraction_faults(fraction)
    if devices is not None and not (devices.isdecimal() and devices_of(devices)):
        wanted = f"a positive integer up to {DEVICES_MAX}"
        yield f"annotation {names.GPU_DEVICES_ANNOTATION} must be {wanted}, not {shown(devices)}"


def _fraction_faults(text: str) -> Iterator[str]:
    field = f"annotation {names.GPU_FRACTION_ANNOTATION}"
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not math.isnan(value) and not 0 < value < 1:
        yield f"{field} must be a number that is positive and below 1.0, not {shown(text)}"
    # What the scheduler does not read it would ignore, and place the pod as one without GPUs.
    if not is_quantity(text) or not fraction_of(text):
        wanted = f"a plain decimal or scientific number of at most {FRACTION_LENGTH} characters without a sign"
        yield f"{field} must be {wanted}, not {shown(text)}"


def _place_faults(pod: Mapping[str, Any], annotations: Mapping[str, str]) -> Iterator[str]:
    """Where the containers are to read their devices."""
    try:
        sharing_container(pod)
    except UnknownContainer as error:
        yield str(error)
    prefix = annotations.get(names.SHARED_GPU_CONFIG_MAP_ANNOTATION)
    if prefix is not None and not (is_subdomain(prefix) and len(prefix) <= PREFIX_MAX):
        yield (
            f"annotation {names.SHARED_GPU_CONFIG_MAP_ANNOTATION}: no ConfigMap can have a name that begins with "
            f"{shown(prefix)}: remove the annotation, a new prefix is made then"
        )


def _change_faults(pod: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[str]:
    """What an update may not change: the containers of the pod go by what was said when it was created."""
    now, before = annotations_of(pod), annotations_of(old)
    own, owned = read_container_memory(now), read_container_memory(before)
    of_container = sorted({*own.keys, *owned.keys})
    size = (names.GPU_FRACTION_ANNOTATION, names.GPU_MEMORY_ANNOTATION, names.GPU_DEVICES_ANNOTATION, *of_container)
    place = (names.GPU_CONTAINER_ANNOTATION, names.SHARED_GPU_CONFIG_MAP_ANNOTATION)
    has_node = bool((old.get("spec") or {}).get("nodeName"))
    # Right before its bind a pod gets the labels of its devices, of which it gets as much as it asked for then.
    is_booked = has_node or bool(_devices_of(old))
    moves = own.containers != owned.containers  # as the keys name the container
    fixed = (*place, *size) if is_booked or moves or shares(pod) != shares(old) else place
    for key in fixed if shares(pod) or shares(old) else ():
        changed = now.get(key) != before.get(key)
        if changed and (key in before or key in size):
            why = "the pod has its devices" if is_booked else "its containers were made for what it said at first"
            yield f"annotation {key} cannot be changed, as {why}: create another pod"
    if has_node and _devices_of(pod) != _devices_of(old):
        yield (
            f"the labels {names.GPU_GROUP_LABEL} and {names.GPU_GROUPS_PREFIX}<group> cannot be changed, as the pod "
            "has its devices: create another pod"
        )


def _devices_of(pod: Mapping[str, Any]) -> dict[str, str]:
    """The labels that say which devices the pod shares; the scheduler writes them before the bind and never after."""
    labels: Mapping[str, str] = (pod.get("metadata") or {}).get("labels") or {}
    return {key: value for key, value in labels.items() if is_device_label(key)}


def _device_faults(pod: Mapping[str, Any]) -> Iterator[str]:
    """Containers that would see GPUs that were not given to them."""
    try:
        own = sharing_container(pod) if shares(pod) else None
    except UnknownContainer as error:
        yield str(error)
        return
    for field, i, container in containers_of(pod, (*OWN_CONTAINERS, EPHEMERAL)):
        if (field, i) == own:
            continue
        for variable in container.get("env") or ():
            if variable.get("name") != names.VISIBLE_DEVICES_ENV:
                continue
            where = f"container {shown(container.get('name'))}: {names.VISIBLE_DEVICES_ENV}"
            value = variable.get("value") or ""
            if variable.get("valueFrom") is not None:
                yield f"{where} must not come from a reference (valueFrom): set it to void or none, or remove it"
            elif value not in ALLOWED_DEVICES:
                allowed = " and ".join(ALLOWED_DEVICES)
                yield f"{where} is {shown(value)}; only {allowed} are allowed: use one, or remove it"
