"""The names on the wire: labels, annotations, API groups and versions, default queues, environment variables, reasons
and types of conditions and Events.
"""

from __future__ import annotations

# API groups and versions
QUEUE_GROUP = "scheduling.run.ai"
KAI_GROUP = "kai.scheduler"
SCENARIO_VERSION = "kai-sched.io/v1alpha1"
# What commands print as data, and what `to_dict()` of the library gives.
ANSWER_VERSION = "kai-sched.io/v1"
PLAN_KIND = "Simulation"
ANSWER_KINDS = frozenset({PLAN_KIND, "Overview", "Explanation", "FitList", "Difference"})
QUEUE_VERSION = f"{QUEUE_GROUP}/v2"
POD_GROUP_VERSION = f"{QUEUE_GROUP}/v2alpha2"
BIND_REQUEST_VERSION = f"{QUEUE_GROUP}/v1alpha2"
TOPOLOGY_VERSION = f"{KAI_GROUP}/v1alpha1"
CONFIG_VERSION = f"{KAI_GROUP}/v1"
DRA_VERSION = "resource.k8s.io/v1"
DRA_TAINT_VERSION = "resource.k8s.io/v1alpha3"  # of DeviceTaintRules, as of Kubernetes 1.33 to 1.35
STORAGE_VERSION = "storage.k8s.io/v1"
NODE_TOPOLOGY_VERSION = "topology.node.k8s.io/v1alpha2"
# PodGroups and Workloads of Kubernetes itself, as of 1.37: apiVersion and kind
KUBERNETES_GROUPS = "scheduling.k8s.io"
KUBERNETES_GROUP = f"{KUBERNETES_GROUPS}/v1beta1", "PodGroup"
KUBERNETES_WORKLOAD = f"{KUBERNETES_GROUPS}/v1beta1", "Workload"
GROUP_SCHEDULED = "PodGroupInitiallyScheduled"  # the type of their condition
NAMESPACE = "kai-scheduler"  # of the scheduler, unless it is told another one
# The ConfigMap with what queues used in the past: the end of its name, and the text that says it
PAST_USAGE_SUFFIX, PAST_USAGE_KEY = "-usage", "usage"
CONFIG_NAME = "kai-config"
DEFAULT_SHARD = "default"
DEFAULT_QUEUE = "default-queue"
DEFAULT_PARENT_QUEUE = "default-parent-queue"
# The deployments of the original beside its schedulers, as its chart names them.
ORIGINAL_PARTS = frozenset(
    {"admission", "binder", "kai-operator", "node-scale-adjuster", "pod-grouper", "podgroup-controller"}
    | {"queue-controller"}
)
# Kubernetes' own classes, and the one namespace in which they count for scheduling.
SYSTEM_CLASSES_PREFIX = "system-"
SYSTEM_NAMESPACE = "kube-system"

