"""The settings of one scheduler (``Config``): their names and defaults, the default actions and plugins, and which
objects are in its node pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kai_sched.api import names

VICTIMS = ("minimal", "original")
ACTIONS = ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")

# Plugins that a SchedulingShard switches on, with the arguments that they have by default (semantics 1.3, "Operator").
OPERATOR_PLUGINS: Mapping[str, Mapping[str, str]] = {
    "predicates": {},
    "proportion": {},
    "priority": {},
    "nodeavailability": {},
    "resourcetype": {},
    "podaffinity": {},
    "elastic": {},
    "kubeflow": {},
    "ray": {},
    "subgrouporder": {},
    "taskorder": {},
    "nominatednode": {},
    "dynamicresources": {},
    "minruntime": {},
    "topology": {},
    "snapshot": {},
    "sg-nodelocalgreedy": {},
    "sg-multinodegang": {},
    "gpupack": {},
    "nodeplacement": {"gpu": "binpack", "cpu": "binpack"},
    "gpusharingorder": {},
}
# The list that the original uses without a config file, for scenario files. It has no podaffinity.
BUILT_IN_PLUGINS: Mapping[str, Mapping[str, str]] = {
    name: arguments for name, arguments in OPERATOR_PLUGINS.items() if name != "podaffinity"
}


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of one scheduler. Names and defaults follow the original's flags and config file (API 1.7, 10.1)."""

    actions: tuple[str, ...] = ACTIONS
    plugins: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: OPERATOR_PLUGINS)
    queue_depth: Mapping[str, int] = field(default_factory=dict)  # by action; absent = unlimited
    scheduler_name: str = "kai-scheduler"
    queue_label: str = names.QUEUE_LABEL
    node_pool_label: str = names.NODE_POOL_LABEL
    node_pool: str = ""  # --partition-label-value
    # Pods that reserve a device for pods that share it: the value of their label "app", and their namespace.
    reservation_app_label: str = "kai-resource-reservation"
    reservation_namespace: str = "kai-resource-reservation"
    scaling_namespace: str = "kai-scale-adjust"  # of pods that make autoscalers add nodes for pods that share devices
    gpu_sharing: bool = True  # whether pods that ask for a part of a GPU get one
    device_claims: bool = True  # whether pods with claims for devices of slices get them
    # What of the memory of a device drivers take, and no pod gets: a part of it, at least so many MiB.
    gpu_memory_reserve_percent: float = 0.0
    gpu_memory_reserve_min_mib: int = 0
    # For the grouping of pods: the ConfigMap ("namespace/name") with settings for kinds of workloads, and whether
    # Knative revisions are gangs.
    kinds_config_map: str = ""
    gang_schedule_knative: bool = True
    restrict_node_scheduling: bool = False
    cpu_worker_label: str = names.CPU_WORKER_LABEL
    gpu_worker_label: str = names.GPU_WORKER_LABEL
    full_hierarchy_fairness: bool = True
    stuck_in_releasing_s: float = 120.0
    staleness_grace_s: float = 60.0
    max_consolidation_preemptees: int = 16
    search_work: int = 1_500_000  # victims and queues that the searches of one action may visit: about two seconds
    allow_consolidating_reclaim: bool = True
    # "minimal": no pod is evicted that the rest of the victims can do without; "original": the victims of v0.17.0.
    victims: str = "minimal"
    use_scheduling_signatures: bool = True


def in_pool(labels: Mapping[str, str], config: Config) -> bool:
    """Whether an object belongs to this scheduler's node pool (11.3)."""
    if not config.node_pool_label:
        return True
    value = labels.get(config.node_pool_label)
    return value == config.node_pool if config.node_pool else value is None
