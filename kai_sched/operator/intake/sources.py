"""Which kinds the operator lists and watches, of which it reads the metadata only, and which may be missing."""

from __future__ import annotations

from kai_sched.api import names
from kai_sched.cluster.paths import objects_path
from kai_sched.cluster.reflector import WatchSource
from kai_sched.model.read.kinds import (
    BIND_REQUEST,
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    KUBERNETES_GROUP,
    NODE_TOPOLOGY,
    NODE_VOLUMES,
    OPERATOR_CONFIG,
    POD,
    POD_GROUP,
    QUEUE,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    SHARD,
    STORAGE_CAPACITY,
    STORAGE_CLASS,
    STORAGE_DRIVER,
    TOPOLOGY,
    VOLUME,
    VOLUME_CLAIM,
)

INSTALL = "install the custom resource definitions: kubectl apply -k manifests"
# ConfigMaps that are written for pods that share GPUs: no pod waits for them, and there are two for each.
NOT_OURS = (("labelSelector", f"!{names.SHARED_GPU_LABEL}"),)
SOURCES = (
    WatchSource(OPERATOR_CONFIG, objects_path(OPERATOR_CONFIG[0], "configs"), optional=True),
    WatchSource(SHARD, objects_path(SHARD[0], "schedulingshards"), optional=True),
    WatchSource(TOPOLOGY, objects_path(TOPOLOGY[0], "topologies"), optional=True),
    WatchSource(QUEUE, objects_path(QUEUE[0], "queues"), remedy=INSTALL),
    WatchSource(POD_GROUP, objects_path(POD_GROUP[0], "podgroups"), remedy=INSTALL),
    WatchSource(KUBERNETES_GROUP, objects_path(KUBERNETES_GROUP[0], "podgroups"), optional=True),
    WatchSource(("v1", "Node"), objects_path("v1", "nodes")),
    WatchSource(NODE_TOPOLOGY, objects_path(NODE_TOPOLOGY[0], "noderesourcetopologies"), optional=True),
    WatchSource(("v1", "Namespace"), objects_path("v1", "namespaces")),
    WatchSource(("scheduling.k8s.io/v1", "PriorityClass"), objects_path("scheduling.k8s.io/v1", "priorityclasses")),
    WatchSource(STORAGE_CLASS, objects_path(STORAGE_CLASS[0], "storageclasses")),
    WatchSource(STORAGE_DRIVER, objects_path(STORAGE_DRIVER[0], "csidrivers")),
    WatchSource(STORAGE_CAPACITY, objects_path(STORAGE_CAPACITY[0], "csistoragecapacities")),
    WatchSource(NODE_VOLUMES, objects_path(NODE_VOLUMES[0], "csinodes")),
    WatchSource(VOLUME, objects_path("v1", "persistentvolumes")),
    WatchSource(VOLUME_CLAIM, objects_path("v1", "persistentvolumeclaims")),
    WatchSource(("v1", "ConfigMap"), objects_path("v1", "configmaps"), NOT_OURS, metadata_only=True),
    WatchSource(DEVICE_CLASS, objects_path(DEVICE_CLASS[0], "deviceclasses"), optional=True),
    WatchSource(RESOURCE_SLICE, objects_path(RESOURCE_SLICE[0], "resourceslices"), optional=True),
    WatchSource(RESOURCE_CLAIM, objects_path(RESOURCE_CLAIM[0], "resourceclaims"), optional=True),
    WatchSource(DEVICE_TAINT_RULE, objects_path(DEVICE_TAINT_RULE[0], "devicetaintrules"), optional=True),
    WatchSource(BIND_REQUEST, objects_path(BIND_REQUEST[0], "bindrequests"), optional=True),
    WatchSource(POD, objects_path("v1", "pods")),
)
