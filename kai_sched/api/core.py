"""Structs of Kubernetes' own kinds, such as Pod, Node and PersistentVolumeClaim: only the fields that are read, decoded
from JSON bytes by msgspec.

Every field may be null as well as absent, as some users and programs write keys without a value. Parts that many
objects share stay raw bytes, so that readers parse each distinct one only once. Structs that share a name with a domain
object (``model.objects``) begin with ``Wire``.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType, field

# The raw value of a part that is not there; one that is null reads b"null".
ABSENT = Raw(b"")

Quantity = str | int | float
Labels = dict[str, str] | None


class Wire(Struct, rename="camel", gc=False):
    """A part without references back to its owner, so that the garbage collector need not follow it."""


class OwnerReference(Wire):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None


class Meta(Wire):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Labels = None
    annotations: Labels = None
    owner_references: list[OwnerReference] | None = None


class Header(Wire):
    """The head of any document. A document with ``items`` is a list; the items stay undecoded."""

    kind: str | None = None
    api_version: str | None = None
    metadata: Raw = ABSENT
    items: list[Raw] | UnsetType | None = UNSET


class ResourceRequirements(Wire):
    requests: dict[str, Quantity] | None = None
    limits: dict[str, Quantity] | None = None


class ContainerPort(Wire):
    container_port: int | None = None
    host_port: int | None = None
    protocol: str | None = None
    host_ip: str | None = field(default=None, name="hostIP")


class ConfigMapReference(Wire):
    """A named object that may be optional."""

    name: str | None = None
    optional: bool | None = None


class EnvSource(Wire):
    config_map_key_ref: ConfigMapReference | None = None


class Env(Wire):
    value_from: EnvSource | None = None


class EnvFrom(Wire):
    config_map_ref: ConfigMapReference | None = None


class Mount(Wire):
    name: str | None = None


class Container(Wire):
    name: str | None = None
    resources: Raw = ABSENT
    ports: list[ContainerPort] | None = None
    env: list[Env] | None = None
    env_from: list[EnvFrom] | None = None
    volume_mounts: list[Mount] | None = None
    restart_policy: str | None = None


class ClaimSource(Wire):
    claim_name: str | None = None


class ProjectedSource(Wire):
    config_map: ConfigMapReference | None = None


class Projected(Wire):
    sources: list[ProjectedSource] | None = None


class EphemeralSource(Wire):
    """A volume that Kubernetes makes a claim for; only that it is there matters."""


class PodVolume(Wire):
    name: str | None = None
    persistent_volume_claim: ClaimSource | None = None
    config_map: ConfigMapReference | None = None
    projected: Projected | None = None
    ephemeral: EphemeralSource | None = None


class Named(Wire):
    name: str | None = None


class WirePodClaim(Wire):
    """A claim of a pod for devices: the name of a ResourceClaim, or of the template that one is made from."""

    name: str | None = None
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class SchedulingGroup(Wire):
    """The PodGroup of Kubernetes that the pod belongs to."""

    pod_group_name: str | None = None


class PodSpec(Wire):
    node_name: str | None = None
    scheduler_name: str | None = None
    priority_class_name: str | None = None
    host_network: bool | None = None
    node_selector: Raw = ABSENT
    affinity: Raw = ABSENT
    tolerations: Raw = ABSENT
    overhead: Raw = ABSENT
    resources: Raw = ABSENT
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    ephemeral_containers: list[Container] | None = None
    volumes: list[PodVolume] | None = None
    scheduling_gates: list[Named] | None = None
    resource_claims: list[WirePodClaim] | None = None
    scheduling_group: SchedulingGroup | None = None


class PodClaimStatus(Wire):
    """The ResourceClaim that was made for a claim of the pod; none where none was needed."""

    name: str | None = None
    resource_claim_name: str | None = None


class ContainerStatus(Wire):
    """What the kubelet has given a container (``allocated_resources``), and what it has put into effect."""

    name: str | None = None
    allocated_resources: Raw = ABSENT
    resources: Raw = ABSENT


class WirePodCondition(Wire):
    type: str | None = None
    status: str | None = None
    reason: str | None = None


class PodStatus(Wire):
    """``allocated_resources`` and ``resources`` are those of the pod as a whole; ``resize`` is how Kubernetes before
    1.33 tells the state of a resize."""

    phase: str | None = None
    qos_class: str | None = None
    nominated_node_name: str | None = None
    resource_claim_statuses: list[PodClaimStatus] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    conditions: list[WirePodCondition] | None = None
    allocated_resources: Raw = ABSENT
    resources: Raw = ABSENT
    resize: str | None = None


class WirePod(Wire):
    metadata: Meta | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None


class WireTaint(Wire):
    key: str
    value: str | None = None
    effect: str | None = None


class NodeSpec(Wire):
    unschedulable: bool | None = None
    taints: list[WireTaint] | None = None


class Condition(Wire):
    type: str
    status: str | None = None


class NodeStatus(Wire):
    allocatable: dict[str, Quantity] | None = None
    capacity: dict[str, Quantity] | None = None
    conditions: list[Condition] | None = None


class WireNode(Wire):
    metadata: Meta | None = None
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class WireRequirement(Wire):
    key: str
    operator: str
    values: list[str] | None = None


class SelectorTerm(Wire):
    match_expressions: list[WireRequirement] | None = None
    match_fields: list[WireRequirement] | None = None


class Selector(Wire):
    """A node selector: the OR of its terms."""

    node_selector_terms: list[SelectorTerm] | None = None


class LabelSelector(Wire):
    match_labels: Labels = None
    match_expressions: list[WireRequirement] | None = None


class NodeAffinity(Wire):
    required_during_scheduling_ignored_during_execution: Selector | None = None


class WirePodTerm(Wire):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WireWeightedPodTerm(Wire):
    weight: int
    pod_affinity_term: WirePodTerm


class PodAffinity(Wire):
    required_during_scheduling_ignored_during_execution: list[WirePodTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WireWeightedPodTerm] | None = None


class Affinity(Wire):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class WireToleration(Wire):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class ClaimSpec(Wire):
    volume_name: str | None = None
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    resources: ResourceRequirements | None = None
    selector: LabelSelector | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PhaseStatus(Wire):
    phase: str | None = None


class PersistentVolumeClaim(Wire):
    metadata: Meta | None = None
    spec: ClaimSpec | None = None
    status: PhaseStatus | None = None


class VolumeAffinity(Wire):
    required: Selector | None = None


class ClaimReference(Wire):
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class VolumeDriver(Wire):
    """The CSI driver of a volume, and what the driver calls it."""

    driver: str | None = None
    volume_handle: str | None = None


class VolumeSpec(Wire):
    node_affinity: VolumeAffinity | None = None
    storage_class_name: str | None = None
    claim_ref: ClaimReference | None = None
    access_modes: list[str] | None = None
    capacity: dict[str, Quantity] | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    csi: VolumeDriver | None = None


class PersistentVolume(Wire):
    metadata: Meta | None = None
    spec: VolumeSpec | None = None
    status: PhaseStatus | None = None


class TopologyExpression(Wire):
    key: str
    values: list[str] | None = None


class TopologyTerm(Wire):
    match_label_expressions: list[TopologyExpression] | None = None


class WireStorageClass(Wire):
    metadata: Meta | None = None
    provisioner: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None


class WireConfigMap(Wire):
    metadata: Meta | None = None


class WireNamespace(Wire):
    metadata: Meta | None = None


class WirePriorityClass(Wire):
    metadata: Meta | None = None
    value: int | None = None
    global_default: bool | None = None


class OwnerObject(Wire):
    """An object that owns pods, of whatever kind. Both parts are absent where only its metadata was asked for."""

    metadata: Meta | None = None
    spec: Any = None
    status: Any = None


class CustomObject(Wire):
    """A custom resource before its own model looks at it."""

    metadata: Meta | None = None
    spec: Raw = ABSENT
    status: Raw = ABSENT