# Labels
QUEUE_LABEL = "kai.scheduler/queue"
NODE_POOL_LABEL = "kai.scheduler/node-pool"
SUB_GROUP_LABEL = "kai.scheduler/subgroup-name"
PRIORITY_CLASS_LABEL = "priorityClassName"
PROJECT_LABEL = "project"
TASK_PRIORITY_LABEL = "kai.scheduler/task-priority"
GPU_GROUP_LABEL = "runai-gpu-group"
GPU_GROUPS_PREFIX = "runai-gpu-group/"
SHARED_GPU_LABEL = "kai.scheduler/shared-gpu"  # of ConfigMaps that tell containers their devices
APP_LABEL = "app"
SCALING_APP = "scaling-pod"  # the value of the label "app" of scaling pods, and the pod that each of them is for
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "kai-sched"
SCALED_NAME_LABEL = "shared-gpu-pod-name"
SCALED_NAMESPACE_LABEL = "shared-gpu-pod-namespace"
JOB_ROLE_LABEL = "training.kubeflow.org/job-role"
RAY_NODE_TYPE_LABEL = "ray.io/node-type"
NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
GPU_COUNT_LABEL = "nvidia.com/gpu.count"
GPU_MEMORY_LABEL = "nvidia.com/gpu.memory"
MIG_STRATEGY_LABEL = "nvidia.com/mig.strategy"
MIG_ENABLED_LABEL = "node-role.kubernetes.io/mig-enabled"
GPU_WORKER_LABEL = "node-role.kubernetes.io/gpu-worker"
CPU_WORKER_LABEL = "node-role.kubernetes.io/cpu-worker"
USER_LABEL = "user"  # an annotation, too
PREEMPTIBILITY_LABEL = "kai.scheduler/preemptibility"
JOB_NAME_LABEL = "training.kubeflow.org/job-name"
REPLICA_TYPE_LABEL = "training.kubeflow.org/replica-type"
REPLICA_INDEX_LABEL = "training.kubeflow.org/replica-index"
RAY_CLUSTER_LABEL = "ray.io/cluster"
RAY_GROUP_LABEL = "ray.io/group"
RAY_REPLICA_NAME_LABEL = "ray.io/worker-group-replica-name"
RAY_REPLICA_INDEX_LABEL = "ray.io/worker-group-replica-index"
RAY_HOST_INDEX_LABEL = "ray.io/replica-host-index"
RAY_PRIORITY_CLASS_LABEL = "ray.io/priority-class-name"
JOBSET_NAME_LABEL = "jobset.sigs.k8s.io/jobset-name"
REPLICATED_JOB_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX_LABEL = "jobset.sigs.k8s.io/job-index"
LWS_NAME_LABEL = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP_INDEX_LABEL = "leaderworkerset.sigs.k8s.io/group-index"
LWS_WORKER_INDEX_LABEL = "leaderworkerset.sigs.k8s.io/worker-index"
KNATIVE_REVISION_LABEL = "serving.knative.dev/revision"
POD_GANG_LABEL = "grove.io/podgang"
SPARK_NAME_LABEL = "spark-app-name"
SPARK_SELECTOR_LABEL = "spark-app-selector"

# Annotations
POD_GROUP_ANNOTATION = "pod-group-name"
GPU_FRACTION_ANNOTATION = "gpu-fraction"
GPU_MEMORY_ANNOTATION = "gpu-memory"
GPU_DEVICES_ANNOTATION = "gpu-fraction-num-devices"
CONTAINER_PREFIX = "nvidia.com/container."  # followed by its name, and .gpu-memory.request or .gpu-memory.limit
MIG_PREFIX = "nvidia.com/mig-"
CLAIM_FINALIZER = "resource.kubernetes.io/delete-protection"  # of claims that are allocated
EXTENDED_CLAIM_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
SHARED_GPU_CONFIG_MAP_ANNOTATION = "runai/shared-gpu-configmap"
RESERVED_DEVICE_ANNOTATION = "run.ai/reserve_for_gpu_index"  # the UUID of the device, whatever the key says
RECEIVED_TYPE_ANNOTATION = "received-resource-type"
CDI_ANNOTATION = "cdi.k8s.io/kai-gpu-sharing"
STALE_ANNOTATION = "kai.scheduler/stale-podgroup-timestamp"
LAST_START_ANNOTATION = "kai.scheduler/last-start-timestamp"
EVICTED_PODS_ANNOTATION = "num-evicted-pods"
EVICTOR_ACTION_ANNOTATION = "evictor-action-type"
EVICTOR_GROUP_ANNOTATION = "evictor-pod-group-name"
EVICTOR_NAMESPACE_ANNOTATION = "evictor-pod-group-namespace"
LAST_EVICTION_ANNOTATION = "kai.scheduler/last-eviction-timestamp"
STORAGE_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
SELECTED_NODE_ANNOTATION = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER_ANNOTATION = "pv.kubernetes.io/bound-by-controller"

