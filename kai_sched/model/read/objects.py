"""Reads nodes, claims, volumes, storage classes, ConfigMaps, namespaces and priority classes: Kubernetes' own objects
but pods.
"""

from __future__ import annotations

from collections.abc import Mapping

from kai_sched.api import core, names
from kai_sched.api.custom import INT32_MAX
from kai_sched.model.constraints import NodeSelector, Requirement, Taint
from kai_sched.model.field_errors import FieldError, Warn, shown
from kai_sched.model.keys import object_key
from kai_sched.model.objects import (
    NO_LABELS,
    ConfigMap,
    Namespace,
    Node,
    PriorityClass,
    StorageClass,
    Volume,
    VolumeClaim,
)
from kai_sched.model.read.constraints import read_label_selector, read_node_selector
from kai_sched.model.read.meta import identity, namespace_of
from kai_sched.model.read.requests import read_amounts
from kai_sched.model.resources import GPU, QuantityError, amount, gpu_memory_mib

# The conditions that count, in the order in which they are reported, and the status of each on a healthy node
# (semantics 0.3).
_CONDITIONS = {
    "Ready": "True",
    "MemoryPressure": "False",
    "DiskPressure": "False",
    "PIDPressure": "False",
    "NetworkUnavailable": "False",
}
NODE_GPUS_MAX = 4096
_STORAGE = "storage"
_FILESYSTEM = "Filesystem"
_TAINT_EFFECTS = frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"})


def read_node(wire: core.WireNode, warn: Warn) -> Node:
    """Raises FieldError, for malformed quantities too: a node that is half known would be filled wrongly.

    More GPUs than a node can have do not count.
    """
    meta, spec, status = wire.metadata or core.Meta(), wire.spec or core.NodeSpec(), wire.status or core.NodeStatus()
    name = identity(meta)
    # As the API server does, a node that does not say what it offers offers all that it has.
    part = "allocatable" if status.allocatable is not None else "capacity"
    quantities = status.capacity if status.allocatable is None else status.allocatable
    amounts, findings = read_amounts(quantities, f"status.{part}")
    for field, message in findings:
        raise FieldError(field, message)
    if amounts.get(GPU, 0.0) > NODE_GPUS_MAX:
        # Each of them may get a row in the tables of a cycle.
        message = f"{amounts.pop(GPU):.0f} GPUs, which do not count: a node can have {NODE_GPUS_MAX} at most"
        warn(f"status.{part}[{names.NVIDIA_GPU}]", message)
    memory = (meta.labels or NO_LABELS).get(names.GPU_MEMORY_LABEL)
    if memory is not None and not gpu_memory_mib(memory):
        message = (
            f"{shown(memory)} is no whole number of MiB above 0, so no pod with the annotation "
            f"{names.GPU_MEMORY_ANNOTATION} runs here: correct the label"
        )
        warn(f"metadata.labels[{names.GPU_MEMORY_LABEL}]", message)
    reported = {condition.type: condition.status for condition in status.conditions or ()}
    bad = tuple(
        "NotReady" if condition == "Ready" else condition
        for condition, good in _CONDITIONS.items()
        if condition in reported and reported[condition] != good
    )
    return Node(
        name,
        uid=meta.uid or "",
        labels=meta.labels or NO_LABELS,
        allocatable=dict(sorted(amounts.items())),
        taints=_taints(spec),
        unschedulable=bool(spec.unschedulable),
        bad_conditions=bad,
    )


def _taints(spec: core.NodeSpec) -> tuple[Taint, ...]:
    found = set()
    for i, taint in enumerate(spec.taints or ()):
        if taint.effect not in _TAINT_EFFECTS:
            message = f"{shown(taint.effect)} is not an effect: use NoSchedule, PreferNoSchedule or NoExecute"
            raise FieldError(f"spec.taints[{i}].effect", message)
        found.add(Taint(taint.key, taint.value or "", taint.effect))
    return tuple(sorted(found, key=lambda each: (each.key, each.value, each.effect)))


