"""The settings of one scheduler (``Config``), of its reservation pods and scaling pods: their names and defaults, the
default actions and plugins, and which objects are in its node pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kai_sched.api import names
from kai_sched.api.legal import object_name
from kai_sched.model.cron import parse_cron

SATURATION = "relcaimerSaturationMultiplier"  # an argument of proportion, as the original spells it
TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})  # texts of switches that are on
STEADY = "steadyFairShareReclaim"  # another one of it
VICTIMS = ("minimal", "original")
POOL, CLUSTER = "pool", "cluster"  # over what fair shares are computed
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
    "backgroundpods": {},
}
# The list that the original uses without a config file, for scenario files. It has no podaffinity.
BUILT_IN_PLUGINS: Mapping[str, Mapping[str, str]] = {
    name: arguments for name, arguments in OPERATOR_PLUGINS.items() if name != "podaffinity"
}


@dataclass(frozen=True, slots=True)
class ReservationSettings:
    """How reservation pods are made, which hold a device for the pods that share it (API 1.6, 7.3).

    Attributes
    ----------
    namespace, app_label, service_account
        Where they are, the value of their label ``app``, and their ServiceAccount.
    runtime_class
        Their RuntimeClass; empty: none.
    image, image_pull_policy
        What they run; empty: the image of the scheduler's own pod.
    requests, limits
        Quantities by resource, beside the device. GPUs are not among them.
    pod_security_context, container_security_context
        As Kubernetes has them; empty: none.
    allocation_timeout_s
        How long one may take to say which device it got, in seconds.
    fake_gpu_nodes
        Whether nodes have no real GPUs, so that reservation pods make their device up. Where it is False, this holds
        for nodes with the label ``run.ai/fake.gpu`` only.
    cdi_enabled
        Whether containers get devices by their CDI names; None: nobody said so.
    hami_core
        Whether containers are told how much memory of the device they may take, for HAMi-core (API 7.5).
    """

    namespace: str = "kai-resource-reservation"
    app_label: str = "kai-resource-reservation"
    service_account: str = "kai-resource-reservation"
    runtime_class: str = ""
    image: str = ""
    image_pull_policy: str = "IfNotPresent"
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    pod_security_context: Mapping[str, Any] = field(default_factory=dict)
    container_security_context: Mapping[str, Any] = field(default_factory=dict)
    allocation_timeout_s: float = 40.0
    fake_gpu_nodes: bool = False
    cdi_enabled: bool | None = None
    hami_core: bool = False


@dataclass(frozen=True, slots=True)
class ScalingSettings:
    """How scaling pods are made, which have autoscalers add nodes for pods with a part of a GPU (API 1.6, 13).

    Attributes
    ----------
    enabled
        Whether any are made.
    namespace, service_account
        Where they are, and their ServiceAccount.
    image, image_pull_policy, arguments
        What they run; it ends at once. Without an image: that of the scheduler's own pod.
    memory_portion
        The part of a GPU that counts for a request for memory while no node says how large its GPUs are.
    """

    enabled: bool = False
    namespace: str = "kai-scale-adjust"
    service_account: str = "kai-scale-adjust"
    image: str = ""
    image_pull_policy: str = "IfNotPresent"
    arguments: tuple[str, ...] = ()
    memory_portion: float = 0.1


INTERNAL, PROMETHEUS = "internal", "prometheus"  # whose accounts of past usage count


@dataclass(frozen=True, slots=True)
class UsageDatabase:
    """A Prometheus that knows what queues held. Triples are for CPU, memory and GPUs.

    Attributes
    ----------
    url
        Where it answers; "" where the environment variable ``url_variable`` of the scheduler says it.
    allocation
        What each queue held: metrics, or expressions, with the label queue_name.
    capacity
        What there was: expressions of one series each.
    resolution_s
        Seconds between two samples.
    timeout_s
        How long a query may take.
    stale_s
        After how long an answer that is not renewed is worth a warning.
    wait_s
        For how long the first cycle waits for the first answer.
    """

    url: str = ""
    url_variable: str = ""
    allocation: tuple[str, str, str] = (
        "kai_queue_allocated_cpu_cores",
        "kai_queue_allocated_memory_bytes",
        "kai_queue_allocated_gpus",
    )
    capacity: tuple[str, str, str] = (
        'sum(kube_node_status_capacity{resource="cpu"})',
        'sum(kube_node_status_capacity{resource="memory"})',
        'sum(kube_node_status_capacity{resource="nvidia_com_gpu"})',
    )
    resolution_s: float = 60.0
    timeout_s: float = 10.0
    stale_s: float = 300.0
    wait_s: float = 60.0


@dataclass(frozen=True, slots=True)
class UsageSettings:
    """Where the past usage of queues is from, and how it counts (semantics 2.7, API 1.7).

    Attributes
    ----------
    source
        Whose accounts: INTERNAL for those that the scheduler keeps itself, PROMETHEUS for those of ``database``; "" for
        none, so that the past does not count.
    window_s
        How far back it counts, in seconds.
    half_life_s
        After which time it counts half, in seconds; 0: all of the window counts the same.
    interval_s
        How often it is looked at, in seconds: divisions change by time alone.
    tumbling_from_s
        Where windows follow each other and the past counts from the start of the last one: when the first one started,
        in seconds since the epoch. None: the window slides, or ``cron`` says when it starts.
    cron
        The expression that fires when a window starts; "" for none. The window then is as long as it ever rests.
    """

    source: str = ""
    window_s: float = 7 * 86_400.0
    half_life_s: float = 0.0
    interval_s: float = 60.0
    tumbling_from_s: float | None = None
    cron: str = ""
    database: UsageDatabase = UsageDatabase()

    @property
    def starts_anew(self) -> bool:
        """Whether there are times at which all that was before ceases to count."""
        return bool(self.cron) or self.tumbling_from_s is not None

    def since_s(self, now_s: float) -> float:
        """From when on the past counts."""
        if self.cron:
            return parse_cron(self.cron).last_s(now_s)
        if self.tumbling_from_s is None:
            return now_s - self.window_s
        return now_s - (now_s - self.tumbling_from_s) % self.window_s


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of one scheduler. Names and defaults follow the original's flags and config file (API 1.7, 10.1).

    Raises TypeError for actions that are no tuple, and ValueError for an action or a search that does not exist.
    """

    actions: tuple[str, ...] = ACTIONS
    plugins: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: OPERATOR_PLUGINS)
    queue_depth: Mapping[str, int] = field(default_factory=dict)  # by action; absent = unlimited
    scheduler_name: str = "kai-scheduler"
    queue_label: str = names.QUEUE_LABEL
    node_pool_label: str = names.NODE_POOL_LABEL
    node_pool: str = ""  # --partition-label-value
    # Where one process decides for several shards: the node pools of all of them ("": objects without the label). For
    # what it does for all of them at once; each shard is decided with its own ``node_pool``, and without this.
    node_pools: tuple[str, ...] = ()
    fair_share: str = POOL  # CLUSTER: over all node pools of the process; queues then belong to all of them
    reservation: ReservationSettings = ReservationSettings()
    scaling: ScalingSettings = ScalingSettings()
    usage: UsageSettings = UsageSettings()
    # Labels of queues that their metrics have: the key, what the metric calls it, and the value of queues without it.
    queue_metric_labels: tuple[tuple[str, str, str], ...] = ()
    gpu_sharing: bool = True  # whether pods that ask for a part of a GPU get one
    # Whether the annotations of a pod on a node hold a device only where a reservation pod proves it, as in a cluster,
    # where tenants write them. Elsewhere the input is believed (semantics 8.2).
    proves_shares: bool = False
    # What of the memory of a device drivers take, and no pod gets: a part of it, at least so many MiB.
    gpu_memory_reserve_percent: float = 0.0
    gpu_memory_reserve_min_mib: int = 0
    # For the grouping of pods: the ConfigMap ("namespace/name") with settings for kinds of workloads, whether Knative
    # revisions are gangs, and whether pods that nothing owns get PodGroups.
    kinds_config_map: str = ""
    gang_schedule_knative: bool = True
    group_bare_pods: bool = False
    restrict_node_scheduling: bool = False
    cpu_worker_label: str = names.CPU_WORKER_LABEL
    gpu_worker_label: str = names.GPU_WORKER_LABEL
    schedule_csi_storage: bool = False  # whether volumes of pods that are evicted make room for others (12.3)
    full_hierarchy_fairness: bool = True
    stuck_in_releasing_s: float = 120.0
    staleness_grace_s: float = 60.0
    max_consolidation_preemptees: int = 16
    search_work: int = 1_500_000  # victims and nodes that the searches of one action may visit: two seconds at most
    allow_consolidating_reclaim: bool = True
    # "minimal": no pod is evicted that the rest of the victims can do without; "original": the victims of v0.17.0.
    victims: str = "minimal"
    use_scheduling_signatures: bool = True
    detailed_fit_errors: bool = False  # whether reasons name each node and what it lacks, instead of counting nodes

    def __post_init__(self) -> None:
        given: object = self.actions
        if isinstance(given, str):
            raise TypeError(f"actions is a tuple of names, not {given!r}: write ({given!r},)")
        for action in self.actions:
            if action not in ACTIONS:
                raise ValueError(f"there is no action {action!r}: use some of {', '.join(ACTIONS)}")
        if self.victims not in VICTIMS:
            raise ValueError(f"victims is one of {', '.join(VICTIMS)}, not {self.victims!r}: write one of them")
        if self.fair_share not in (POOL, CLUSTER):
            raise ValueError(f"fair_share is {POOL} or {CLUSTER}, not {self.fair_share!r}: write one of them")


