"""All that is read, walked by the types that it is decoded into: a field that is new is covered without a word here.

``schema_of`` turns a wire struct or a model into a tree of nodes, ``whole`` into an object that has every field with a
sane value, and ``Site`` is one place in it. What types do not tell (what an undecoded part holds, which labels are
read and what is in them) stands in tables; test_hostile_generator.py finds what is missing in them.
"""

from __future__ import annotations

import copy
import functools
import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import strategies as st
from pydantic import BaseModel

from kai_sched.api import bindrequest, config, core, dra, names, node_topology, podgroup, queue, shard, topology
from kai_sched.api import storage as drivers
from kai_sched.operator.intake import status_observer
from tests.properties.hostile_values import BY_KIND, DEEP, Values, texts, wrong_types

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Leaf:
    """A plain value. ``owner`` is the struct or model and the field that it is of, as "Container.name"."""

    owner: str
    kind: str
    choices: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Part:
    """A mapping with known fields."""

    owner: str
    fields: Mapping[str, Node]


@dataclass(frozen=True)
class Many:
    """A list."""

    owner: str
    item: Node


@dataclass(frozen=True)
class Table:
    """A mapping with keys of people's own. ``keys``: what keys there are, with the kind of the value where known."""

    owner: str
    keys: Mapping[str, str]
    value: Node


Node = Leaf | Part | Many | Table