def read_volume_claim(wire: core.PersistentVolumeClaim) -> VolumeClaim:
    """Raises FieldError."""
    meta, spec = wire.metadata or core.Meta(), wire.spec or core.ClaimSpec()
    asked = spec.resources.requests if spec.resources else None
    annotations = meta.annotations or NO_LABELS
    older_class = annotations.get(names.STORAGE_CLASS_ANNOTATION, "")
    return VolumeClaim(
        namespace_of(meta),
        identity(meta),
        phase=(wire.status.phase if wire.status else None) or "",
        volume=spec.volume_name or "",
        storage_class=spec.storage_class_name or older_class,
        deleted=bool(meta.deletion_timestamp),
        access_modes=tuple(sorted(set(spec.access_modes or ()))),
        size_bytes=_size_bytes(asked, "spec.resources.requests"),
        uid=meta.uid or "",
        selected_node=annotations.get(names.SELECTED_NODE_ANNOTATION, ""),
        selector=read_label_selector(spec.selector, "spec.selector") if spec.selector else (),
        volume_mode=spec.volume_mode or _FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        pod_uid=next((owner.uid or "" for owner in meta.owner_references or () if owner.kind == "Pod"), ""),
    )


def read_volume(wire: core.PersistentVolume) -> Volume:
    """Raises FieldError."""
    meta, spec = wire.metadata or core.Meta(), wire.spec or core.VolumeSpec()
    required = spec.node_affinity.required if spec.node_affinity else None
    claim = spec.claim_ref
    return Volume(
        identity(meta),
        node_affinity=read_node_selector(required, "spec.nodeAffinity.required") if required else None,
        storage_class=spec.storage_class_name or "",
        claim=object_key(claim.namespace or "", claim.name or "") if claim else "",
        phase=(wire.status.phase if wire.status else None) or "",
        access_modes=tuple(sorted(set(spec.access_modes or ()))),
        size_bytes=_size_bytes(spec.capacity, "spec.capacity"),
        uid=meta.uid or "",
        claim_uid=(claim.uid if claim else None) or "",
        labels=meta.labels or NO_LABELS,
        volume_mode=spec.volume_mode or _FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        deleted=bool(meta.deletion_timestamp),
        driver=(spec.csi.driver if spec.csi else None) or "",
        handle=(spec.csi.volume_handle if spec.csi else None) or "",
    )


def _size_bytes(quantities: Mapping[str, core.Quantity] | None, field: str) -> float:
    quantity = (quantities or {}).get(_STORAGE)
    if quantity is None:
        return 0.0
    try:
        return amount(_STORAGE, quantity)
    except QuantityError as error:
        raise FieldError(f"{field}.{_STORAGE}", str(error)) from None


def read_storage_class(wire: core.WireStorageClass) -> StorageClass:
    """Allowed topologies become a node selector. Raises FieldError."""
    topologies: NodeSelector | None = None
    if wire.allowed_topologies:
        terms = [
            tuple(
                Requirement(each.key, "In", tuple(sorted(each.values or ())))
                for each in term.match_label_expressions or ()
            )
            for term in wire.allowed_topologies
        ]
        topologies = tuple(term for term in terms if term)
    return StorageClass(
        identity(wire.metadata or core.Meta()),
        wait_for_first_consumer=wire.volume_binding_mode == "WaitForFirstConsumer",
        provisioner=wire.provisioner or "",
        allowed_topologies=topologies,
    )


def read_config_map(wire: core.WireConfigMap) -> ConfigMap:
    """Raises FieldError where it has no name."""
    meta = wire.metadata or core.Meta()
    return ConfigMap(namespace_of(meta), identity(meta))


def read_namespace(wire: core.WireNamespace) -> Namespace:
    """The labels count for inter-pod terms. Raises FieldError where it has no name."""
    meta = wire.metadata or core.Meta()
    name = identity(meta)
    # The API server keeps this label on every namespace; files may lack it.
    return Namespace(name, {**(meta.labels or NO_LABELS), names.NAMESPACE_NAME_LABEL: name})


def read_priority_class(wire: core.WirePriorityClass) -> PriorityClass:
    """Raises FieldError where it has no name or no value."""
    name = identity(wire.metadata or core.Meta())
    if wire.value is None:
        raise FieldError("value", "missing: give the class its priority, a whole number")
    if not -INT32_MAX - 1 <= wire.value <= INT32_MAX:
        message = f"{shown(wire.value)} does not fit into 32 bits: give a number from {-INT32_MAX - 1} to {INT32_MAX}"
        raise FieldError("value", message)
    return PriorityClass(name, wire.value, bool(wire.global_default))
