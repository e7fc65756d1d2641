"""Changes pods at admission: environment, volumes and runtime class for a part of a GPU; whether other containers see
devices (API 8.1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kai_sched.api import names
from kai_sched.api.legal import is_subdomain
from kai_sched.model.read.sharing import is_device_label
from kai_sched.reconcile.admission.sharing import (
    EPHEMERAL,
    OWN_CONTAINERS,
    UnknownContainer,
    asks_for_gpus,
    containers_of,
    shares,
    sharing_container,
)
from kai_sched.reconcile.admission.types import AdmissionRequest, AdmissionSettings, Answer

# Prefixes are cut so that names with the longest ending still are labels.
BASE_MAX = 34
HIDDEN = "void"
_NAME_UNFIT = re.compile(r"[^a-z0-9]+")
_VOLUME_UNFIT = re.compile(r"[^a-z0-9-]+")


def mutate_pod(request: AdmissionRequest, settings: AdmissionSettings, suffix: str) -> Answer:
    """The patch that a pod of ours needs. A second review of the patched pod asks for nothing more.

    The only updates that are asked about are those that add ephemeral containers.
    """
    pod = request.object
    if (pod.get("spec") or {}).get("schedulerName") != settings.scheduler_name:
        return Answer()
    if request.operation == "UPDATE":
        return Answer(patch=_hide_from_new(pod, request.old) if settings.block_visible_devices else ())
    namespace = (pod.get("metadata") or {}).get("namespace") or request.namespace
    if namespace != request.namespace:
        text = f"metadata.namespace is {namespace!r}, but the request is for {request.namespace!r}: make them equal"
        return Answer(denied=f"{request.label}: {text}")
    try:
        own = sharing_container(pod) if shares(pod) else None
    except UnknownContainer as error:
        return Answer(denied=f"{request.label}: {error}")
    after = _changeable(pod)
    _drop_devices(after)
    if own is not None:
        _share(after, *own, settings, suffix)
    if settings.block_visible_devices:
        _hide_devices(after, own)
    # If sharing is off the pod is refused by validation, not here for a runtime class that is not installed.
    wanted = settings.runtime_class if shares(pod) and settings.gpu_sharing else ""
    if wanted and not after["spec"].get("runtimeClassName"):
        after["spec"]["runtimeClassName"] = wanted
    return Answer(patch=_patch(dict(pod), after))


def _changeable(pod: Mapping[str, Any]) -> dict[str, Any]:
    """A copy as deep as the reviews change things; pods may be large."""
    after = dict(pod)
    if after.get("metadata") is not None:
        after["metadata"] = dict(after["metadata"])
        if after["metadata"].get("annotations") is not None:
            after["metadata"]["annotations"] = dict(after["metadata"]["annotations"])
    after["spec"] = dict(after["spec"])
    for field in OWN_CONTAINERS:
        if after["spec"].get(field) is not None:
            after["spec"][field] = [dict(container) for container in after["spec"][field]]
    return after


def _patch(before: dict[str, Any], after: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """What the reviews change, part by part: adding a member that is there replaces it."""
    parts = [("metadata", "annotations"), ("metadata", "labels")]
    parts += [("spec", field) for field in (*OWN_CONTAINERS, "volumes", "runtimeClassName")]
    return tuple(
        {"op": "add", "path": f"/{top}/{field}", "value": after[top][field]}
        for top, field in parts
        if (after.get(top) or {}).get(field) != (before.get(top) or {}).get(field)
    )


def _share(pod: dict[str, Any], field: str, index: int, settings: AdmissionSettings, suffix: str) -> None:
    """Let the container read what binding will write into two ConfigMaps."""
    annotations = pod["metadata"]["annotations"]
    prefix = annotations.setdefault(names.SHARED_GPU_CONFIG_MAP_ANNOTATION, _prefix(pod, index, suffix))
    config_map = f"{prefix}-{'i' if field == 'initContainers' else ''}{index}"
    container = pod["spec"][field][index]
    required = (names.VISIBLE_DEVICES_ENV, names.NUMBER_OF_GPUS_ENV, names.GPU_PORTION_ENV)
    variables: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in required]
    if settings.hami_core:
        variables.append((names.DEVICE_MEMORY_LIMIT_ENV, {"optional": True}))
    new = {name for name, _ in variables}
    container["env"] = [variable for variable in container.get("env") or () if variable.get("name") not in new] + [
        {"name": name, "valueFrom": {"configMapKeyRef": {"name": config_map, "key": name, **more}}}
        for name, more in variables
    ]
    source = {"configMapRef": {"name": f"{config_map}-evar", "optional": False}}
    sources = container.get("envFrom") or []
    if all((each.get("configMapRef") or {}).get("name") != f"{config_map}-evar" for each in sources):
        container["envFrom"] = [*sources, source]
    volume = _VOLUME_UNFIT.sub("-", f"{config_map}-vol".lower()).strip("-")
    volumes = pod["spec"].get("volumes") or []
    if all(each.get("name") != volume for each in volumes):
        pod["spec"]["volumes"] = [*volumes, {"name": volume, "configMap": {"name": config_map}}]


def _drop_devices(pod: dict[str, Any]) -> None:
    """Take off the labels that say which devices a pod shares: a copy of a pod that runs has none yet."""
    labels = (pod.get("metadata") or {}).get("labels") or {}
    kept = {key: value for key, value in labels.items() if not is_device_label(key)}
    if len(kept) < len(labels):
        pod["metadata"]["labels"] = kept


def _prefix(pod: dict[str, Any], index: int, suffix: str) -> str:
    meta = pod["metadata"]
    owners = meta.get("ownerReferences") or ()
    base = (owners[0].get("name") if owners else "") or meta.get("name") or meta.get("generateName") or "pod"
    if not is_subdomain(base.rstrip(".-")):
        base = _NAME_UNFIT.sub("-", base.lower()).strip("-") or "pod"  # an owner may have any name
    return f"{base[: BASE_MAX - len(str(index))].rstrip('.-')}-{suffix}-shared-gpu"


def _hide_devices(pod: dict[str, Any], own: tuple[str, int] | None) -> None:
    """Containers that were given no GPU see none. A reference stays, for validation to refuse by name."""
    for field, i, _ in containers_of(pod):
        container = pod["spec"][field][i]
        if (field, i) != own and not asks_for_gpus(container):
            container["env"] = _hiding(container)


def _hide_from_new(pod: Mapping[str, Any], old: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Ephemeral containers that an update adds see no device; those that are there cannot be changed any more."""
    known = {container.get("name") for _, _, container in containers_of(old, (EPHEMERAL,))}
    before = [container for _, _, container in containers_of(pod, (EPHEMERAL,))]
    after = [
        container if container.get("name") in known else {**container, "env": _hiding(container)}
        for container in before
    ]
    return ({"op": "add", "path": f"/spec/{EPHEMERAL}", "value": after},) if after != before else ()


def _hiding(container: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The environment of a container that sees no device."""
    env = container.get("env") or ()
    if any(variable.get("name") == names.VISIBLE_DEVICES_ENV for variable in env):
        return [_hidden(variable) for variable in env]
    return [*env, {"name": names.VISIBLE_DEVICES_ENV, "value": HIDDEN}]


def _hidden(variable: dict[str, Any]) -> dict[str, Any]:
    hides = variable.get("name") == names.VISIBLE_DEVICES_ENV and variable.get("valueFrom") is None
    return {**variable, "value": HIDDEN} if hides else variable
