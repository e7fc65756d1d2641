"""Queue, scheduling.run.ai/v2 (API 1.2): the fields, types and bounds of its CRD; its printer columns are in
``crdgen``.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kai_sched.api.custom import INT32_MAX, NAME_LENGTH, Amounts, Duration, Model, Name, schema

# More than any cluster has of anything.
SHARE_MAX = 1e15
_BOUND = f"self >= 0.0 && self <= {SHARE_MAX:.1f} || self == -1.0"
_INT32 = {"format": "int32", "minimum": -INT32_MAX - 1, "maximum": INT32_MAX}


def _bound(text: str) -> dict[str, object]:
    return {"x-kubernetes-validations": [{"rule": _BOUND, "message": f"{text} must be from 0 to {SHARE_MAX:g}, or -1"}]}


class QueueShare(Model):
    """One resource of a queue. CPU in millicores, memory in MB (10^6 bytes), GPUs in devices."""

    quota: Annotated[float | None, schema(**_bound("a quota"))] = Field(
        None, description="Guaranteed share; -1 is unlimited, absent is 0."
    )
    limit: Annotated[float | None, schema(**_bound("a limit"))] = Field(
        None, description="Most that may be allocated; -1 is no limit, absent is 0, which is nothing."
    )
    over_quota_weight: Annotated[float | None, schema(**_bound("a weight"))] = Field(
        None, description="Relative weight in the division of what is over quota; absent is 0."
    )


class QueueResources(Model):
    cpu: QueueShare | None = Field(None, description="Millicores.")
    memory: QueueShare | None = Field(None, description="Megabytes (10^6 bytes).")
    gpu: QueueShare | None = Field(None, description="GPU devices.")


class QueueSpec(Model):
    display_name: Annotated[str | None, schema(maxLength=NAME_LENGTH)] = Field(
        None, description="Name for people, used in messages and metrics."
    )
    parent_queue: Name | None = Field(None, description="Name of the parent; empty for a root queue.")
    priority: Annotated[int | None, schema(nullable=True, **_INT32)] = Field(
        None, description="Higher is served first over quota and reclaimed last; absent is 100."
    )
    preempt_min_runtime: Duration | None = Field(None, description="Runtime protected from preemption, a Go duration.")
    reclaim_min_runtime: Duration | None = Field(None, description="Runtime protected from reclaim, a Go duration.")
    resources: QueueResources | None = Field(
        None, description="Shares by resource; absent is zero for all, the limits too."
    )


class QueueCondition(Model):
    required_fields = ("type", "status")

    type: str | None = None
    status: str | None = None
    last_probe_time: Annotated[str | None, schema(format="date-time")] = None
    last_transition_time: Annotated[str | None, schema(format="date-time")] = None
    reason: str | None = None
    message: str | None = None


class QueueStatus(Model):
    conditions: list[QueueCondition] | None = None
    child_queues: list[str] | None = Field(None, description="Names of the queues whose parent this one is.")
    allocated: Amounts | None = None
    allocated_non_preemptible: Amounts | None = None
    requested: Amounts | None = None
    fair_share: Amounts | None = Field(None, description="What the queue's share of the cluster is at present.")


class QueueManifest(Model):
    """A share of the cluster, and where it stands in the tree of shares."""

    rules = (
        (
            "!has(self.spec) || !has(self.spec.parentQueue) || self.spec.parentQueue != self.metadata.name",
            "a queue cannot be its own parent: leave the field out, or name another queue",
            ".spec.parentQueue",
        ),
    )

    spec: QueueSpec | None = None
    status: QueueStatus | None = None
