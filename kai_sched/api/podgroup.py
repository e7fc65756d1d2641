"""PodGroup, scheduling.run.ai/v2alpha2 (API 1.3): the fields of its CRD; the most sub-groups, and how deep."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kai_sched.api.custom import (
    DNS_LABEL_LENGTH,
    DNS_LABEL_PATTERN,
    LABEL_KEY_LENGTH,
    Amounts,
    Count32,
    Duration,
    Int32,
    Model,
    Name,
    schema,
)

# More than any workload has, and as many as a PodGroup can well hold.
SUB_GROUPS_MAX = 10_000
# Sub-groups above each other; workloads need two or three.
SUB_GROUP_DEPTH_MAX = 64

_ONE_MINIMUM = (
    "!(has(self.minMember) && has(self.minSubGroup))",
    "minMember and minSubGroup exclude each other",
    ".minSubGroup",
)


Level = Annotated[str, Field(max_length=LABEL_KEY_LENGTH)]


class TopologyConstraintSpec(Model):
    topology: Name | None = Field(None, description="Name of a Topology; empty switches the constraint off.")
    required_topology_level: Level | None = Field(None, description="Level (node label or alias) that all must share.")
    preferred_topology_level: Level | None = Field(None, description="Level that all should share.")


class SubGroupSpec(Model):
    rules = (
        _ONE_MINIMUM,
        ("!has(self.parent) || self.parent != self.name", "a sub-group cannot be its own parent", ".parent"),
    )
    required_fields = ("name",)

    name: Annotated[str, schema(pattern=DNS_LABEL_PATTERN, maxLength=DNS_LABEL_LENGTH)] = Field(
        description="Unique in the group."
    )
    parent: Annotated[str | None, schema(pattern=DNS_LABEL_PATTERN, maxLength=DNS_LABEL_LENGTH)] = Field(
        None, description="Name of another sub-group."
    )
    min_member: Count32 | None = Field(None, description="Pods needed at the least; for sub-groups without children.")
    min_sub_group: Count32 | None = Field(None, description="Children needed at the least; absent is all of them.")
    topology_constraint: TopologyConstraintSpec | None = None


class PodGroupSpec(Model):
    rules = (_ONE_MINIMUM,)

    min_member: Count32 | None = Field(None, description="Pods needed at the least; absent is 1, 0 is no gang.")
    min_sub_group: Count32 | None = Field(
        None, description="Direct sub-groups needed at the least; absent is all of them."
    )
    queue: Name | None = Field(None, description="Name of a queue without children.")
    priority_class_name: Name | None = None
    preemptibility: Literal["preemptible", "non-preemptible"] | None = Field(
        None, description="Absent: preemptible where the priority is below 100."
    )
    preemption_delay: Duration | None = Field(None, description="Time to wait before evicting others, a Go duration.")
    staleness_grace_period: Duration | None = Field(
        None,
        description="Time for which the gang may be incomplete while running, a Go duration; negative is for ever.",
    )
    mark_unschedulable: bool | None = Field(None, description="False: no condition on pending pods; absent is true.")
    scheduling_backoff: Int32 | None = Field(
        None, description="-1 (absent): always try; else give up after one attempt."
    )
    topology_constraint: TopologyConstraintSpec | None = None
    sub_groups: Annotated[
        list[SubGroupSpec] | None,
        Field(max_length=SUB_GROUPS_MAX),
        schema(**{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
    ] = Field(None, description=f"At most {SUB_GROUP_DEPTH_MAX} above each other.")


class PodGroupCondition(Model):
    required_fields = ("type", "status")

    type: str | None = None
    status: str | None = None
    transition_id: Annotated[str | None, Field(alias="transitionID")] = None
    last_transition_time: Annotated[str | None, schema(format="date-time")] = None
    reason: str | None = None
    message: str | None = None


class QueueDetails(Model):
    name: str | None = None
    queue_requested_resources: Amounts | None = None
    queue_deserved_resources: Amounts | None = None
    queue_allocated_resources: Amounts | None = None
    queue_allocated_non_preemptible_resources: Amounts | None = None
    queue_resource_limits: Amounts | None = None
    pod_group_requested_resources: Amounts | None = None
    pod_group_requested_non_preemptible_resources: Amounts | None = None


class ReasonDetails(Model):
    queue_details: QueueDetails | None = None


class UnschedulableReason(Model):
    reason: str | None = None
    message: str | None = None
    details: ReasonDetails | None = None


class SchedulingCondition(Model):
    type: str | None = None
    node_pool: str | None = None
    reason: str | None = None
    message: str | None = None
    reasons: list[UnschedulableReason] | None = None
    transition_id: Annotated[str | None, Field(alias="transitionID")] = None
    last_transition_time: Annotated[str | None, schema(format="date-time")] = None
    status: str | None = None


class ResourcesStatus(Model):
    allocated: Amounts | None = None
    allocated_non_preemptible: Amounts | None = None
    requested: Amounts | None = None


class PodGroupStatus(Model):
    conditions: list[PodGroupCondition] | None = None
    resources_status: ResourcesStatus | None = None
    scheduling_conditions: list[SchedulingCondition] | None = None


class PodGroupManifest(Model):
    """Pods that are scheduled together, down to a minimum, or not at all."""

    spec: PodGroupSpec | None = None
    status: PodGroupStatus | None = None
