"""Which kinds are read, and by which reader: the JSON of an object becomes a frozen object of ``model.objects``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kai_sched.api import core, dra, names, node_topology, storage
from kai_sched.model.claims.objects import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from kai_sched.model.config import Config
from kai_sched.model.field_errors import Warn, decode_part
from kai_sched.model.numa import NodeZones
from kai_sched.model.objects import (
    BindRequest,
    ConfigMap,
    Namespace,
    Node,
    Object,
    Pod,
    PodGroup,
    PriorityClass,
    Queue,
    StorageClass,
    Topology,
    Volume,
    VolumeClaim,
)
from kai_sched.model.read.claims import ClaimReader, read_device_class, read_device_taint_rule, read_resource_slice
from kai_sched.model.read.custom import (
    read_bind_request,
    read_pod_group,
    read_queue,
    read_topology,
    warn_top_fields,
)
from kai_sched.model.read.meta import identity
from kai_sched.model.read.objects import (
    read_config_map,
    read_namespace,
    read_node,
    read_priority_class,
    read_storage_class,
    read_volume,
    read_volume_claim,
)
from kai_sched.model.read.pod import PodReader
from kai_sched.model.read.storage import read_node_volumes, read_storage_capacity, read_storage_driver
from kai_sched.model.storage import NodeVolumes, StorageCapacity, StorageDriver

# (apiVersion, kind), as every object carries them.
Kind = tuple[str, str]

POD: Kind = ("v1", "Pod")
NODE: Kind = ("v1", "Node")
QUEUE: Kind = (names.QUEUE_VERSION, "Queue")
POD_GROUP: Kind = (names.POD_GROUP_VERSION, "PodGroup")
BIND_REQUEST: Kind = (names.BIND_REQUEST_VERSION, "BindRequest")
VOLUME: Kind = ("v1", "PersistentVolume")
VOLUME_CLAIM: Kind = ("v1", "PersistentVolumeClaim")
STORAGE_CLASS: Kind = (names.STORAGE_VERSION, "StorageClass")
STORAGE_DRIVER: Kind = (names.STORAGE_VERSION, "CSIDriver")
STORAGE_CAPACITY: Kind = (names.STORAGE_VERSION, "CSIStorageCapacity")
NODE_VOLUMES: Kind = (names.STORAGE_VERSION, "CSINode")
DEVICE_CLASS: Kind = (names.DRA_VERSION, "DeviceClass")
RESOURCE_SLICE: Kind = (names.DRA_VERSION, "ResourceSlice")
RESOURCE_CLAIM: Kind = (names.DRA_VERSION, "ResourceClaim")
DEVICE_TAINT_RULE: Kind = (names.DRA_TAINT_VERSION, "DeviceTaintRule")
TOPOLOGY: Kind = (names.TOPOLOGY_VERSION, "Topology")
NODE_TOPOLOGY: Kind = (names.NODE_TOPOLOGY_VERSION, "NodeResourceTopology")
KUBERNETES_GROUP: Kind = names.KUBERNETES_GROUP
KUBERNETES_WORKLOAD: Kind = names.KUBERNETES_WORKLOAD
SHARD: Kind = (names.CONFIG_VERSION, "SchedulingShard")
OPERATOR_CONFIG: Kind = (names.CONFIG_VERSION, "Config")

_PLAIN: Mapping[Kind, tuple[msgspec.json.Decoder[Any], Callable[[Any], Object]]] = {
    VOLUME_CLAIM: (msgspec.json.Decoder(core.PersistentVolumeClaim), read_volume_claim),
    VOLUME: (msgspec.json.Decoder(core.PersistentVolume), read_volume),
    ("v1", "ConfigMap"): (msgspec.json.Decoder(core.WireConfigMap), read_config_map),
    ("v1", "Namespace"): (msgspec.json.Decoder(core.WireNamespace), read_namespace),
    STORAGE_CLASS: (msgspec.json.Decoder(core.WireStorageClass), read_storage_class),
    STORAGE_DRIVER: (msgspec.json.Decoder(storage.WireStorageDriver), read_storage_driver),
    STORAGE_CAPACITY: (msgspec.json.Decoder(storage.WireStorageCapacity), read_storage_capacity),
    NODE_VOLUMES: (msgspec.json.Decoder(storage.WireNodeVolumes), read_node_volumes),
    ("scheduling.k8s.io/v1", "PriorityClass"): (msgspec.json.Decoder(core.WirePriorityClass), read_priority_class),
}
_CUSTOM: Mapping[Kind, Callable[[core.CustomObject, Warn], Object]] = {
    QUEUE: read_queue,
    POD_GROUP: read_pod_group,
    BIND_REQUEST: read_bind_request,
    TOPOLOGY: read_topology,
}
# The kinds whose objects live in namespaces.
NAMESPACED = frozenset(
    {"Pod", "PodGroup", "BindRequest", "PersistentVolumeClaim", "ConfigMap", "ResourceClaim", "CSIStorageCapacity"}
)
# What the store keeps of each kind.
CLASSES: Mapping[Kind, type[Object]] = {
    POD: Pod,
    NODE: Node,
    VOLUME_CLAIM: VolumeClaim,
    VOLUME: Volume,
    ("v1", "ConfigMap"): ConfigMap,
    ("v1", "Namespace"): Namespace,
    STORAGE_CLASS: StorageClass,
    STORAGE_DRIVER: StorageDriver,
    STORAGE_CAPACITY: StorageCapacity,
    NODE_VOLUMES: NodeVolumes,
    TOPOLOGY: Topology,
    NODE_TOPOLOGY: NodeZones,
    ("scheduling.k8s.io/v1", "PriorityClass"): PriorityClass,
    QUEUE: Queue,
    POD_GROUP: PodGroup,
    BIND_REQUEST: BindRequest,
    DEVICE_CLASS: DeviceClass,
    RESOURCE_SLICE: ResourceSlice,
    RESOURCE_CLAIM: ResourceClaim,
    DEVICE_TAINT_RULE: DeviceTaintRule,
}
KINDS = frozenset(CLASSES)
# What rules of grouping read and the store does not keep.
GROUPING = frozenset({KUBERNETES_GROUP, KUBERNETES_WORKLOAD})
VERSIONS: Mapping[str, str] = {kind: version for version, kind in sorted(KINDS | {SHARD, OPERATOR_CONFIG})}

_pod = msgspec.json.Decoder(core.WirePod)
_node = msgspec.json.Decoder(core.WireNode)
_class = msgspec.json.Decoder(dra.WireDeviceClass)
_slice = msgspec.json.Decoder(dra.WireResourceSlice)
_taint_rule = msgspec.json.Decoder(dra.WireDeviceTaintRule)
_claim = msgspec.json.Decoder(dra.WireResourceClaim)
_custom = msgspec.json.Decoder(core.CustomObject)
_topology = msgspec.json.Decoder(node_topology.WireNodeTopology)


class Reader:
    """Reads the objects of one cluster. Use one reader for all of them: parts that they share are parsed once."""

    def __init__(self, config: Config) -> None:
        self._pods = PodReader(config)
        self._claims = ClaimReader(config.queue_label)

    def read_pod(self, wire: core.WirePod, warn: Warn) -> Pod:
        """As ``read``, for a pod that is already decoded."""
        return self._pods.read(wire, warn)

    def read(self, kind: Kind, raw: bytes, warn: Warn) -> Object:
        """The object; ``kind`` must be one of KINDS.

        Raises FieldError if the object is unusable. Fields that are ignored go to ``warn``.
        """
        if kind == POD:
            return self._pods.read(decode_part(_pod, raw, ""), warn)
        if kind == NODE:
            return read_node(decode_part(_node, raw, ""), warn)
        if kind == NODE_TOPOLOGY:
            return self._pods.numa.node_zones(decode_part(_topology, raw, ""), warn)
        if kind == RESOURCE_CLAIM:
            return self._claims.read(decode_part(_claim, raw, ""))
        if kind == DEVICE_CLASS:
            return read_device_class(decode_part(_class, raw, ""))
        if kind == RESOURCE_SLICE:
            return read_resource_slice(decode_part(_slice, raw, ""), warn)
        if kind == DEVICE_TAINT_RULE:
            return read_device_taint_rule(decode_part(_taint_rule, raw, ""))
        if kind in _CUSTOM:
            wire = decode_part(_custom, raw, "")
            warn_top_fields(raw, warn)
            return _CUSTOM[kind](wire, warn)
        decoder, read = _PLAIN[kind]
        return read(decode_part(decoder, raw, ""))


def read_version(version: str, kind: str) -> str:
    """The apiVersion that is read of a kind, given another one; "" for a kind that is not read."""
    of_group = {each: name for name, each in GROUPING if name.partition("/")[0] == version.partition("/")[0]}
    return of_group.get(kind) or VERSIONS.get(kind, "")


def split_custom(raw: bytes, warn: Warn) -> tuple[str, bytes]:
    """Name and undecoded spec of one of our custom resources. Raises FieldError."""
    wire = decode_part(_custom, raw, "")
    warn_top_fields(raw, warn)
    return identity(wire.metadata or core.Meta()), bytes(wire.spec)
