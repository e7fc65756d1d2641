"""Every label, annotation and API group that is read or written, in one place."""

from __future__ import annotations

# API groups and versions
QUEUE_GROUP = "scheduling.run.ai"
KAI_GROUP = "kai.scheduler"
SCENARIO_VERSION = "kai-sched.io/v1alpha1"
QUEUE_VERSION = f"{QUEUE_GROUP}/v2"
POD_GROUP_VERSION = f"{QUEUE_GROUP}/v2alpha2"
BIND_REQUEST_VERSION = f"{QUEUE_GROUP}/v1alpha2"
TOPOLOGY_VERSION = f"{KAI_GROUP}/v1alpha1"
CONFIG_VERSION = f"{KAI_GROUP}/v1"
CONFIG_NAME = "kai-config"
DEFAULT_SHARD = "default"
DEFAULT_QUEUE = "default-queue"
DEFAULT_PARENT_QUEUE = "default-parent-queue"

# Labels
QUEUE_LABEL = "kai.scheduler/queue"
NODE_POOL_LABEL = "kai.scheduler/node-pool"
SUB_GROUP_LABEL = "kai.scheduler/subgroup-name"
PRIORITY_CLASS_LABEL = "priorityClassName"
PROJECT_LABEL = "project"
TASK_PRIORITY_LABEL = "kai.scheduler/task-priority"
GPU_GROUP_LABEL = "runai-gpu-group"
GPU_GROUPS_PREFIX = "runai-gpu-group/"
APP_LABEL = "app"
JOB_ROLE_LABEL = "training.kubeflow.org/job-role"
RAY_NODE_TYPE_LABEL = "ray.io/node-type"
NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
GPU_COUNT_LABEL = "nvidia.com/gpu.count"
MIG_STRATEGY_LABEL = "nvidia.com/mig.strategy"
MIG_ENABLED_LABEL = "node-role.kubernetes.io/mig-enabled"
GPU_WORKER_LABEL = "node-role.kubernetes.io/gpu-worker"
CPU_WORKER_LABEL = "node-role.kubernetes.io/cpu-worker"

# Annotations
POD_GROUP_ANNOTATION = "pod-group-name"
GPU_FRACTION_ANNOTATION = "gpu-fraction"
GPU_MEMORY_ANNOTATION = "gpu-memory"
GPU_DEVICES_ANNOTATION = "gpu-fraction-num-devices"
MIG_PREFIX = "nvidia.com/mig-"
SHARED_GPU_CONFIG_MAP_ANNOTATION = "runai/shared-gpu-configmap"
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

# What the key of a group in a result begins with where the group is a pod of a name that a real group has, too.
BARE_MARK = "pod:"

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
BOUND = "Bound"
EVICT = "Evict"
EVICTING = "Evicting"  # ours: told to whom it is for
PIPELINED = "Pipelined"
FAILED_BINDING = "FailedBinding"
NOT_READY = "NotReady"
STALE_JOB = "StaleJob"
QUEUE_LABEL_MISSING = "QueueLabelMissing"

# The pool of objects without a node pool label, in messages and in conditions
DEFAULT_POOL = "default"

# Annotations and environment of pods with a part of a GPU, from admission on
MPS_ANNOTATION = "mps"
GPU_CONTAINER_ANNOTATION = "gpu-fraction-container-name"
VISIBLE_DEVICES_ENV = "NVIDIA_VISIBLE_DEVICES"
NUMBER_OF_GPUS_ENV = "RUNAI_NUM_OF_GPUS"
GPU_PORTION_ENV = "GPU_PORTION"
DEVICE_MEMORY_LIMIT_ENV = "CUDA_DEVICE_MEMORY_LIMIT"
NVIDIA_GPU = "nvidia.com/gpu"
