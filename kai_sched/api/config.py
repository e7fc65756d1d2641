"""Config, kai.scheduler/v1 (API 1.6): the fields, types and bounds of its CRD; ``model.read.config`` decides what they
change. All fields may be left out.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kai_sched.api.custom import Amounts, AnyObject, Int32, Model, Quantity, Texts, schema
from kai_sched.api.sharing import GpuMemoryReserve
from kai_sched.api.status import OperandStatus

TIMEOUT_MAX_S = 3600
IntOrString = Annotated[int | str, schema(**{"x-int-or-string": True})]


class Image(Model):
    repository: str | None = None
    tag: str | None = None
    name: str | None = None
    pull_policy: str | None = None


class ResourceClaimName(Model):
    required_fields = ("name",)

    name: str | None = None
    request: str | None = None


class ComponentResources(Model):
    limits: Amounts | None = None
    requests: Amounts | None = None
    claims: list[ResourceClaimName] | None = None


class K8sClientConfig(Model):
    qps: int | None = None
    burst: int | None = None


class PodDisruptionBudget(Model):
    enabled: bool | None = None
    max_unavailable: IntOrString | None = None


class Service(Model):
    enabled: bool | None = None
    image: Image | None = None
    resources: ComponentResources | None = None
    k8s_client_config: Annotated[K8sClientConfig | None, Field(alias="k8sClientConfig")] = None
    affinity: AnyObject | None = None
    pod_disruption_budget: PodDisruptionBudget | None = None


class UpdatePolicy(Model):
    update_mode: str | None = None
    min_replicas: Int32 | None = None


class VPA(Model):
    enabled: bool | None = None
    update_policy: UpdatePolicy | None = None
    resource_policy: AnyObject | None = None


class Component(Model):
    service: Service | None = None
    vpa: VPA | None = None


class ReplicatedComponent(Component):
    replicas: Int32 | None = None


SharingMode = Literal["Disabled", "NonMemoryEnforced", "HamiCore", "NvFractions"]


class GlobalSettings(Model):
    openshift: bool | None = None
    security_context: AnyObject | None = None
    additional_image_pull_secrets: list[str] | None = None
    images_pull_secret: str | None = Field(None, description="Deprecated: use additionalImagePullSecrets.")
    priority_class_name: str | None = None
    json_log: bool | None = None
    node_selector: Texts | None = None
    tolerations: list[AnyObject] | None = None
    affinity: AnyObject | None = None
    require_default_pod_anti_affinity_term: bool | None = None
    daemonsets_tolerations: list[AnyObject] | None = None
    replica_count: Int32 | None = None
    scheduler_name: str | None = Field(None, description="Absent: kai-scheduler.")
    queue_label_key: str | None = Field(None, description="Absent: kai.scheduler/queue.")
    node_pool_label_key: str | None = Field(None, description="Absent: kai.scheduler/node-pool.")
    namespace_label_selector: Texts | None = None
    pod_label_selector: Texts | None = None
    vpa: VPA | None = None
    gpu_sharing: bool | None = Field(None, description="Whether pods may share GPUs; absent: no.")
    gpu_sharing_mode: SharingMode | None = Field(None, description="How they do; wins over all other fields about it.")
    gpu_memory_reserve: GpuMemoryReserve | None = Field(None, description="What drivers take of each GPU.")
    fair_share: Literal["pool", "cluster"] | None = Field(
        None, description="Over what fair shares are computed, with --all-shards; absent: pool."
    )


class PodGrouperArgs(Model):
    gang_schedule_knative: bool | None = None
    group_bare_pods: bool | None = Field(None, description="Whether pods without owners get PodGroups; absent: no.")
    generic_karta_fallback: bool | None = None
    default_priorities_config_map_name: str | None = None
    default_priorities_config_map_namespace: str | None = None


class PodGrouper(ReplicatedComponent):
    max_concurrent_reconciles: int | None = None
    k8s_client_config: Annotated[K8sClientConfig | None, Field(alias="k8sClientConfig")] = None
    args: PodGrouperArgs | None = None


class BinderPlugin(Model):
    enabled: bool | None = None
    priority: int | None = None
    arguments: Texts | None = None


class NamedImage(Model):
    image: Image | None = None


class ResourceReservation(NamedImage):
    namespace: str | None = None
    service_account_name: str | None = None
    app_label: str | None = None
    runtime_class_name: str | None = None
    reservation_pod_security_context: AnyObject | None = None
    reservation_container_security_context: AnyObject | None = None
    allocation_timeout: Annotated[int, Field(ge=1, le=TIMEOUT_MAX_S)] | None = Field(
        None, description="Seconds; absent: 40."
    )
    fake_gpu_nodes: bool | None = Field(None, description="Whether nodes have no real GPUs, as in tests.")
    pod_resources: ComponentResources | None = None


class BinderComponent(ReplicatedComponent):
    max_concurrent_reconciles: int | None = None
    probe_port: int | None = None
    metrics_port: int | None = None
    plugins: dict[str, BinderPlugin] | None = None
    volume_binding_timeout_seconds: int | None = None
    cdi_enabled: bool | None = None
    resource_reservation: ResourceReservation | None = None


class AdmissionWebhook(Model):
    port: int | None = None
    target_port: int | None = None
    probe_port: int | None = None
    metrics_port: int | None = None


class AdmissionComponent(ReplicatedComponent):
    webhook: AdmissionWebhook | None = None
    queue_label_selector: bool | None = None
    validating_webhook_configuration_name: str | None = None
    mutating_webhook_configuration_name: str | None = None
    gpu_fraction_runtime_class_name: str | None = None
    gpu_pod_runtime_class_name: str | None = Field(None, description="Deprecated: use gpuFractionRuntimeClassName.")
    gpu_sharing: bool | None = Field(None, description="Wins over spec.global.gpuSharing.")
    block_nvidia_visible_devices: bool | None = None


class SchedulerService(Model):
    type: str | None = None
    port: int | None = None
    target_port: int | None = None


class Scheduler(ReplicatedComponent):
    gogc: Annotated[int | None, Field(alias="GOGC", description="Accepted, without effect.")] = None
    scheduler_service: SchedulerService | None = None


class ServicePort(Model):
    port: int | None = None
    target_port: int | None = None
    name: str | None = None


class ControllerService(Model):
    metrics: ServicePort | None = None
    webhook: ServicePort | None = None


class Webhooks(Model):
    enable_validation: bool | None = None
    webhook_configuration_name_prefix: str | None = None


class QueueController(ReplicatedComponent):
    controller_service: ControllerService | None = None
    webhooks: Webhooks | None = None
    metrics_namespace: str | None = None
    queue_label_to_metric_label: str | None = None
    queue_label_to_default_metric_value: str | None = None


class PodGroupController(ReplicatedComponent):
    max_concurrent_reconciles: int | None = None
    controller_service: ControllerService | None = None
    webhooks: Webhooks | None = None


class NodeScaleAdjusterArgs(Model):
    node_scale_namespace: str | None = None
    node_scale_service_account: str | None = None
    scaling_pod_image: Image | None = None
    gpu_memory_to_fraction_ratio: Annotated[float, Field(gt=0, le=1)] | None = None


class NodeScaleAdjuster(Component):
    args: NodeScaleAdjusterArgs | None = None


class NumaPlacementExporter(Model):
    service: Service | None = None
    node_selector: Texts | None = None
    tolerations: list[AnyObject] | None = None
    poll_interval: str | None = None
    drift_resync_interval: str | None = None
    pod_resources_host_path: str | None = None
    pod_resources_socket: str | None = None
    sysfs_host_path: str | None = None


class ServiceMonitor(Model):
    enabled: bool | None = None
    interval: str | None = None
    scrape_timeout: str | None = None
    bearer_token_file: str | None = None


class HealthProbe(Model):
    interval: int | None = Field(None, description="Seconds.")
    timeout: int | None = Field(None, description="Seconds.")
    max_retries: int | None = None


class Prometheus(Model):
    enabled: bool | None = None
    instance_name: str | None = None
    retention_period: str | None = None
    sample_interval: str | None = None
    storage_class_name: str | None = None
    enable_persistent_storage: bool | None = None
    storage_size: Quantity | None = None
    service_monitor: ServiceMonitor | None = None
    external_prometheus_url: str | None = None
    external_prometheus_health_probe: HealthProbe | None = None
    accounting_label_key: str | None = None
    accounting_label_value: str | None = None


class ConfigSpec(Model):
    namespace: str | None = Field(None, description="Where the operands are created; absent: kai-scheduler.")
    global_settings: Annotated[GlobalSettings | None, Field(alias="global")] = None
    pod_grouper: PodGrouper | None = None
    binder: BinderComponent | None = None
    admission: AdmissionComponent | None = None
    scheduler: Scheduler | None = None
    queue_controller: QueueController | None = None
    pod_group_controller: PodGroupController | None = None
    node_scale_adjuster: NodeScaleAdjuster | None = None
    numa_placement_exporter: NumaPlacementExporter | None = None
    prometheus: Prometheus | None = None


class ConfigManifest(Model):
    """How the scheduler and its companions are installed; the one named kai-config counts."""

    spec: ConfigSpec | None = None
    status: OperandStatus | None = None