# What parts hold that stay undecoded at first.
RAW: dict[str, Any] = {
    "PodSpec.node_selector": dict[str, str] | None,
    "PodSpec.affinity": core.Affinity | None,
    "PodSpec.tolerations": list[core.WireToleration] | None,
    "PodSpec.overhead": dict[str, core.Quantity] | None,
    "Container.resources": core.ResourceRequirements | None,
    "PodSpec.resources": core.ResourceRequirements | None,
    "ContainerStatus.allocated_resources": dict[str, core.Quantity] | None,
    "ContainerStatus.resources": core.ResourceRequirements | None,
    "PodStatus.allocated_resources": dict[str, core.Quantity] | None,
    "PodStatus.resources": core.ResourceRequirements | None,
}
# What the reader of a custom resource makes of its spec and status, by kind.
CUSTOM: dict[str, type[BaseModel]] = {
    "Queue": queue.QueueManifest,
    "PodGroup": podgroup.PodGroupManifest,
    "BindRequest": bindrequest.BindRequestManifest,
    "SchedulingShard": shard.SchedulingShardManifest,
    "Config": config.ConfigManifest,
    "Topology": topology.TopologyManifest,
}
# What reads an object of a kind: all its fields together are what is fed.
READERS: dict[str, tuple[Any, ...]] = {
    "Pod": (core.WirePod, status_observer._Pod),
    "Node": (core.WireNode,),
    "PersistentVolumeClaim": (core.PersistentVolumeClaim,),
    "PersistentVolume": (core.PersistentVolume,),
    "StorageClass": (core.WireStorageClass,),
    "CSIDriver": (drivers.WireStorageDriver,),
    "CSIStorageCapacity": (drivers.WireStorageCapacity,),
    "CSINode": (drivers.WireNodeVolumes,),
    "ConfigMap": (core.WireConfigMap,),
    "Namespace": (core.WireNamespace,),
    "PriorityClass": (core.WirePriorityClass,),
    "DeviceClass": (dra.WireDeviceClass,),
    "ResourceSlice": (dra.WireResourceSlice,),
    "ResourceClaim": (dra.WireResourceClaim,),
    "DeviceTaintRule": (dra.WireDeviceTaintRule,),
    "NodeResourceTopology": (node_topology.WireNodeTopology,),
    **{kind: (core.CustomObject, model) for kind, model in CUSTOM.items()},
}
# Labels and annotations that are read, and what they hold; by the constants of api/names.py that end so.
LABELS: dict[str, str] = {
    names.QUEUE_LABEL: "name",
    names.NODE_POOL_LABEL: "name",
    names.SUB_GROUP_LABEL: "name",
    names.PRIORITY_CLASS_LABEL: "name",
    names.PROJECT_LABEL: "name",
    names.TASK_PRIORITY_LABEL: "digits",
    names.BACKGROUND_LABEL: "flag",
    names.GPU_GROUP_LABEL: "name",
    names.GPU_GROUPS_PREFIX: "name",
    names.SHARED_GPU_LABEL: "name",
    names.APP_LABEL: "application",
    names.SCALED_NAME_LABEL: "name",
    names.SCALED_NAMESPACE_LABEL: "name",
    names.MANAGED_BY_LABEL: "name",
    names.JOB_ROLE_LABEL: "name",
    names.RAY_NODE_TYPE_LABEL: "name",
    names.NAMESPACE_NAME_LABEL: "name",
    names.GPU_COUNT_LABEL: "digits",
    names.GPU_MEMORY_LABEL: "digits",
    names.MIG_STRATEGY_LABEL: "name",
    names.MIG_ENABLED_LABEL: "flag",
    names.GPU_WORKER_LABEL: "flag",
    names.CPU_WORKER_LABEL: "flag",
    names.USER_LABEL: "name",
    names.PREEMPTIBILITY_LABEL: "name",
    names.JOB_NAME_LABEL: "name",
    names.REPLICA_TYPE_LABEL: "name",
    names.REPLICA_INDEX_LABEL: "digits",
    names.RAY_CLUSTER_LABEL: "name",
    names.RAY_GROUP_LABEL: "name",
    names.RAY_REPLICA_NAME_LABEL: "name",
    names.RAY_REPLICA_INDEX_LABEL: "digits",
    names.RAY_HOST_INDEX_LABEL: "digits",
    names.RAY_PRIORITY_CLASS_LABEL: "name",
    names.JOBSET_NAME_LABEL: "name",
    names.REPLICATED_JOB_LABEL: "name",
    names.JOB_INDEX_LABEL: "digits",
    names.LWS_NAME_LABEL: "name",
    names.LWS_GROUP_INDEX_LABEL: "digits",
    names.LWS_WORKER_INDEX_LABEL: "digits",
    names.KNATIVE_REVISION_LABEL: "name",
    names.POD_GANG_LABEL: "name",
    names.SPARK_NAME_LABEL: "name",
    names.SPARK_SELECTOR_LABEL: "name",
}
ANNOTATIONS: dict[str, str] = {
    names.SAFE_TO_CONSOLIDATE_ANNOTATION: "flag",
    names.POD_GROUP_ANNOTATION: "name",
    names.GPU_FRACTION_ANNOTATION: "fraction",
    names.GPU_MEMORY_ANNOTATION: "digits",
    names.GPU_DEVICES_ANNOTATION: "digits",
    names.CONTAINER_PREFIX: "quantity",
    names.MIG_PREFIX: "digits",
    names.MPS_ANNOTATION: "flag",
    names.GPU_CONTAINER_ANNOTATION: "name",
    names.SHARED_GPU_CONFIG_MAP_ANNOTATION: "name",
    names.RESERVED_DEVICE_ANNOTATION: "name",
    names.EXTENDED_CLAIM_ANNOTATION: "flag",
    names.RECEIVED_TYPE_ANNOTATION: "name",
    names.CDI_ANNOTATION: "name",
    names.STALE_ANNOTATION: "time",
    names.LAST_START_ANNOTATION: "time",
    names.EVICTED_PODS_ANNOTATION: "digits",
    names.EVICTOR_ACTION_ANNOTATION: "name",
    names.EVICTOR_GROUP_ANNOTATION: "name",
    names.EVICTOR_NAMESPACE_ANNOTATION: "name",
    names.LAST_EVICTION_ANNOTATION: "time",
    names.STORAGE_CLASS_ANNOTATION: "name",
    names.SELECTED_NODE_ANNOTATION: "name",
    names.BOUND_BY_CONTROLLER_ANNOTATION: "flag",
    names.SKIP_GROUPER_ANNOTATION: "flag",
    names.TOP_OWNER_ANNOTATION: "name",
    names.PREEMPTION_DELAY_ANNOTATION: "duration",
    names.STALENESS_GRACE_ANNOTATION: "duration",
    names.BATCH_MIN_MEMBER_ANNOTATION: "digits",
    names.TOPOLOGY_ANNOTATION: "name",
    names.TOPOLOGY_REQUIRED_ANNOTATION: "name",
    names.TOPOLOGY_PREFERRED_ANNOTATION: "name",
    names.NUMA_OBSERVED_ANNOTATION: "name",
    names.NUMA_PREDICTED_ANNOTATION: "name",
    names.SEGMENT_SIZE_ANNOTATION: "digits",
    names.SEGMENT_REQUIRED_ANNOTATION: "name",
    names.SEGMENT_PREFERRED_ANNOTATION: "name",
    names.GROVE_TOPOLOGY_ANNOTATION: "name",
    names.LWS_SIZE_ANNOTATION: "digits",
    names.KNATIVE_MIN_SCALE_ANNOTATION: "digits",
}
# Prefixes of keys; the rest of the key is anything.
PREFIXES = {
    names.GPU_GROUPS_PREFIX: "0",
    names.MIG_PREFIX: "1g.5gb",
    names.CONTAINER_PREFIX: "a.gpu-memory.request",
}
RESOURCES = ["cpu", "memory", "pods", "storage", "ephemeral-storage", "nvidia.com/gpu", "amd.com/gpu"]
RESOURCES += ["nvidia.com/mig-1g.5gb", "hugepages-2Mi", "example.com/gpu", "example.com/odd", "attachable-volumes-x"]
_RESOURCE_FIELDS = re.compile(r"requests|limits|overhead|allocat|capacity|amount|resources$|fair_share|requested", re.I)
# Sane values where "a" and the like would make the whole object unusable, by owner.
SANE: dict[str, Any] = {
    "Requirement.operator": "In",
    "Requirement.key": "kubernetes.io/hostname",
    "SelectorTerm.match_fields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}],
    "PodTerm.namespaces": ["evil"],
    "PodTerm.mismatch_label_keys": ["b"],
    "Toleration.operator": "Exists",
    "Zone.type": "Node",
    "Taint.effect": "NoSchedule",
    "WeightedPodTerm.weight": 1,
    "PodTerm.topology_key": "kubernetes.io/hostname",
    "Port.container_port": 8080,
    "Port.host_port": 8080,
    "OwnerReference.api_version": "batch/v1",
    "OwnerReference.kind": "Job",
    "PodStatus.phase": "Pending",
    "WireDeviceTaint.effect": "NoSchedule",
    "WireRequest.allocation_mode": "ExactCount",
    "Consumer.resource": "pods",
    "CelSelector.expression": "device.driver == 'a'",
}
_SANE_BY_KIND: dict[str, Any] = {
    "integer": 1,
    "number": 1.0,
    "text": "a",
    "name": "a",
    "digits": "1",
    "duration": "1s",
    "time": "2026-01-01T00:00:00Z",
    "quantity": "1",
    "fraction": "0.5",
    "flag": "true",
    "boolean": False,
    "anything": "a",
    "application": "a",
}
_DURATION = re.compile(r"runtime|delay|period|duration|interval|timeout|staleness", re.I)
_TIME = re.compile(r"timestamp$|_time$|Time$")