SKIP_GROUPER_ANNOTATION = "kai.scheduler/skip-podgrouper"
TOP_OWNER_ANNOTATION = "kai.scheduler/top-owner-metadata"
PREEMPTION_DELAY_ANNOTATION = "kai.scheduler/preemption-delay"
STALENESS_GRACE_ANNOTATION = "kai.scheduler/staleness-grace-period"
BATCH_MIN_MEMBER_ANNOTATION = "kai.scheduler/batch-min-member"
TOPOLOGY_ANNOTATION = "kai.scheduler/topology"
TOPOLOGY_REQUIRED_ANNOTATION = "kai.scheduler/topology-required-placement"
TOPOLOGY_PREFERRED_ANNOTATION = "kai.scheduler/topology-preferred-placement"
SAFE_TO_CONSOLIDATE_ANNOTATION = "kai.scheduler/safe-to-consolidate"
BACKGROUND_LABEL = "kai.scheduler/background"
NUMA_OBSERVED_ANNOTATION = "kai.scheduler/numa-placement-observed"
NUMA_PREDICTED_ANNOTATION = "kai.scheduler/numa-placement-predicted"
SEGMENT_SIZE_ANNOTATION = "kai.scheduler/segment-size"
SEGMENT_REQUIRED_ANNOTATION = "kai.scheduler/segment-topology-required-placement"
SEGMENT_PREFERRED_ANNOTATION = "kai.scheduler/segment-topology-preferred-placement"
GROVE_TOPOLOGY_ANNOTATION = "grove.io/topology-name"
LWS_SIZE_ANNOTATION = "leaderworkerset.sigs.k8s.io/size"
KNATIVE_MIN_SCALE_ANNOTATION = "autoscaling.knative.dev/min-scale"

# The ConfigMap that Kubernetes itself keeps in every namespace.
ROOT_CA_CONFIG_MAP = "kube-root-ca.crt"

# Conditions of pods: the type, and its reasons where it is False. Only the first makes autoscalers add nodes.
POD_SCHEDULED = "PodScheduled"
DISRUPTION_TARGET = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"
UNSCHEDULABLE = "Unschedulable"
QUEUE_OVER_LIMIT = "QueueOverLimit"
QUEUE_OVER_QUOTA = "QueueOverQuota"
GANG_NOT_READY = "GangNotReady"
DEPENDENCY_MISSING = "DependencyMissing"
SUB_GROUP_DOES_NOT_EXIST = "SubGroupDoesNotExist"
POD_GROUP_DOES_NOT_EXIST = "PodGroupDoesNotExist"
BINDING_ERROR = "BindingError"

# Conditions of queues and pod groups
UNSCHEDULABLE_ON_NODE_POOL = "UnschedulableOnNodePool"
ORPHAN = "Orphan"
INVALID = "Invalid"

# Reasons of events that are no reason of a condition, and their types
NORMAL = "Normal"
WARNING = "Warning"
SCHEDULED = "Scheduled"
EVICT = "Evict"
EVICTING = "Evicting"  # of this project: on the group that gets the room
PIPELINED = "Pipelined"
FAILED_BINDING = "FailedBinding"
NOT_READY = "NotReady"
STALE_JOB = "StaleJob"
QUEUE_LABEL_MISSING = "QueueLabelMissing"
GROUPER_WARNING = "PodGrouperWarning"
CYCLE_FAILED = "CycleFailed"  # of this project, on the Lease
LEFT_OUT = "LeftOutOfScheduling"
RESERVATION_CONFLICT = "GPUReservationConflict"
RESERVATION_LOST = "GPUReservationLost"

# The pool of objects without a node pool label, in messages and in conditions
DEFAULT_POOL = "default"

# Annotations and environment of pods with a part of a GPU, from admission on
MPS_ANNOTATION = "mps"
GPU_CONTAINER_ANNOTATION = "gpu-fraction-container-name"
DEFAULT_SCHEDULER = "default-scheduler"  # of Kubernetes itself: of pods that name none
VISIBLE_DEVICES_ENV = "NVIDIA_VISIBLE_DEVICES"
NUMBER_OF_GPUS_ENV = "RUNAI_NUM_OF_GPUS"
GPU_PORTION_ENV = "GPU_PORTION"
DEVICE_MEMORY_LIMIT_ENV = "CUDA_DEVICE_MEMORY_LIMIT"
NVIDIA_GPU = "nvidia.com/gpu"
# In statuses: what pods request of the memory of GPUs, in MiB.
GPU_MEMORY_RESOURCE = "run.ai/gpu.memory"