def scheduler_and_pool(config: Config) -> str:
    """What tells this scheduler from others: its name, and its node pool, if it has one; objects are named so.

    The value of a label may have what no name of an object has, such as upper case: see ``object_name``.
    """
    both = f"{config.scheduler_name}-{config.node_pool}" if config.node_pool else config.scheduler_name
    return object_name(both)


def past_usage_map(config: Config) -> tuple[str, str]:
    """Namespace and name of the ConfigMap in which past usage is looked for, where nobody says another one."""
    return names.NAMESPACE, scheduler_and_pool(config) + names.PAST_USAGE_SUFFIX


def in_pool(labels: Mapping[str, str], config: Config) -> bool:
    """Whether an object belongs to this scheduler's node pool, or to one of ``Config.node_pools`` (11.3)."""
    if not config.node_pool_label:
        return True
    value = labels.get(config.node_pool_label)
    if config.node_pools:
        return value in config.node_pools if value else value is None and "" in config.node_pools
    return value == config.node_pool if config.node_pool else value is None


def sees_queue(labels: Mapping[str, str], config: Config) -> bool:
    """Whether a queue with these labels counts: it is in the node pool, or shares are those of the cluster (2.8)."""
    return config.fair_share == CLUSTER or in_pool(labels, config)


def pool_in_force(labels: Mapping[str, str], config: Config) -> str:
    """The node pool that decides about an object with these labels: that of the scheduler, or of several its own."""
    return labels.get(config.node_pool_label, "") if config.node_pools else config.node_pool


def pool_of_conditions(labels: Mapping[str, str], config: Config) -> str:
    """The name of the node pool in the conditions of a group with these labels."""
    return pool_in_force(labels, config) or names.DEFAULT_POOL