def kind_of_text(field: str) -> str:
    """What a text field holds, as its name tells it."""
    if _TIME.search(field):
        return "time"
    if _DURATION.search(field):
        return "duration"
    return "name" if field.endswith(("name", "Name", "key", "namespace", "uid", "queue")) else "text"


def schema_of(kind: str) -> Part:
    """All fields that anybody reads of an object of the kind."""
    found: Node = Part(kind, {})
    for reader in READERS[kind]:
        found = _merged(found, _schema(reader, kind))
    assert isinstance(found, Part)
    return found


def _merged(one: Node, other: Node) -> Node:
    if isinstance(one, Part) and isinstance(other, Part):
        shared = {name: _merged(one.fields[name], node) for name, node in other.fields.items() if name in one.fields}
        return Part(one.owner, {**other.fields, **one.fields, **shared})
    return other if isinstance(one, Leaf) and one.kind == "raw" else one


@functools.cache
def _schema(wanted: Any, owner: str) -> Node:
    wanted = _bare(wanted)
    field = owner.rpartition(".")[2].removesuffix("[]")
    plain = {str: kind_of_text(field), int: "integer", float: "number", bool: "boolean", Any: "anything"}
    if wanted is msgspec.Raw:
        return _schema(RAW[owner], owner) if owner in RAW else Leaf(owner, "raw")
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        parts = msgspec.structs.fields(wanted)
        return Part(owner, {each.encode_name: _schema(each.type, f"{wanted.__name__}.{each.name}") for each in parts})
    if isinstance(wanted, type) and issubclass(wanted, BaseModel):
        return Part(
            owner,
            {
                each.alias or name: _schema(each.annotation, f"{wanted.__name__}.{name}")
                for name, each in wanted.model_fields.items()
            },
        )
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is list:
        return Many(owner, _schema(arguments[0], f"{owner}[]"))
    if origin is dict:
        return Table(owner, _keys(owner), _schema(arguments[1], owner))
    if origin is typing.Literal:
        return Leaf(owner, "text", arguments)
    if origin in (typing.Union, types.UnionType):
        return Leaf(owner, "quantity")
    return Leaf(owner, plain.get(wanted, "anything"))


