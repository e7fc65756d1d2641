"""What is listed and watched of the cluster."""

from __future__ import annotations

from kai_sched.cluster.reflector import Source
from kai_sched.model.read import BIND_REQUEST, OPERATOR_CONFIG, POD, POD_GROUP, QUEUE, SHARD, TOPOLOGY, VOLUME

INSTALL = "install the custom resource definitions: kubectl apply -k manifests"
SOURCES = (
    Source(OPERATOR_CONFIG, f"/apis/{OPERATOR_CONFIG[0]}/configs", optional=True),
    Source(SHARD, f"/apis/{SHARD[0]}/schedulingshards", optional=True),
    Source(TOPOLOGY, f"/apis/{TOPOLOGY[0]}/topologies", optional=True),
    Source(QUEUE, f"/apis/{QUEUE[0]}/queues", remedy=INSTALL),
    Source(POD_GROUP, f"/apis/{POD_GROUP[0]}/podgroups", remedy=INSTALL),
    Source(("v1", "Node"), "/api/v1/nodes"),
    Source(("v1", "Namespace"), "/api/v1/namespaces"),
    Source(("scheduling.k8s.io/v1", "PriorityClass"), "/apis/scheduling.k8s.io/v1/priorityclasses"),
    Source(("storage.k8s.io/v1", "StorageClass"), "/apis/storage.k8s.io/v1/storageclasses"),
    Source(VOLUME, "/api/v1/persistentvolumes"),
    Source(("v1", "PersistentVolumeClaim"), "/api/v1/persistentvolumeclaims"),
    Source(("v1", "ConfigMap"), "/api/v1/configmaps", metadata_only=True),
    Source(BIND_REQUEST, f"/apis/{BIND_REQUEST[0]}/bindrequests", optional=True),
    Source(POD, "/api/v1/pods"),
)
