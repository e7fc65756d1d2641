"""BindRequest, scheduling.run.ai/v1alpha2 (API 1.4): the fields of its CRD; this scheduler reads the kind and never
writes it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kai_sched.api.custom import Amounts, AnyObject, Int32, Model, Name


class ReceivedGPU(Model):
    count: int | None = Field(None, description="GPU devices.")
    portion: str | None = Field(None, description="Share of each device, with two decimals.")


class ClaimAllocation(Model):
    name: str | None = Field(None, description="Name of the claim in the pod's spec.")
    allocation: AnyObject | None = Field(None, description="A resource.k8s.io/v1 AllocationResult.")


class ContainerMapping(Model):
    required_fields = ("containerName", "resourceName", "requestName")

    container_name: str | None = None
    resource_name: str | None = None
    request_name: str | None = None


class ExtendedClaimAllocation(Model):
    allocation: AnyObject | None = Field(None, description="A resource.k8s.io/v1 AllocationResult.")
    device_requests: list[AnyObject] | None = Field(None, description="resource.k8s.io/v1 DeviceRequests.")
    container_mappings: list[ContainerMapping] | None = None


class NUMAZone(Model):
    required_fields = ("zone", "amount")

    zone: str | None = None
    amount: Amounts | None = None


class BindRequestSpec(Model):
    pod_name: Name | None = None
    selected_node: Name | None = None
    received_resource_type: str | None = Field(None, description="Regular, Fraction or MigInstance.")
    received_gpu: Annotated[ReceivedGPU | None, Field(alias="receivedGPU")] = None
    selected_gpu_groups: Annotated[list[str] | None, Field(alias="selectedGPUGroups")] = None
    resource_claim_allocations: list[ClaimAllocation] | None = None
    extended_resource_claim_allocation: ExtendedClaimAllocation | None = None
    predicted_numa_zones: Annotated[list[NUMAZone] | None, Field(alias="predictedNUMAZones")] = None
    backoff_limit: Int32 | None = Field(None, description="Attempts; absent: the first failure is final.")


class BindRequestStatus(Model):
    phase: Literal["Pending", "Succeeded", "Failed"] | None = None
    reason: str | None = None
    failed_attempts: Int32 | None = None


class BindRequestManifest(Model):
    """A pod's placement that is still to be carried out."""

    spec: BindRequestSpec | None = None
    status: BindRequestStatus | None = None