def _bare(wanted: Any) -> Any:
    """Without what is said beside the type, and without that it may be absent or null."""
    while typing.get_origin(wanted) is typing.Annotated:
        wanted = typing.get_args(wanted)[0]
    if typing.get_origin(wanted) in (typing.Union, types.UnionType):
        left = [each for each in typing.get_args(wanted) if each not in (type(None), msgspec.UnsetType)]
        if len(left) == 1:
            return _bare(left[0])
    return wanted


def _keys(owner: str) -> Mapping[str, str]:
    field = owner.rpartition(".")[2]
    if field == "labels":
        return {f"{key}{PREFIXES.get(key, '')}": kind for key, kind in LABELS.items()}
    if field == "annotations":
        return {f"{key}{PREFIXES.get(key, '')}": kind for key, kind in ANNOTATIONS.items()}
    if _RESOURCE_FIELDS.search(field) and owner != "WireDevice.capacity":
        return dict.fromkeys(RESOURCES, "quantity")
    return {"a": ""}


def whole(node: Node) -> Any:
    """A value with every field there and sane; of the keys of people's own, none but ``a``."""
    if node.owner in SANE:
        return copy.deepcopy(SANE[node.owner])
    if isinstance(node, Part):
        return {name: whole(each) for name, each in node.fields.items()}
    if isinstance(node, Many):
        return [whole(node.item)]
    if isinstance(node, Table):
        return {"a": whole(node.value)} if "a" in node.keys else {}
    return node.choices[0] if node.choices else _SANE_BY_KIND.get(node.kind, {})


@dataclass(frozen=True)
class Site:
    """A place in an object, and what is there."""

    path: Path
    node: Node

    def __repr__(self) -> str:
        return ".".join(map(str, self.path)) or "the object"


def sites(node: Node, path: Path = ()) -> Iterator[Site]:
    """All places below and at ``path``, those of labels and annotations that are read among them."""
    yield Site(path, node)
    if isinstance(node, Part):
        for name, each in node.fields.items():
            yield from sites(each, (*path, name))
    elif isinstance(node, Many):
        yield from sites(node.item, (*path, 0))
    elif isinstance(node, Table):
        for key, kind in node.keys.items():
            yield from sites(Leaf(f"{node.owner}[{key}]", kind) if kind else node.value, (*path, key))


def hostile(node: Node) -> Values:
    """Extremes of what should be there, more often than what should not."""
    if isinstance(node, Leaf):
        kinds = BY_KIND | {"application": st.sampled_from(["kai-resource-reservation", "a", ""]), "raw": wrong_types}
        own = kinds[node.kind]
        chosen = st.sampled_from(node.choices) | own if node.choices else own
        return chosen | own | wrong_types
    if isinstance(node, Many):
        item = whole(node.item)
        lists = [[], [None], [[]], [item, None], [item] * 2, [item] * 50, [DEEP], [item, {"unknown": 1}]]
        return st.sampled_from(lists) | st.lists(hostile(node.item), max_size=3) | wrong_types
    if isinstance(node, Table):
        keys = st.sampled_from(sorted(node.keys)) | texts
        return st.dictionaries(keys, hostile(node.value), max_size=3) | wrong_types
    sane = whole(node)
    return st.sampled_from([{}, {**sane, "unknown": [{}]}, dict.fromkeys(sane), {"": sane}]) | wrong_types


def put(content: Any, sane: Any, path: Path, value: Any) -> Any:
    """``content`` with the value at ``path``; what is missing on the way there is taken from ``sane``.

    What stands on the way and is no mapping or list stays as it is: another value was put there before.
    """
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        if content == [] or not isinstance(content, list):
            return content
        return [put(content[0], sane[0] if sane else None, rest, value), *content[1:]]
    if not isinstance(content, dict):
        return content
    below = sane.get(step) if isinstance(sane, dict) else None
    before = content.get(step)
    if before is None:
        before = below
    return {**content, step: put(before, below, rest, value)}
